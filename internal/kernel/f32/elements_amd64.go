//go:build !noasm

package f32

import "unsafe"

// The kernels below are called by name. If they were called through the backend, the sums
// would escape to the heap.

// sumSquaresFast sets the eight sums of squares of x and returns the number of values
// summed, 0 without a backend.
func sumSquaresFast(s *[8]float64, x []float32) int {
	switch {
	case active == nil || len(x) == 0:
		return 0
	case active.lanes == 16:
		sumSquaresAVX512(&s[0], &x[0], len(x))
	default:
		sumSquaresAVX2(&s[0], &x[0], len(x))
	}
	return len(x)
}

// sigmoidLossFast sets the eight sums of losses and returns the number of logits summed, 0
// without a backend.
func sigmoidLossFast(s *[8]float64, grad, logit, label []float32) int {
	to := unsafe.SliceData(grad)
	switch {
	case active == nil || len(logit) == 0:
		return 0
	case active.lanes == 16:
		sigmoidLossAVX512(&s[0], to, &logit[0], &label[0], len(logit))
	default:
		sigmoidLossAVX2(&s[0], to, &logit[0], &label[0], len(logit))
	}
	return len(logit)
}
