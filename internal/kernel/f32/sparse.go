package f32

import (
	"math"
)

// Products that skip zeros. After a ReLU about half of the values are exactly 0, as are the
// gradients of its input. A product of such a matrix a with a matrix b of finite values
// lists the non-zero values of a, row by row, and multiplies only these. A sum is then the
// same chain without additions of ±0, which change nothing except −0 to +0. Rows with a sum
// that ends in −0 are computed again by the dense kernels. If b has a NaN or an infinity,
// whose product with 0 is NaN, the product is dense. The bits therefore equal the bits of the
// dense product.

// Scratch is the scratch memory for the products of one goroutine. The zero value is ready for
// use.
type Scratch struct {
	values  []float32 // non-zero values
	offsets []uint32  // by value: offset of the panel row that it multiplies
	counts  []uint32  // by row: number of values
	turned  []float32 // rows of a, transposed
	left    []float32 // factors of an outer product
	panels  []float32
	zero    []float32 // initial sums without init
}

// Zeros counts the zeros in a product's left factor. It is empty if the product is too
// small or there are no kernels.
type Zeros struct {
	Values  int // values of the left factor
	Zero    int // zeros among them: counted if skipped, else estimated from a sample
	Skipped int // multiply-adds skipped
}

const (
	// sparseFrom is the share of zeros, in percent, from which skipping them is faster; see
	// BenchmarkSparse. It is not measured at the start: on a Zen 4 the products are 1.04 to 1.15
	// times as fast with 40 % zeros, 1.2 to 1.35 with 50 % and 1.5 to 1.65 with 60 %, with AVX-512
	// and with AVX2 alike, so that a measurement would choose the same.
	sparseFrom = 40
	// sparseDepth is the number of panel rows that are multiplied before the next. They are
	// TileColumns wide and take half of a first-level cache.
	sparseDepth = 64
	// minRows is the least number of rows of a product that skips zeros.
	minRows = 16
	// sampled is about how many values of a matrix are examined for the choice.
	sampled = 1024
)

// Forward is the function Forward. It skips zeros of x if there are many.
func (r *Scratch) Forward(y, x []float32, w *Packed, bias []float32, rows int, relu bool) Zeros {
	z, pays := w.by.sample(x, rows, w.in, w.out)
	if !pays || !w.bounded() {
		Forward(y, x, w, bias, rows, relu)
		return z
	}
	check("Forward", "y", len(y), rows, w.out)
	floor := float32(math.Inf(-1))
	if relu {
		floor = 0
	}
	if bias != nil {
		check("Forward", "bias", len(bias), 1, w.out)
	}
	return w.by.multiplySparse(r, y, x, w.panels, bias, nil, rows, w.in, w.out, floor)
}

// GradInput is the function GradInput. It skips zeros of dy if there are many.
func (r *Scratch) GradInput(dx, dy []float32, w *Packed, rows int, gate []float32) Zeros {
	z, pays := w.by.sample(dy, rows, w.out, w.in)
	if !pays || !w.bounded() {
		GradInput(dx, dy, w, rows, gate)
		return z
	}
	check("GradInput", "dx", len(dx), rows, w.in)
	if gate != nil {
		check("GradInput", "gate", len(gate), rows, w.in)
	}
	w.PackGrad()
	return w.by.multiplySparse(r, dx, dy, w.grad, nil, gate, rows, w.out, w.in, float32(math.Inf(-1)))
}

// sample examines some rows of a, rows×k, and reports whether skipping its zeros is faster
// in a product with n columns.
func (b *backend) sample(a []float32, rows, k, n int) (z Zeros, pays bool) {
	if b == nil || b.nonzeros == nil || rows < minRows || n < TileColumns || k == 0 || len(a) != rows*k {
		return Zeros{}, false
	}
	some := min(rows, (sampled+k-1)/k)
	zero := 0
	for i := range some {
		for _, v := range a[i*rows/some*k:][:k] {
			if v == 0 {
				zero++
			}
		}
	}
	return Zeros{Values: rows * k, Zero: zero * rows / some}, zero*100 >= sparseFrom*some*k
}

// list lists the non-zero values in k columns of rows rows of a, lda floats apart, and
// returns their number.
func (b *backend) list(r *Scratch, a []float32, rows, k, lda int) int {
	n := rows*k + b.lanes // the last store writes a full vector
	if r.values = grow(r.values, n); cap(r.offsets) < n {
		r.offsets = make([]uint32, n)
	}
	if cap(r.counts) < rows {
		r.counts = make([]uint32, rows)
	}
	r.offsets, r.counts = r.offsets[:n], r.counts[:rows]
	return b.nonzeros(&r.values[0], &r.offsets[0], &r.counts[0], &a[0], rows, k, lda)
}

// sparseTile is TileColumns columns of a product: of rows×TileColumns of c, and of panels
// that are far floats apart. Sums begin with init, which is the same for all rows, or with
// c if init is nil.
type sparseTile struct {
	c, panel, init, gate []float32
	far, rows, ldc       int
	floor                float32
}

