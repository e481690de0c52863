package f32

import "math"

// The plain loops of the products. They are the specification: every machine computes these
// bits. CPUs without kernels run them. An element is one chain of multiply-adds, each
// rounded once.

// forwardPlain is Forward.
func forwardPlain(y, x, w, bias []float32, rows, in, out int, relu bool) {
	if bias == nil {
		clear(y)
	} else {
		for r := range rows {
			copy(y[r*out:(r+1)*out], bias)
		}
	}
	addProduct(y, x, w, rows, in, out)
	for i := 0; relu && i < len(y); i++ {
		if y[i] < 0 {
			y[i] = 0
		}
	}
}

// transposePlain stores the transpose of w, in×out, in blocks of 16 columns:
// 16 written cache lines are filled before the next.
func transposePlain(t, w []float32, in, out int) {
	const block = 16
	for j := 0; j < out; j += block {
		width := min(block, out-j)
		for i := range in {
			for k, v := range w[i*out+j:][:width] {
				t[(j+k)*in+i] = v
			}
		}
	}
}

// addProduct computes c += a·b for a m×k, b k×n, c m×n.
func addProduct(c, a, b []float32, m, k, n int) {
	for i := range m {
		for l, v := range a[i*k : (i+1)*k] {
			fuseRow(c[i*n:(i+1)*n], v, b[l*n:])
		}
	}
}

// addTransposedProduct computes c += aᵀ·b for a k×m, b k×n, c m×n.
func addTransposedProduct(c, a, b []float32, m, k, n int) {
	for l := range k {
		for i, v := range a[l*m : (l+1)*m] {
			fuseRow(c[i*n:(i+1)*n], v, b[l*n:])
		}
	}
}

// fuseRow adds alpha·x to c as fused does.
func fuseRow(c []float32, alpha float32, x []float32) {
	x = x[:len(c)]
	for j, a := 0, float64(alpha); j < len(c); j++ {
		sum := float64(a*float64(x[j])) + float64(c[j])
		if roundsTwice(sum) {
			c[j] = fused(alpha, x[j], c[j])
			continue
		}
		c[j] = float32(sum)
	}
}

// addRow adds x to c.
func addRow(c, x []float32) {
	x = x[:len(c)]
	for j := range c {
		c[j] += x[j]
	}
}

// fused returns a·b + c, rounded once. The product is exact in float64.
func fused(a, b, c float32) float32 {
	sum := float64(float64(a)*float64(b)) + float64(c)
	if roundsTwice(sum) {
		sum = roundToOdd(float64(float64(a)*float64(b)), float64(c))
	}
	return float32(sum)
}

// roundsTwice reports whether rounding a float64 sum to float32 may differ from rounding
// the exact sum. This is so halfway between two float32, where the lower 29 bits are a 1
// and zeros, and where float32 is subnormal.
func roundsTwice(sum float64) bool {
	const fraction, half, normal = 1<<29 - 1, 1 << 28, 0x381 << 53
	bits := math.Float64bits(sum)
	return bits&fraction == half || bits<<1-1 < normal-1
}

// roundToOdd returns p + q rounded to odd, so that rounding it to float32 equals rounding
// the exact sum.
func roundToOdd(p, q float64) float64 {
	sum := p + q
	t := sum - p
	if lost := (p - (sum - t)) + (q - t); lost > 0 || lost < 0 {
		if bits := math.Float64bits(sum); bits&1 == 0 {
			if (lost > 0) == (sum > 0) {
				bits++
			} else {
				bits--
			}
			sum = math.Float64frombits(bits)
		}
	}
	return sum
}
