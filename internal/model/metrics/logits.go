package metrics

import (
	"fmt"
	"math"
)

// floorSpread replaces a smaller standard deviation of current logits: a model at the beginning of its
// training has almost equal logits, and the next one may differ.
const floorSpread = 1

// moments are the mean and the standard deviation of logits.
type moments struct{ mean, spread float64 }

// momentsOf returns the moments of logits. ok is false if one is not finite.
func momentsOf(logits []float32) (m moments, ok bool) {
	n, square := float64(len(logits)), 0.0
	for _, z := range logits {
		m.mean += float64(z) / n
	}
	for _, z := range logits {
		square += (float64(z) - m.mean) * (float64(z) - m.mean) / n
	}
	m.spread = math.Sqrt(square)
	return m, !math.IsNaN(m.spread) && !math.IsInf(m.spread, 0)
}

// CompareLogits returns why the logits of a new version differ too much from the current ones of the same
// rows, "" if they do not. The limit is in standard deviations of the current logits for the mean, and
// a factor for the standard deviation. A new version that ranks the rows in the opposite order is unlike, too. A
// current version whose logits are not finite accepts any other.
func CompareLogits(current, next []float32, limit float64) string {
	is, fine := momentsOf(next)
	if !fine {
		return "its logits are not finite"
	}
	was, ok := momentsOf(current)
	if !ok || len(next) == 0 {
		return ""
	}
	unit := max(was.spread, floorSpread)
	switch r := correlation(current, next, was, is); {
	case math.Abs(is.mean-was.mean) > limit*unit:
		return fmt.Sprintf("the mean of its logits is %.4g, the current version's is %.4g with standard deviation %.4g", is.mean, was.mean, was.spread)
	case is.spread > limit*unit, was.spread > floorSpread && is.spread < was.spread/limit:
		return fmt.Sprintf("the standard deviation of its logits is %.4g, the current version's is %.4g", is.spread, was.spread)
	case r < 0:
		return fmt.Sprintf("the correlation of its logits with the current version's is %.3g: it ranks the rows in the opposite order", r)
	}
	return ""
}

// correlation returns the correlation of logits if it is certain to be negative, otherwise 0. A model at the
// beginning of its training has no order yet.
func correlation(a, b []float32, was, is moments) (r float64) {
	const order, errors = floorSpread / 4., 5 // standard deviation; standard errors of a correlation of 0
	if min(was.spread, is.spread) < order || len(a) != len(b) {
		return 0
	}
	for i := range a {
		r += (float64(a[i]) - was.mean) / was.spread * (float64(b[i]) - is.mean) / is.spread
	}
	n := float64(len(a))
	if r /= n; r > -errors/math.Sqrt(n) {
		return 0
	}
	return r
}

// LogLoss returns the log-loss of a logit.
func LogLoss(logit float32, positive bool) float64 {
	class := 0
	if positive {
		class = 1
	}
	loss, _ := lossOf(float64(logit), class)
	return loss
}
