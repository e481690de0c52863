package publish

import (
	"fmt"
	"math"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/export"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
)

const (
	// goodWindows is the number of good windows in a row that end a hold.
	goodWindows = 3
	// firstShare: the first version of a job waits for 1/firstShare of a window, if the folder has versions.
	firstShare = 10
	// sure is the number of standard errors beyond a limit that make a difference certain.
	sure = 4
)

// evidence is the result of some samples, predicted before the step that learns from them.
type evidence struct {
	metrics.Metrics
	spread  float64             // standard deviation of the samples' log-loss
	byLabel [2]export.LabelLoss // of negatives and positives
}

// window returns the evidence in the form of a version's manifest.
func (e *evidence) window() *export.Window {
	if e == nil {
		return nil
	}
	return &export.Window{Samples: e.Samples, Positives: e.Positives, LogLoss: e.LogLoss, BaseLogLoss: e.BaseLogLoss, BaseRate: e.BaseRate, AUC: e.AUC, Calibration: e.Calibration, Spread: e.spread, ByLabel: &e.byLabel}
}

func evidenceOf(w *export.Window) *evidence {
	e := &evidence{Metrics: metrics.Metrics{Samples: w.Samples, Positives: w.Positives, LogLoss: w.LogLoss, BaseLogLoss: w.BaseLogLoss, BaseRate: w.BaseRate, AUC: w.AUC, Calibration: w.Calibration}, spread: w.Spread}
	if w.ByLabel != nil {
		e.byLabel = *w.ByLabel
	}
	return e
}

// lossError is the standard error of the log-loss.
func (e *evidence) lossError() float64 { return e.spread / math.Sqrt(float64(max(e.Samples, 1))) }

// aucError is an upper bound of the standard error of the AUC.
func (e *evidence) aucError() float64 {
	few := max(min(e.Positives, e.Samples-e.Positives), 1)
	return math.Sqrt(*e.AUC * (1 - *e.AUC) / float64(few))
}

// fault is why the guard publishes nothing. The zero fault is none.
type fault struct {
	check string // finite, logloss, calibration, rate, auc, feed or logits
	text  string
}

// guard decides whether the model is good enough to publish. It has no clock and does no I/O. It compares
// with the window before the last published version. Without one there is nothing better to
// serve, and only a model that is worse than an untrained one is bad. A difference counts if it exceeds
// its limit by more than chance explains.
type guard struct {
	limits    config.Guard
	early     bool      // samples are negatives first and are repeated as positives
	reference *evidence // the good window before the last published version; nil: none yet
	latest    *evidence // the latest good window
	reason    fault     // why nothing is published
	good      int       // good windows in a row
}

// check returns why the predictions of some samples are bad.
func (g *guard) check(m *evidence) fault {
	l, r, n := &g.limits, g.reference, m.Samples
	least := m.LogLoss - float64(sure*m.lossError())
	switch {
	case n == 0:
		return fault{}
	case math.IsNaN(m.LogLoss) || math.IsInf(m.LogLoss, 0):
		return fault{"finite", fmt.Sprintf("the log-loss of %d samples is not finite", n)}
	case r == nil && least > math.Ln2*(1+l.LogLoss):
		return fault{"logloss", fmt.Sprintf("the log-loss of %d samples is %.4g; a model without training has %.4g", n, m.LogLoss, math.Ln2)}
	case r == nil:
		return fault{}
	case m.LogLoss-float64(sure*math.Hypot(m.lossError(), r.lossError())) > r.LogLoss*(1+l.LogLoss):
		return fault{"logloss", fmt.Sprintf("the log-loss of %d samples is %.4g, before the last version it was %.4g", n, m.LogLoss, r.LogLoss)}
	case r.LogLoss <= r.BaseLogLoss*(1+l.LogLoss) && m.BaseLogLoss > 0 && least > m.BaseLogLoss*(1+l.LogLoss):
		return fault{"logloss", fmt.Sprintf("the log-loss of %d samples is %.4g; predicting their base rate for each has %.4g", n, m.LogLoss, m.BaseLogLoss)}
	case g.ranksWorse(m):
		return fault{"auc", fmt.Sprintf("the AUC of %d samples is %.4g, before the last version it was %.4g", n, *m.AUC, *r.AUC)}
	case g.uncalibrated(m):
		return fault{"calibration", fmt.Sprintf("the calibration of %d samples is %.4g, more than %v from 1", n, *m.Calibration, l.Calibration)}
	}
	return g.checkRate(m)
}

