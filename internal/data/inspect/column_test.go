package inspect

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestLongTail: amounts far from the others are found, whatever their unit, and not in distributions
// without a tail.
func TestLongTail(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for name, c := range map[string]struct {
		draw func(i int) float64
		want bool
	}{
		"normal":         {func(int) float64 { return rng.NormFloat64() }, false},
		"uniform":        {func(i int) float64 { return float64(i % 100) }, false},
		"exponential":    {func(int) float64 { return rng.ExpFloat64() }, false},
		"times":          {func(i int) float64 { return 1.7e9 + float64(i) }, false},
		"constant":       {func(int) float64 { return 7 }, false},
		"log-normal":     {func(int) float64 { return math.Exp(1.5 * rng.NormFloat64()) }, true},
		"one amount":     {func(i int) float64 { return map[bool]float64{true: 11820, false: float64(i % 3)}[i == 777] }, true},
		"one loss":       {func(i int) float64 { return map[bool]float64{true: -11820, false: float64(i % 3)}[i == 777] }, true},
		"mostly nothing": {func(i int) float64 { return max(0, float64(i%50-45)) }, true},
	} {
		for _, unit := range []float64{1, 1000} {
			var all []weighted
			for i := range 10_000 {
				all = append(all, weighted{unit * c.draw(i), 1})
			}
			if got := hasLongTail(all); got != c.want {
				t.Errorf("%s × %g: long tail %v", name, unit, got)
			}
		}
	}
	if hasLongTail(nil) {
		t.Error("a column without numbers has a long tail")
	}
}
