package report

import (
	"testing"

	"github.com/wdlrun/wdlrun/internal/model/step"
)

// TestASwingingLossCounts: a training whose predictions swing diverges at its end.
func TestASwingingLossCounts(t *testing.T) {
	var d Divergence
	for n := 1; n <= 55; n++ {
		d.Observe(step.Outcome{Rows: 64, Weight: 64, Loss: 64 * map[bool]float64{true: 0.6, false: 60}[n%6 == 1]})
	}
	if d.Err(55, false) != nil || d.Err(55, true) == nil {
		t.Error("a training with a loss of 60 in five steps of six is taken for sound at its end, or not before")
	}
}

// TestSoundTrainingsDoNotDiverge: outliers, inputs on a large scale and a high initial loss
// are not reported.
func TestSoundTrainingsDoNotDiverge(t *testing.T) {
	for name, lossOf := range map[string]func(n int) float64{
		"outliers":                              func(n int) float64 { return map[bool]float64{true: 1e9, false: 0.5}[n%3 == 0] },
		"large scale":                           func(n int) float64 { return 1e6 / float64(n) },
		"every second step":                     func(n int) float64 { return map[bool]float64{true: 1e9, false: 0.5}[n%2 == 0] },
		"rough start":                           func(n int) float64 { return map[bool]float64{true: 1e5, false: 0.5}[n > 1 && n < 90] },
		"no better than random, and sure of it": func(n int) float64 { return 15 },
	} {
		var d Divergence
		for n := 1; n <= 1000; n++ {
			d.Observe(step.Outcome{Rows: 64, Weight: 64, Loss: 64 * lossOf(n)})
			if err := d.Err(int64(n), false); err != nil {
				t.Errorf("%s: %v", name, err)
				break
			}
		}
		if err := d.Err(1000, true); err != nil {
			t.Errorf("%s: at the end: %v", name, err)
		}
	}
}

// TestStepsCountByTheirWeight: steps of little weight cannot end a training, and steps of equal
// weights can, whatever the scale of the weights.
func TestStepsCountByTheirWeight(t *testing.T) {
	for _, c := range []struct {
		weight, light float64
		want          bool
	}{{3, 3e-3, false}, {1, 1, true}, {1e-3, 1e-3, true}} {
		var d Divergence
		for n := 1; n <= 1000; n++ {
			out := step.Outcome{Rows: 64, Weight: 64 * c.weight, Loss: 64 * c.weight * 0.5}
			if n%3 > 0 && n > 1 {
				out.Weight = 64 * c.light
				out.Loss = 60 * out.Weight
			}
			d.Observe(out)
			d.Observe(step.Outcome{Rows: 64}) // the weight 0
		}
		if got := d.Err(2000, false) != nil; got != c.want {
			t.Errorf("weights of %g, and of %g in two steps of three: diverges %v", c.weight, c.light, got)
		}
	}
}