// checkEarly checks some early samples, less than a window. Their rate of positives says when feedback has arrived:
// at the end of a stream all are positives. So the log-loss is compared at the rate of the reference.
func (g *guard) checkEarly(m *evidence) fault {
	r := g.reference
	if m.Samples == 0 || math.IsNaN(m.LogLoss) || math.IsInf(m.LogLoss, 0) || r == nil && 2*m.Positives <= m.Samples { // at most half of a stream is positive
		return g.check(m)
	}
	if r == nil {
		return fault{}
	}
	higher, variance := 0., 0.
	for i, rate := range [2]float64{1 - r.BaseRate, r.BaseRate} {
		is, was := m.byLabel[i], r.byLabel[i]
		if min(is.Samples, was.Samples) < fewest {
			continue // as it was
		}
		higher += float64(rate * (is.LogLoss - was.LogLoss))
		variance += float64(rate * rate * (is.Spread*is.Spread/float64(is.Samples) + was.Spread*was.Spread/float64(was.Samples)))
	}
	switch {
	case higher-float64(sure*math.Sqrt(variance)) > r.LogLoss*g.limits.LogLoss:
		return fault{"logloss", fmt.Sprintf("the log-loss of %d samples would be %.4g at the rate of positives before the last version; it was %.4g", m.Samples, r.LogLoss+higher, r.LogLoss)}
	case g.ranksWorse(m):
		return fault{"auc", fmt.Sprintf("the AUC of %d samples is %.4g, before the last version it was %.4g", m.Samples, *m.AUC, *r.AUC)}
	}
	return fault{}
}

// ranksWorse reports that the AUC is lower than it was, by more than the limit.
func (g *guard) ranksWorse(m *evidence) bool {
	r := g.reference
	return m.AUC != nil && r.AUC != nil && *m.AUC+float64(sure*math.Hypot(m.aucError(), r.aucError())) < *r.AUC-g.limits.AUCDrop
}

// uncalibrated reports that the calibration is further from 1 than the limit, and than it was.
func (g *guard) uncalibrated(m *evidence) bool {
	if m.Calibration == nil || g.reference.Calibration == nil {
		return false
	}
	limit := max(g.limits.Calibration, math.Abs(*g.reference.Calibration-1))
	noise := sure / math.Sqrt(max(float64(m.Positives)**m.Calibration, 1)) // of the positives that the model predicts
	return math.Abs(*m.Calibration-1) > limit+float64(noise**m.Calibration)
}

// checkRate compares the share of positive labels: when feedback stops, or labels are wrong, a model may
// learn to predict them well. The square roots of counts have a standard deviation of 1/2.
func (g *guard) checkRate(m *evidence) fault {
	r, l := g.reference, g.limits.Calibration
	if r.Positives == 0 {
		return fault{}
	}
	const more = sure + 1 // samples of one batch are not independent
	doubt := 3 / math.Sqrt(float64(r.Positives))
	expected, got := float64(m.Samples)*r.BaseRate, float64(m.Samples)*m.BaseRate
	low := expected / (1 + l) * max(1-doubt, 0)
	high := expected * (1 + l) * (1 + doubt)
	if few, many := 2*(math.Sqrt(low)-math.Sqrt(got)) > more, 2*(math.Sqrt(got)-math.Sqrt(high)) > more; few || many {
		return fault{"rate", fmt.Sprintf("the rate of positive labels of %d samples is %.4g, before the last version it was %.4g: more than the factor %v", m.Samples, m.BaseRate, r.BaseRate, 1+l)}
	}
	return fault{}
}

// checkFeed compares the last published version with itself: if its predictions have lost half of their
// ranking, labels or columns have changed, and a model that has learned them has good windows again.
func (g *guard) checkFeed(published *evidence) fault {
	r := g.reference
	if published == nil || r == nil || r.AUC == nil || *r.AUC <= .5 || published.AUC == nil {
		return fault{}
	}
	if *published.AUC+float64(sure*published.aucError()) < .5+(*r.AUC-.5)/2 {
		return fault{"feed", fmt.Sprintf("the last version has the AUC %.4g on %d samples, before it was published it was %.4g: labels or columns of the data have changed", *published.AUC, published.Samples, *r.AUC)}
	}
	return fault{}
}

// window takes a complete window. published is the last version's evidence for the same samples, during a hold.
func (g *guard) window(m, published *evidence) {
	why := g.check(m)
	if why == (fault{}) {
		why = g.checkFeed(published)
	}
	if why != (fault{}) {
		g.reason, g.good = why, 0
		return
	}
	g.latest = m
	if g.good++; g.good >= goodWindows {
		g.reason = fault{}
	}
}

// verdict returns why no version may begin now. recent are the samples since the last one began.
func (g *guard) verdict(recent *evidence) fault {
	switch {
	case g.reason != (fault{}):
		return g.reason
	case g.early:
		return g.checkEarly(recent)
	}
	return g.check(recent)
}

// fewest is the number of samples of each class that a reference has at least. Feedback comes later than impressions, so
// that the first windows of a stream may have none.
const fewest = 9

// published makes the latest window the reference of the next ones.
func (g *guard) published() {
	if m := g.latest; m != nil && min(m.Positives, m.Samples-m.Positives) >= fewest {
		g.reference = g.latest
	}
}

// released accepts the model as it is: a person has ended the hold.
func (g *guard) released() { g.reason, g.reference, g.latest, g.good = fault{}, nil, nil, 0 }
