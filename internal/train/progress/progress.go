// Package progress decides from the metrics of evaluations when a training has improved and when
// it ends, and computes the learning rate of each step. Its functions are pure: every rank that
// passes the same metrics gets the same decisions.
package progress

import (
	"math"

	"github.com/wdlrun/wdlrun/internal/config"
)

// State is the state of early stopping and of a plateau schedule between evaluations of
// the validation data. It is plain data for a checkpoint; its zero value is the start of a
// training.
type State struct {
	Evaluations int     `json:"evaluations"`
	BestEpoch   int     `json:"best_epoch"` // 0: none yet
	BestStep    int64   `json:"best_step"`
	Step        int64   `json:"step"`   // step of the last evaluation
	Best        float64 `json:"best"`   // metric of the best evaluation
	Waited      int     `json:"waited"` // evaluations since the best one
	RateWaited  int     `json:"rate_waited"`
	Falls       int     `json:"falls"` // number of reductions of the learning rate
}

// Verdict is the decision after one evaluation.
type Verdict struct {
	Improved bool // the parameters are the best so far: keep them
	Stop     bool // end training and restore the best parameters
}

// Observe adds the metric of one evaluation, made after the given step, in or after the given
// epoch (counted from 1). The metric is the one that EarlyStop.Metric names: a higher AUC or
// a lower log-loss is an improvement. A metric that is not finite never improves. t must be
// filled (config.Config.Fill).
func (p State) Observe(t *config.Train, epoch int, step int64, metric float64) (State, Verdict) {
	p.Evaluations++
	p.Step = step
	if p.improves(t.EarlyStop, metric) {
		p.BestEpoch, p.BestStep, p.Best, p.Waited, p.RateWaited = epoch, step, metric, 0, 0
		return p, Verdict{Improved: true}
	}
	p.Waited++
	p.RateWaited++
	if t.Schedule.Kind == "plateau" && p.RateWaited >= t.Schedule.Patience {
		p.RateWaited = 0
		p.Falls++
	}
	stop := t.EarlyStop.Patience > 0 && p.Waited >= t.EarlyStop.Patience
	return p, Verdict{Stop: stop}
}

// RateFactor returns the current factor of the learning rates under a plateau schedule; 1 for
// every other schedule.
func (p State) RateFactor(s config.Schedule) float64 {
	if s.Kind != "plateau" {
		return 1
	}
	return max(s.Min, math.Pow(s.Factor, float64(p.Falls)))
}

func (p State) improves(e config.EarlyStop, metric float64) bool {
	if math.IsNaN(metric) || math.IsInf(metric, 0) {
		return false
	}
	if p.BestEpoch == 0 {
		return true
	}
	if e.Metric == "logloss" {
		return metric < p.Best-e.MinDelta
	}
	return metric > p.Best+e.MinDelta
}
