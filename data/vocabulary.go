package data

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// Limits of one vocabulary.
const (
	mostWords     = 4 << 20
	mostWordBytes = 256 << 20
)

// vocabulary counts the distinct strings of a column.
type vocabulary struct {
	index  map[string]int32
	counts []int64
	bytes  int // of all strings
}

func newVocabulary() *vocabulary { return &vocabulary{index: map[string]int32{}} }

// add counts a string. It fails when there are too many.
func (v *vocabulary) add(b []byte, n int64) error {
	if i, ok := v.index[string(b)]; ok {
		v.counts[i] += n
		return nil
	}
	if len(v.counts) >= mostWords || v.bytes+len(b) > mostWordBytes {
		return fmt.Errorf("there are more than %d distinct values (or %d MiB of them), too many for a vocabulary; use encode: hash", mostWords, mostWordBytes>>20)
	}
	v.index[string(b)] = int32(len(v.counts))
	v.counts = append(v.counts, n)
	v.bytes += len(b)
	return nil
}

// words returns the strings that occur at least so often, sorted.
func (v *vocabulary) words(least int64) []string {
	words := make([]string, 0, len(v.counts))
	for w, i := range v.index {
		if v.counts[i] >= least {
			words = append(words, w)
		}
	}
	slices.Sort(words)
	return words
}

func (v *vocabulary) append(b []byte) []byte {
	words := v.words(1)
	b = binary.AppendUvarint(b, uint64(len(words)))
	for _, w := range words {
		b = binary.AppendUvarint(b, uint64(len(w)))
		b = append(b, w...)
		b = binary.AppendUvarint(b, uint64(v.counts[v.index[w]]))
	}
	return b
}

// merge adds an encoded vocabulary.
func (v *vocabulary) merge(r *wire) error {
	for range r.length(mostWords, 2) {
		word := r.bytes(mostLine)
		n := r.positive()
		if r.err != nil {
			return r.err
		}
		if err := v.add(word, n); err != nil {
			return err
		}
	}
	return r.err
}
