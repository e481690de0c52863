package f32

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"
)

// This file is the portable code: what runs where there is no assembly. The two
// products are cut into tiles that stay in the first-level cache and
// given to gonum, whose inner loop is four lanes wide. Tiles are also below the
// size at which gonum would start goroutines and allocate: fewer than four
// blocks of 64×64 in the result. Where rows of the result are shorter than
// narrow, its calls cost more than they do and the loops below are used.
const (
	tileRows  = 64
	tileCols  = 128
	tileDepth = 64
	narrow    = 24
)

// forwardPortable is Forward.
func forwardPortable(y, x, w, bias []float32, rows, in, out int, relu bool) {
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

// transposePortable stores the transpose of w, in×out, in blocks of 16 columns:
// 16 written cache lines are filled before the next.
func transposePortable(t, w []float32, in, out int) {
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

// addProduct computes c += a·b for a m×k, b k×n, c m×n. Each element of c is
// summed over k upwards.
func addProduct(c, a, b []float32, m, k, n int) {
	if m == 0 || k == 0 || n == 0 {
		return
	}
	if n < narrow {
		addNarrow(c, a, b, m, k, n)
		return
	}
	width := tileWidth(n)
	for i := 0; i < m; i += tileRows {
		mm := min(tileRows, m-i)
		for j := 0; j < n; j += width {
			nn := min(width, n-j)
			for l := 0; l < k; l += tileDepth {
				gonum.Implementation{}.Sgemm(blas.NoTrans, blas.NoTrans, mm, nn, min(tileDepth, k-l),
					1, a[i*k+l:], k, b[l*n+j:], n, 1, c[i*n+j:], n)
			}
		}
	}
}

// addTransposedProduct computes c += aᵀ·b for a k×m, b k×n, c m×n, in the same
// order.
func addTransposedProduct(c, a, b []float32, m, k, n int) {
	if m == 0 || k == 0 || n == 0 {
		return
	}
	if n < narrow {
		addTransposedNarrow(c, a, b, m, k, n)
		return
	}
	width := tileWidth(n)
	for i := 0; i < m; i += tileRows {
		mm := min(tileRows, m-i)
		for j := 0; j < n; j += width {
			nn := min(width, n-j)
			for l := 0; l < k; l += tileDepth {
				gonum.Implementation{}.Sgemm(blas.Trans, blas.NoTrans, mm, nn, min(tileDepth, k-l),
					1, a[l*m+i:], m, b[l*n+j:], n, 1, c[i*n+j:], n)
			}
		}
	}
}

// tileWidth cuts n columns into equal tiles of at most tileCols, so that no
// sliver is left over, in whole cache lines.
func tileWidth(n int) int {
	tiles := (n + tileCols - 1) / tileCols
	width := (n + tiles - 1) / tiles
	return (width + 15) &^ 15
}

// addNarrow is addProduct in blocks of 2 rows by 4 steps of k: eight factors
// stay in registers and every load of b serves two rows.
func addNarrow(c, a, b []float32, m, k, n int) {
	i := 0
	for ; i+2 <= m; i += 2 {
		a0, a1 := a[i*k:(i+1)*k], a[(i+1)*k:(i+2)*k]
		c0, c1 := c[i*n:(i+1)*n], c[(i+1)*n:(i+2)*n]
		l := 0
		for ; l+4 <= k; l += 4 {
			p0, p1, p2, p3 := a0[l], a0[l+1], a0[l+2], a0[l+3]
			q0, q1, q2, q3 := a1[l], a1[l+1], a1[l+2], a1[l+3]
			c1 := c1[:len(c0)]
			b0, b1 := b[l*n:][:len(c0)], b[(l+1)*n:][:len(c0)]
			b2, b3 := b[(l+2)*n:][:len(c0)], b[(l+3)*n:][:len(c0)]
			for j := range c0 {
				x0, x1, x2, x3 := b0[j], b1[j], b2[j], b3[j]
				c0[j] = c0[j] + float32(p0*x0) + float32(p1*x1) + float32(p2*x2) + float32(p3*x3)
				c1[j] = c1[j] + float32(q0*x0) + float32(q1*x1) + float32(q2*x2) + float32(q3*x3)
			}
		}
		for ; l < k; l++ {
			addRow(c0, a0[l], b[l*n:])
			addRow(c1, a1[l], b[l*n:])
		}
	}
	if i < m {
		for l, v := range a[i*k : (i+1)*k] {
			addRow(c[i*n:(i+1)*n], v, b[l*n:])
		}
	}
}

// addTransposedNarrow is addTransposedProduct in blocks of 4 steps of k.
func addTransposedNarrow(c, a, b []float32, m, k, n int) {
	l := 0
	for ; l+4 <= k; l += 4 {
		a0 := a[l*m : (l+1)*m]
		a1, a2, a3 := a[(l+1)*m:][:len(a0)], a[(l+2)*m:][:len(a0)], a[(l+3)*m:][:len(a0)]
		for j := range n {
			x0, x1, x2, x3 := b[l*n+j], b[(l+1)*n+j], b[(l+2)*n+j], b[(l+3)*n+j]
			at := j
			for i := range a0 {
				c[at] = c[at] + float32(a0[i]*x0) + float32(a1[i]*x1) + float32(a2[i]*x2) + float32(a3[i]*x3)
				at += n
			}
		}
	}
	for ; l < k; l++ {
		for i, v := range a[l*m : (l+1)*m] {
			addRow(c[i*n:(i+1)*n], v, b[l*n:])
		}
	}
}

// addRow adds alpha·x to the short row c.
func addRow(c []float32, alpha float32, x []float32) {
	x = x[:len(c)]
	for j := range c {
		c[j] += float32(alpha * x[j])
	}
}
