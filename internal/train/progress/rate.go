package progress

import (
	"math"

	"github.com/wdlrun/wdlrun/internal/config"
)

// Rate returns the factor of all learning rates at one training step; steps count from 1 to stepsTotal. In the
// warm-up of w steps it is step/w. The n steps after the warm-up are t = 0 … n−1:
//
//	constant, plateau  1 (a plateau's falls are State.RateFactor)
//	linear             1 − (1−min)·t/(n−1)
//	cosine             min + (1−min)·(1 + cos(π·t/(n−1)))/2    Loshchilov and Hutter 2017, eq. 5
//	step               max(min, factor^⌊t/every_steps⌋)
//
// So linear and cosine start at 1 and end at min, which also holds after the last step. Rate
// is a pure function: a resumed training needs no state for it.
func Rate(s config.Schedule, step, stepsTotal int64) float64 {
	step = max(0, step)
	if s.Warmup > 0 && step <= s.Warmup {
		return float64(step) / float64(s.Warmup)
	}
	t, last := max(0, step-s.Warmup-1), stepsTotal-s.Warmup-1
	p := 0.0
	if last > 0 {
		p = min(1, float64(t)/float64(last))
	} else if t > 0 {
		p = 1
	}
	switch s.Kind {
	case "linear":
		return 1 - float64((1-s.Min)*p)
	case "cosine":
		return s.Min + (1-s.Min)*(1+math.Cos(math.Pi*p))/2
	case "step":
		if s.EverySteps > 0 {
			return max(s.Min, math.Pow(s.Factor, float64(t/s.EverySteps)))
		}
	}
	return 1
}