// skip computes a tile from a row on with the listed values. It returns the first row that
// has a sum of −0, or the number of rows.
func (b *backend) skip(r *Scratch, t *sparseTile, row int) (done int) {
	if row == t.rows {
		return row
	}
	var init, gate *float32
	if t.init != nil {
		init = &t.init[0]
	}
	if t.gate != nil {
		gate = &t.gate[row*t.ldc]
	}
	at := 0
	for _, n := range r.counts[:row] {
		at += int(n)
	}
	return row + b.sparseRows(&t.c[row*t.ldc], &t.panel[0], t.far, &r.values[at], &r.offsets[at], &r.counts[row], t.rows-row, t.ldc, init, gate, t.floor)
}

// multiplySparse is multiply without the multiplications by zeros of a, for at least
// TileColumns columns.
func (b *backend) multiplySparse(r *Scratch, c, a, panels, init, gate []float32, rows, k, n int, floor float32) Zeros {
	whole, listed := n/TileColumns*TileColumns, 0
	if init == nil {
		r.zero = grow(r.zero, n)
		init = r.zero
	}
	for i := 0; i < rows; {
		height := chunk(rows - i)
		for l := 0; l < k; l += sparseDepth {
			depth := min(sparseDepth, k-l)
			listed += b.list(r, a[i*k+l:], height, depth, k)
			t := sparseTile{far: 2 * b.lanes * k, rows: height, ldc: n, floor: float32(math.Inf(-1))}
			if l+depth == k {
				t.floor = floor
			}
			for j := 0; j < whole; j += TileColumns {
				t.c, t.panel = c[i*n+j:], panels[j*k+2*b.lanes*l:]
				if l == 0 {
					t.init = init[j:]
				}
				if l+depth == k && gate != nil {
					t.gate = gate[i*n+j:]
				}
				for row := b.skip(r, &t, 0); row < height; row = b.skip(r, &t, row+1) {
					b.denseRow(&t, row, a[(i+row)*k+l:], depth)
				}
			}
		}
		i += height
	}
	b.multiply(c, a, panels, init, gate, rows, k, whole, n, floor)
	return Zeros{rows * k, rows*k - listed, (rows*k - listed) * whole}
}

// denseRow computes a row of a tile with all k values of a.
func (b *backend) denseRow(t *sparseTile, row int, a []float32, k int) {
	one := &b.blocks[len(b.blocks)-1]
	for j, at := 0, 0; j < TileColumns; j, at = j+2*b.lanes, at+t.far {
		init, gate := &t.c[row*t.ldc+j], (*float32)(nil)
		if t.init != nil {
			init = &t.init[j]
		}
		if t.gate != nil {
			gate = &t.gate[row*t.ldc+j]
		}
		one.dot[1](&t.c[row*t.ldc+j], &a[0], &t.panel[at], init, gate, k, k, t.ldc, 2*b.lanes, t.floor)
	}
}

// GradWeight adds the gradients of one batch: dw += xᵀ·dy and db += the column sums of dy.
// db may be nil. It skips zeros of x if there are many.
func (r *Scratch) GradWeight(dw, db, x, dy []float32, rows, in, out int) Zeros {
	check("GradWeight", "dw", len(dw), in, out)
	check("GradWeight", "x", len(x), rows, in)
	check("GradWeight", "dy", len(dy), rows, out)
	if db != nil {
		check("GradWeight", "db", len(db), 1, out)
	}
	z, pays := active.sample(x, rows, in, out)
	if pays && FirstNonFinite(dy) < 0 {
		z = active.addOuterSparse(r, dw, x, dy, rows, in, out)
	} else {
		r.addDense(dw, x, dy, rows, in, out)
	}
	if db != nil && active != nil {
		active.addColumnSums(db, dy, rows, out)
		return z
	}
	for i := 0; db != nil && i < rows; i++ {
		addRow(db, dy[i*out:])
	}
	return z
}

// addDense adds xᵀ·dy to dw.
func (r *Scratch) addDense(dw, x, dy []float32, rows, in, out int) {
	switch {
	case active == nil:
		addTransposedProduct(dw, x, dy, in, rows, out)
	case out == 1: // dwᵀ equals dw, and inputs fill vectors
		active.addOuter(r, dw, dy, x, rows, out, 0, in)
	default:
		active.addOuter(r, dw, x, dy, rows, in, 0, out)
	}
}

// addOuterSparse is addOuter without the multiplications by zeros of a, for at least
// TileColumns columns. Rows of the result are the rows of the transposed a.
func (b *backend) addOuterSparse(r *Scratch, c, a, d []float32, rows, m, n int) Zeros {
	whole, listed := n/TileColumns*TileColumns, 0
	t := sparseTile{rows: m, ldc: n, floor: float32(math.Inf(-1))}
	for i := 0; i < rows; i += sparseDepth {
		depth := min(sparseDepth, rows-i)
		r.turned = grow(r.turned, m*depth)
		b.turn(r.turned, a[i*m:(i+depth)*m], m, depth)
		r.panels = grow(r.panels, b.panelsLen(depth, n))
		b.pack(r.panels, d[i*n:], depth, n, 0, whole)
		listed += b.list(r, r.turned, m, depth, depth)
		t.far = 2 * b.lanes * depth
		for j := 0; j < whole; j += TileColumns {
			t.c, t.panel = c[j:], r.panels[j*depth:]
			for row := b.skip(r, &t, 0); row < m; row = b.skip(r, &t, row+1) {
				b.denseRow(&t, row, r.turned[row*depth:], depth)
			}
		}
	}
	b.addOuter(r, c, a, d, rows, m, whole, n)
	return Zeros{rows * m, rows*m - listed, (rows*m - listed) * whole}
}
