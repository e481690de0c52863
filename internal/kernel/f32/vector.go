package f32

import "math"

// Axpy adds alpha·x to y. It panics if the lengths differ.
func Axpy(y []float32, alpha float32, x []float32) {
	check("Axpy", "y", len(y), 1, len(x))
	if active != nil && len(x) > 0 {
		active.axpy(&y[0], &x[0], len(x), alpha)
		return
	}
	for i, v := range x {
		y[i] += float32(alpha * v) // not fused: the same bits everywhere
	}
}

// AddTo adds x to y. It panics if the lengths differ.
func AddTo(y, x []float32) {
	check("AddTo", "y", len(y), 1, len(x))
	Axpy(y, 1, x)
}

// Scale multiplies x by alpha in place. Unlike BLAS, 0·NaN is NaN.
func Scale(x []float32, alpha float32) {
	if active != nil && len(x) > 0 {
		active.scale(&x[0], len(x), alpha)
		return
	}
	for i := range x {
		x[i] *= alpha
	}
}

// MulTo multiplies y by x, element by element. It panics if the lengths differ.
func MulTo(y, x []float32) {
	check("MulTo", "y", len(y), 1, len(x))
	if active != nil && len(x) > 0 {
		active.mulTo(&y[0], &x[0], len(x))
		return
	}
	for i, v := range x {
		y[i] *= v
	}
}

// SumSquares returns the sum of x² in float64, in which no float32 overflows. It adds eight
// interleaved partial sums, the same on every machine.
func SumSquares(x []float32) float64 {
	var s [8]float64
	for i := sumSquaresFast(&s, x); i < len(x); i++ {
		s[i%8] += float64(float64(x[i]) * float64(x[i])) // exact: fused or not
	}
	return sum8(&s)
}

func sum8(s *[8]float64) float64 {
	return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
}

// FirstNonFinite returns the index of the first NaN or infinity of x, or -1.
func FirstNonFinite(x []float32) int {
	if active != nil && (len(x) == 0 || active.finite(&x[0], len(x))) {
		return -1
	}
	const exponent = 0x7f800000
	for i, v := range x {
		if math.Float32bits(v)&exponent == exponent {
			return i
		}
	}
	return -1
}
