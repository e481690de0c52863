package report

import (
	"fmt"

	"github.com/wdlrun/wdlrun/internal/model/step"
)

// A training diverges if the mean loss of most of its last steps is far above the loss of the
// first step, which is the loss of the untrained model. No sound training stays there: a log-loss
// of 20 gives every label a probability of e^-20, and an input on a large scale also affects
// the first step. A step above the limit counts 1 and a step below −1: predictions that swing
// between the classes are occasionally right for a step. A step counts less if its samples have
// less than the mean weight.
const (
	divergedBy    = 20  // factor of the loss of the first step, or of 1 if that is larger
	divergedSteps = 100 // count at which a training fails; at its end, half of its steps
)

// Diverges is part of the error of a training that diverges. Its last checkpoints have diverged too.
const Diverges = "the training diverges"

// Divergence counts the steps with a loss far above the first step's.
type Divergence struct {
	First  float64 `json:"first"` // mean loss of the first step with a weight
	Steps  float64 `json:"steps"` // steps with a loss above the limit minus later steps below it; at least 0
	Rows   int64   `json:"rows"`  // samples so far
	Weight float64 `json:"weight"`
}

func (d *Divergence) limit() float64 { return divergedBy * max(1, d.First) }

// Observe adds a step.
func (d *Divergence) Observe(out step.Outcome) {
	if out.Weight == 0 {
		return
	}
	if d.Weight == 0 && d.First == 0 {
		d.First = out.Mean()
	}
	d.Rows, d.Weight = d.Rows+out.Rows, d.Weight+out.Weight
	counts := min(1, out.Weight/float64(out.Rows)/(d.Weight/float64(d.Rows)))
	if out.Mean() <= d.limit() {
		counts = -counts
	}
	d.Steps = max(0, d.Steps+counts)
}

// Err returns an error after step n if the training diverges: if the count has reached
// divergedSteps or, if ended, half of the steps.
func (d *Divergence) Err(n int64, ended bool) error {
	limit := int64(divergedSteps)
	if ended {
		limit = n / 2
	}
	if d.Steps < float64(max(limit, 1)) {
		return nil
	}
	return fmt.Errorf("step %d: "+Diverges+": the loss was %.4g in the first step and above %.4g in at least %d of the latest steps; lower train.optimizer.*.learning_rate or set train.clip_norm, and train again",
		n, d.First, d.limit(), int64(d.Steps))
}
