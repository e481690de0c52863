package exact

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// TestSum against big.Float, for numbers of all magnitudes, in parts.
func TestSum(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 200 {
		var parts [3]Sum
		want := new(big.Float).SetPrec(4096)
		for i := range 1 + rng.IntN(50) {
			x := math.Float64frombits(rng.Uint64())
			if round%2 == 0 {
				x = rng.NormFloat64()
			}
			if i%7 == 0 {
				x = float64(rng.IntN(3)) * math.SmallestNonzeroFloat64
			}
			if math.IsNaN(x) || math.IsInf(x, 0) {
				continue
			}
			parts[i%3].Add(x)
			want.Add(want, new(big.Float).SetFloat64(x))
		}
		for k := range parts {
			if parts[k].Carry(); k > 0 {
				for i, l := range parts[k].Limb {
					parts[0].Limb[i] += l
				}
			}
		}
		if w, _ := want.Float64(); parts[0].Float64() != w {
			t.Fatalf("round %d: %v, want %v", round, parts[0].Float64(), w)
		}
	}
}

func TestCancellation(t *testing.T) {
	var s Sum
	for _, x := range []float64{1e308, 1, -1e308, math.Inf(1), math.NaN(), 1e-300} {
		s.Add(x)
	}
	if got := s.Float64(); got != 1 {
		t.Errorf("%v", got)
	}
}
