//go:build !noasm

package f32

// The kernels below are called by name: the sums they fill would escape to the
// heap if they were called through the backend.

// sumSquaresFast sets the eight sums of squares of x, which is not empty, if
// there is a backend.
func sumSquaresFast(s *[8]float64, x []float32) bool {
	switch {
	case active == nil:
		return false
	case active.lanes == 16:
		sumSquaresAVX512(&s[0], &x[0], len(x))
	default:
		sumSquaresAVX2(&s[0], &x[0], len(x))
	}
	return true
}

// sigmoidLossFast sets the eight sums of losses of at least one logit, if there
// is a backend.
func sigmoidLossFast(s *[8]float64, grad, logit, label []float32) bool {
	var to *float32
	if grad != nil {
		to = &grad[0]
	}
	switch {
	case active == nil:
		return false
	case active.lanes == 16:
		sigmoidLossAVX512(&s[0], to, &logit[0], &label[0], len(logit))
	default:
		sigmoidLossAVX2(&s[0], to, &logit[0], &label[0], len(logit))
	}
	return true
}
