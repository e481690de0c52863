package report

import (
	"fmt"
	"strings"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/optim"
)

// RatesReport holds the effective learning rates of train.optimizer; tables may have rules of
// their own. A schedule multiplies the rates of all rules except ftrl.
type RatesReport struct {
	Batch      int64   `json:"batch"`       // samples of a whole step
	FirstBatch int64   `json:"first_batch"` // samples of the first step
	Dense      float64 `json:"dense,omitempty"`
	Deep       float64 `json:"deep,omitempty"`
	Wide       float64 `json:"wide,omitempty"`
}

// Rates returns the rates of a whole step on size ranks, and a line that describes them.
func Rates(t config.Train, size int) (r RatesReport, line string) {
	batch := t.Global(size)
	r = RatesReport{Batch: int64(batch), FirstBatch: int64(t.Growth().Batch(0, batch))}
	var rules []string
	for _, x := range []struct {
		name string
		rule optim.Rule
		rate *float64
	}{{"dense", t.Optimizer.Dense, &r.Dense}, {"deep", t.Optimizer.Deep, &r.Deep}, {"wide", t.Optimizer.Wide, &r.Wide}} {
		if x.rule.Kind == "" {
			continue // the model does not have this part
		}
		if *x.rate = x.rule.LearningRate; t.Scaling != "none" {
			*x.rate = x.rule.RateOf(float64(r.Batch))
		}
		rules = append(rules, fmt.Sprintf("%s %s %.3g", x.name, x.rule.Kind, *x.rate))
	}
	line = fmt.Sprintf("learning rates at %d samples per step: %s", r.Batch, strings.Join(rules, ", "))
	if r.FirstBatch != r.Batch {
		line += fmt.Sprintf("; the batch grows from %d (train.scaling)", r.FirstBatch)
	}
	return r, line
}
