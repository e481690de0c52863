package encode

import (
	"errors"
	"math/bits"
)

// A value that a vocabulary does not have is unknown for one of these reasons.
const (
	Newer       = iota // it was not in the training data
	Rare               // it was, but too rarely for the vocabulary (min_count, max_size)
	OtherFormat        // no value of the vocabulary is written in its form
	Reasons            // their number
)

// ReasonName returns the name of a reason in results and metrics.
func ReasonName(reason int) string { return [Reasons]string{"newer", "rare", "other_format"}[reason] }

// rareWords is a Bloom filter of the keys of strings that a vocabulary leaves out because of min_count
// or max_size: about one string in a hundred that was not added is found all the same. Its bytes are
// the bits; their number is a power of two.
type rareWords []byte

const (
	rareBits   = 10 // per string, at least
	rareProbes = 7
	maxRare    = 1 << 24 // bytes
)

// newRareWords returns a filter for n strings.
func newRareWords(n int) rareWords {
	return make(rareWords, max(8, 1<<bits.Len(uint(max(1, n*rareBits/8)-1))))
}

// place returns the bit of a probe for a key.
func (r rareWords) place(key uint64, probe int) uint64 {
	return (key + uint64(probe)*(key>>32|1)) & uint64(8*len(r)-1)
}

func (r rareWords) add(key uint64) {
	for p := range rareProbes {
		at := r.place(key, p)
		r[at/8] |= 1 << (at % 8)
	}
}

func (r rareWords) has(key uint64) bool {
	for p := range rareProbes {
		if at := r.place(key, p); len(r) == 0 || r[at/8]>>(at%8)&1 == 0 {
			return false
		}
	}
	return true
}

// with returns a filter with the strings of both. If more than half of its bits would be set, it has
// those of r only.
func (r rareWords) with(older rareWords) rareWords {
	if len(r) == 0 || len(older) == 0 {
		return append(append(rareWords(nil), r...), older...)
	}
	both, set := make(rareWords, max(len(r), len(older))), 0
	for i := range both {
		both[i] = r[i%len(r)] | older[i%len(older)]
		set += bits.OnesCount8(both[i])
	}
	if set > 4*len(both) {
		return r
	}
	return both
}

func (r rareWords) check() error {
	if n := len(r); n&(n-1) != 0 || n > maxRare {
		return errors.New("the filter of rare values is damaged")
	}
	return nil
}
