package f32

import (
	"math"

	"gonum.org/v1/gonum/blas/gonum"
)

// Axpy adds alpha·x to y. It panics if the lengths differ.
func Axpy(y []float32, alpha float32, x []float32) {
	check("Axpy", "y", len(y), 1, len(x))
	if len(x) > 0 {
		gonum.Implementation{}.Saxpy(len(x), alpha, x, 1, y, 1)
	}
}

// AddTo adds x to y. It panics if the lengths differ.
func AddTo(y, x []float32) {
	check("AddTo", "y", len(y), 1, len(x))
	Axpy(y, 1, x)
}

// Dot returns the sum of x·y in float32, in four interleaved partial sums. It
// panics if the lengths differ.
func Dot(x, y []float32) float32 {
	check("Dot", "y", len(y), 1, len(x))
	var s0, s1, s2, s3 float32
	for len(x) >= 4 && len(y) >= 4 {
		s0 += x[0] * y[0]
		s1 += x[1] * y[1]
		s2 += x[2] * y[2]
		s3 += x[3] * y[3]
		x, y = x[4:], y[4:]
	}
	for i, v := range x {
		s0 += v * y[i]
	}
	return (s0 + s1) + (s2 + s3)
}

// Scale multiplies x by alpha in place. Unlike BLAS, 0·NaN is NaN.
func Scale(x []float32, alpha float32) {
	for i := range x {
		x[i] *= alpha
	}
}

// SumSquares returns the sum of x² in float64, in which no float32 overflows.
func SumSquares(x []float32) float64 {
	var s0, s1, s2, s3 float64
	for len(x) >= 4 {
		a, b, c, d := float64(x[0]), float64(x[1]), float64(x[2]), float64(x[3])
		s0 += a * a
		s1 += b * b
		s2 += c * c
		s3 += d * d
		x = x[4:]
	}
	for _, v := range x {
		s0 += float64(v) * float64(v)
	}
	return (s0 + s1) + (s2 + s3)
}

// FirstNonFinite returns the index of the first NaN or infinity of x, -1 if
// there is none.
func FirstNonFinite(x []float32) int {
	const exponent = 0x7f800000
	for i, v := range x {
		if math.Float32bits(v)&exponent == exponent {
			return i
		}
	}
	return -1
}
