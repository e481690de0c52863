package report

import (
	"math"
	"slices"

	"github.com/wdlrun/wdlrun/internal/runs"
)

// isKept reports whether early stopping kept the model of another evaluation than the last.
func isKept(r *runs.Run) bool {
	return r.Result != nil && (r.Result.BestEpoch != 0 || r.Result.BestStep != 0)
}

// bestPoint returns 1 + the index of the evaluation of validation data whose model early stopping kept, or
// before which the model began to overfit, 0 for none.
func bestPoint(r *runs.Run) int {
	if !isKept(r) {
		if best, _, _, rises := overfits(r); rises {
			return 1 + slices.IndexFunc(r.Valid, func(p runs.Point) bool { return p.LogLoss == best })
		}
		return 0
	}
	return 1 + slices.IndexFunc(r.Valid, func(p runs.Point) bool {
		if r.Result.BestStep > 0 {
			return p.Step == r.Result.BestStep
		}
		return p.Epoch == int64(r.Result.BestEpoch)
	})
}

// overfits reports whether the validation loss rose by more than a hundredth after its
// minimum, in which epoch.
func overfits(r *runs.Run) (best, last float64, epoch int64, rises bool) {
	best, last = math.Inf(1), math.NaN()
	for _, p := range r.Valid {
		if finite(p.LogLoss) {
			if last = p.LogLoss; last < best {
				best, epoch = last, p.Epoch
			}
		}
	}
	return best, last, epoch, last > float64(best*1.01) && (!isKept(r))
}
