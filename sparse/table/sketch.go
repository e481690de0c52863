package table

import (
	"slices"

	"github.com/wdlrun/wdlrun/internal/kernel/f32"
)

// sketch counts occurrences of the keys of one shard in bounded memory. It is a count-min
// sketch (Cormode and Muthukrishnan 2005) of sketchRows rows of bytes. Only the smallest
// counters of a key are incremented (conservative update, Estan and Varghese 2002), which
// overcounts less. All counters are halved after as many occurrences as there are counters,
// so that keys seen once long ago expire (Einziger, Friedman and Manes 2017).
//
// All keys of a step are looked up before the first is counted, and halving waits until the
// last. The counters therefore do not depend on the order of a step's keys, which differs
// between numbers of ranks.
type sketch struct {
	counts []uint8 // sketchRows times a power of two
	seen   int     // occurrences since the last halving
	last   int64   // step of the last occurrence; 0: none since it was loaded
}

const sketchRows = 4

// sketchLen returns the number of counters of a sketch of about n, at least 64.
func sketchLen(n int) int {
	row := 16
	for row*2*sketchRows <= n {
		row *= 2
	}
	return sketchRows * row
}

// ShardBytes returns the memory of the occurrence counts of one of shards shards that has
// any.
func (a Admit) ShardBytes(shards int) int64 {
	if a.After <= 1 {
		return 0
	}
	return int64(sketchLen(a.Counters / shards))
}

func newSketch(n int) sketch { return sketch{counts: make([]uint8, sketchLen(n))} }

// places returns the indices of the counters of the key with that hash.
func (s *sketch) places(h uint64) (at [sketchRows]uint64) {
	row := uint64(len(s.counts) / sketchRows)
	for i := range at {
		h = f32.Mix(h + f32.Golden)
		at[i] = uint64(i)*row + h&(row-1)
	}
	return at
}

// times returns how often the key with that hash occurred. It may overcount.
func (s *sketch) times(h uint64) uint8 {
	if s.counts == nil {
		return 0
	}
	least := uint8(255)
	for _, j := range s.places(h) {
		least = min(least, s.counts[j])
	}
	return least
}

// count counts an occurrence of a key that had occurred before times before the step.
func (s *sketch) count(h uint64, before uint8) {
	if before == 255 {
		return
	}
	for _, j := range s.places(h) {
		s.counts[j] = max(s.counts[j], before+1)
	}
	s.seen++
}

// least returns the index of the first of a key's smallest counters. Setting it to zero
// makes the key new. Keys that share the counter are then undercounted.
func (s *sketch) least(h uint64) uint64 {
	at := s.places(h)
	least := at[0]
	for _, j := range at[1:] {
		if s.counts[j] < s.counts[least] {
			least = j
		}
	}
	return least
}

// fade halves the counters if enough occurrences were counted.
func (s *sketch) fade() {
	for s.seen >= len(s.counts) {
		s.seen -= len(s.counts)
		for i := range s.counts {
			s.counts[i] /= 2
		}
	}
}

// clone returns a copy.
func (s *sketch) clone() sketch { return sketch{slices.Clone(s.counts), s.seen, s.last} }
