package f32

// The products of a backend are divided twice: into chunks of rows, whose activations and
// weights stay in a core's second-level cache, and within a chunk into panels of columns
// and blocks of rows, whose sums stay in registers. The division does not change the
// result: an element is one chain of fused multiply-adds.

// chunkRows is a multiple of the height of every block. 252 rows of 600 floats are 600 KB.
const chunkRows = 252

// chunk returns how many of the remaining rows to take next, without leaving a small rest.
func chunk(left int) int {
	if left < chunkRows+chunkRows/4 {
		return left
	}
	return chunkRows
}

// columns returns the width of the panel that begins n columns before the end, how many of
// its columns exist, and the index of its kernels.
func (b *backend) columns(n int) (width, cols, kernel int) {
	if n >= 2*b.lanes {
		return 2 * b.lanes, 2 * b.lanes, 1
	}
	return b.lanes, min(n, b.lanes), 0
}

// panelsLen returns the length of a k×n matrix in panels: columns are padded to full
// vectors.
func (b *backend) panelsLen(k, n int) int { return k * ((n + b.lanes - 1) / b.lanes * b.lanes) }

// pack stores columns from ≤ j < to of w, k×n, in panels. The panel that begins at column j
// is stored row by row at j·k.
func (b *backend) pack(panels, w []float32, k, n, from, to int) {
	for j := from; j < to && k > 0; {
		width, cols, kernel := b.columns(n - j)
		b.panel[kernel](&panels[j*k], &w[j], k, n, cols)
		j += width
	}
}

// packTransposed stores the transpose of w, n×k, in panels.
func (b *backend) packTransposed(panels, w []float32, k, n int) {
	for j := 0; j < n && k > 0; {
		width, cols, _ := b.columns(n - j)
		panel := panels[j*k:][:k*width]
		for at := 0; at < width; at += 8 {
			rows, done := min(8, cols-at), 0
			if rows == 8 && k >= 8 {
				b.transpose(&panel[at], &w[(j+at)*k], k/8, width, k)
				done = k &^ 7
			}
			for l := done; l < k; l++ {
				for i := range 8 {
					var v float32
					if i < rows {
						v = w[(j+at+i)*k+l]
					}
					panel[l*width+at+i] = v
				}
			}
		}
		j += width
	}
}

// multiply computes c = max(init + a·b, floor), rows×n, for a rows×k and b k×n in panels,
// from a column on. It sets c to 0 where gate, rows×n, is 0. init and gate may be nil; k is
// not 0.
func (b *backend) multiply(c, a, panels, init, gate []float32, rows, k, from, n int, floor float32) {
	for r := 0; r < rows; {
		end := r + chunk(rows-r)
		for j := from; j < n; {
			width, cols, kernel := b.columns(n - j)
			var start, open *float32
			if init != nil {
				start = &init[j]
			}
			for i, at := r, 0; i < end; {
				for b.blocks[at].height > end-i {
					at++
				}
				if gate != nil {
					open = &gate[i*n+j]
				}
				t := &b.blocks[at]
				t.dot[kernel](&c[i*n+j], &a[i*k], &panels[j*k], start, open, k, k, n, cols, floor)
				i += t.height
			}
			j += width
		}
		r = end
	}
}

// packedColumns is the number of columns of the left factor of an outer product that are
// packed at once. A chunk of them is a quarter of a second-level cache. It is a multiple of
// the heights of the tallest blocks.
const packedColumns = 168

// addOuter computes c += aᵀ·b, m×n, for a rows×m and b rows×n, from a column on. If rows of
// b are long, their lines compete for a few sets of the first-level cache, and blocks read
// both factors from packed copies.
func (b *backend) addOuter(scratch *Scratch, c, a, d []float32, rows, m, from, n int) {
	packs := b.packsFrom > 0 && n-from >= b.packsFrom && m >= packedColumns/2
	for r := 0; r < rows; {
		k := chunk(rows - r)
		if !packs {
			b.outerBlocks(c, factor{at: a[r*m:], ld: m}, factor{at: d[r*n:], ld: n}, k, m, from, n)
			r += k
			continue
		}
		scratch.panels = grow(scratch.panels, b.panelsLen(k, n))
		b.pack(scratch.panels, d[r*n:], k, n, from, n)
		for i := 0; i < m; i += packedColumns {
			cols := min(packedColumns, m-i)
			left := b.packLeft(scratch, a[r*m+i:], k, cols, m)
			b.outerBlocks(c[i*n:], left, factor{at: scratch.panels, packed: k}, k, cols, from, n)
		}
		r += k
	}
}

// factor is a matrix of an outer product whose rows are ld floats apart, or a packed one,
// stored in blocks of columns.
type factor struct {
	at         []float32
	ld, packed int
}

// packLeft copies k rows of m columns of a, lda floats apart, in blocks of columns. A row
// of a block takes a full vector.
func (b *backend) packLeft(scratch *Scratch, a []float32, k, m, lda int) factor {
	blocks := 0
	b.rows(m, func(int, *block) { blocks++ })
	scratch.left = grow(scratch.left, blocks*k*b.lanes)
	at := 0
	b.rows(m, func(i int, t *block) {
		b.panel[0](&scratch.left[at], &a[i], k, lda, t.height)
		at += k * b.lanes
	})
	return factor{at: scratch.left, packed: k}
}

// outerBlocks is addOuter for k rows, with packed or plain factors.
func (b *backend) outerBlocks(c []float32, left, right factor, k, m, from, n int) {
	for j := from; j < n; {
		width, cols, kernel := b.columns(n - j)
		first, ld := j, right.ld
		if right.packed > 0 {
			first, ld = j*right.packed, width
		}
		at := 0
		b.rows(m, func(i int, t *block) {
			if left.packed > 0 {
				t.outer[kernel](&c[i*n+j], &left.at[at], &right.at[first], k, b.lanes, ld, n, cols)
				at += left.packed * b.lanes
				return
			}
			t.outer[kernel](&c[i*n+j], &left.at[i], &right.at[first], k, left.ld, ld, n, cols)
		})
		j += width
	}
}

// addColumnSums adds the rows of a, rows×n, to sum.
func (b *backend) addColumnSums(sum, a []float32, rows, n int) {
	for j := 0; j < n && rows > 0; {
		kernel, cols := 0, min(n-j, b.lanes)
		if n-j >= 4*b.lanes {
			kernel, cols = 1, 4*b.lanes
		}
		b.columnSums[kernel](&sum[j], &a[j], rows, n, cols)
		j += cols
	}
}
