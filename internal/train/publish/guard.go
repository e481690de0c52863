package publish

import (
	"fmt"
	"math"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
)

// goodWindows is the number of good windows in a row that end a hold.
const goodWindows = 3

// partShare: a window of which at least 1/partShare is complete is checked before a version begins.
const partShare = 10

// guard decides, window by window, whether the model is good enough to publish. It has no clock and
// does no I/O. Windows are metrics of predictions before the step that learns from the samples.
type guard struct {
	limits    config.Guard
	reference *metrics.Metrics // the good window before the last published version; nil: none yet
	latest    *metrics.Metrics // the latest good window
	reason    string           // why nothing is published; "" if it is
	good      int              // good windows in a row
}

// check returns why a window is bad, "" if it is good.
func (g *guard) check(m *metrics.Metrics) string {
	l, n := &g.limits, m.Samples
	switch {
	case math.IsNaN(m.LogLoss) || math.IsInf(m.LogLoss, 0):
		return fmt.Sprintf("the log-loss of %d samples is not finite", n)
	case m.BaseLogLoss > 0 && m.LogLoss > m.BaseLogLoss*(1+l.LogLoss):
		return fmt.Sprintf("the log-loss of %d samples is %.4g; predicting their base rate for each has %.4g", n, m.LogLoss, m.BaseLogLoss)
	case m.Calibration != nil && math.Abs(*m.Calibration-1) > l.Calibration:
		return fmt.Sprintf("the calibration of %d samples is %.4g, more than %v from 1", n, *m.Calibration, l.Calibration)
	}
	r := g.reference
	switch {
	case r == nil:
	case m.LogLoss > r.LogLoss*(1+l.LogLoss):
		return fmt.Sprintf("the log-loss of %d samples is %.4g, before the last version it was %.4g", n, m.LogLoss, r.LogLoss)
	case m.AUC != nil && r.AUC != nil && *m.AUC < *r.AUC-l.AUCDrop:
		return fmt.Sprintf("the AUC of %d samples is %.4g, before the last version it was %.4g", n, *m.AUC, *r.AUC)
	}
	return ""
}

// window takes a complete window.
func (g *guard) window(m metrics.Metrics) {
	if why := g.check(&m); why != "" {
		g.reason, g.good = why, 0
		return
	}
	g.latest = &m
	if g.good++; g.good >= goodWindows {
		g.reason = ""
	}
}

// verdict returns why no version may begin now, "" if one may. part is the incomplete window.
func (g *guard) verdict(part metrics.Metrics) string {
	if g.reason == "" && part.Samples >= g.limits.Window/partShare {
		return g.check(&part)
	}
	return g.reason
}

// published makes the latest window the reference of the next ones.
func (g *guard) published() { g.reference = g.latest }

// released accepts the model as it is: a person has ended the hold.
func (g *guard) released() { g.reason, g.reference, g.good = "", nil, 0 }

// watch is the guard of a training, on rank 0. It measures the samples of that rank. A nil watch does
// nothing.
type watch struct {
	guard
	tally *metrics.Tally
	seen  int64  // samples of the window
	held  bool   // this guard holds the folder
	said  string // the reason that was reported
}

// newWatch returns nil if the guard is disabled.
func newWatch(c config.Guard) *watch {
	if c.Action == "" {
		return nil
	}
	return &watch{guard: guard{limits: c}, tally: metrics.NewTally()}
}
