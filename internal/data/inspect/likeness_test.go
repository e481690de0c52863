package inspect

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestLikeness: labels that depend on the number itself are distinguished from labels that
// depend smoothly on it, or not at all.
func TestLikeness(t *testing.T) {
	const rows, values = 10_000, 4000
	for name, x := range map[string]struct {
		rate  func(v int) float64
		named bool
	}{
		"no dependence": {func(int) float64 { return .3 }, false},
		"rising":        {func(v int) float64 { return .1 + .8*float64(v)/values }, false},
		"a wave":        {func(v int) float64 { return .5 + .4*math.Sin(float64(v)/200) }, false},
		"a step":        {func(v int) float64 { return map[bool]float64{true: .9, false: .1}[v > values/3] }, false},
		"names":         {func(v int) float64 { return float64(v*7919%1000) / 1000 }, true},
	} {
		for seed := range uint64(20) {
			r := rand.New(rand.NewPCG(seed, 1))
			all := make([]labelled, rows)
			for i := range all {
				v := int(values * math.Pow(r.Float64(), 2)) // small numbers are more frequent
				all[i].x = float64(v)
				if r.Float64() < x.rate(v) {
					all[i].y = 1
				}
			}
			if z := likenessOf(all); (z >= SureLikeness) != x.named {
				t.Errorf("%s, seed %d: %.1f", name, seed, z)
			}
		}
	}
	if z := likenessOf(nil); z != 0 {
		t.Errorf("of no records: %v", z)
	}
}
