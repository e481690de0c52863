package eight

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestEightsIsPlain(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	for n := 0; n <= 160; n += 8 {
		words := make([]uint64, n+1) // the last must not change
		for i := range words {
			words[i] = draw.Uint64() >> draw.IntN(64)
		}
		want, flip := slices.Clone(words), draw.Uint64()
		hashPlain(want[:n], flip)
		if Hash(words[:n], flip); !slices.Equal(words, want) {
			t.Fatalf("%d words: %x, want %x", n, words, want)
		}
	}
}
