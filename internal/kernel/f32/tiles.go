package f32

import "math"

// Products of matrices with few distinct rows in some columns. If some columns of x hold
// few distinct rows, their part of x·w is computed once per distinct row and added to every
// row in which it occurs. Both gradients are products of the distinct rows, after the
// gradients of all rows with the same distinct row have been added up. A tile is
// TileColumns columns of the products of distinct rows. It is computed, added and discarded
// before the next columns.

// TileColumns is the width of a tile. A tile of some hundred rows stays in the second-level
// cache together with as many columns of a batch.
const TileColumns = 64

// tile returns the number of columns of the tile from column j.
func (p *Packed) tile(j int) int { return min(TileColumns, p.out-j) }

// rows calls f with each block of n rows.
func (b *backend) rows(n int, f func(i int, k *block)) {
	for i, at := 0, 0; i < n; {
		for b.blocks[at].height > n-i {
			at++
		}
		f(i, &b.blocks[at])
		i += b.blocks[at].height
	}
}

// TileForward computes the tile t = x·w[from:from+dim] from column j on: n rows of
// TileColumns values. Values past w's last column are unchanged. x is n×dim.
func TileForward(t, x []float32, w *Packed, n, from, dim, j int) {
	check("TileForward", "x", len(x), n, dim)
	check("TileForward", "t", len(t), n, TileColumns)
	if w.by == nil || dim == 0 {
		tileForwardPlain(t, x, w, n, from, dim, j)
		return
	}
	b, cols := w.by, w.tile(j)
	for at := 0; at < cols; {
		width, some, kernel := b.columns(w.out - j - at)
		panel := &w.panels[(j+at)*w.in+from*width]
		b.rows(n, func(i int, k *block) {
			k.dot[kernel](&t[i*TileColumns+at], &x[i*dim], panel, nil, nil, dim, dim, TileColumns, some, float32(math.Inf(-1)))
		})
		at += width
	}
}

// TileScratch is the scratch memory of TileGradInput.
type TileScratch struct {
	turned []float32 // TileColumns×lanes: transposed rows of a tile; or narrowRows×TileColumns
	panel  []float32 // weights of a narrow product
	sums   []float32 // dim×lanes
	dx     []float32 // lanes×dim
}

// TileGradInput computes dx = t·w[from:from+dim, j:]ᵀ, n×dim, for the tile t from column j
// on. It adds the product to dx unless j is 0. dim is too small to fill a vector.
func TileGradInput(dx, t []float32, w *Packed, scratch *TileScratch, n, from, dim, j int) {
	check("TileGradInput", "dx", len(dx), n, dim)
	check("TileGradInput", "t", len(t), n, TileColumns)
	if w.by == nil || dim == 0 {
		tileGradInputPlain(dx, t, w, n, from, dim, j)
		return
	}
	b := w.by
	if cols := w.tile(j); n > 0 && b.narrows(dim, cols) {
		b.addNarrow(dx, t, w.w[from*w.out+j:], scratch, dim, w.out, cols, j)
		return
	}
	most := 2 * b.lanes
	scratch.turned = grow(scratch.turned, most*TileColumns)
	scratch.sums, scratch.dx = grow(scratch.sums, most*dim), grow(scratch.dx, most*dim)
	for i := 0; i < n; {
		width, cols, kernel := b.columns(n - i)
		b.turn(scratch.turned, t[i*TileColumns:(i+cols)*TileColumns], TileColumns, width)
		b.rows(dim, func(l int, k *block) {
			k.dot[kernel](&scratch.sums[l*width], &w.w[(from+l)*w.out+j], &scratch.turned[0], nil, nil, w.tile(j), w.out, width, width, float32(math.Inf(-1)))
		})
		to, sums := dx[i*dim:(i+cols)*dim], scratch.sums[:dim*width]
		if j == 0 && cols == width {
			b.turn(to, sums, width, dim)
		} else if b.turn(scratch.dx, sums, width, dim); j == 0 {
			copy(to, scratch.dx)
		} else {
			AddTo(to, scratch.dx[:len(to)])
		}
		i += cols
	}
}

// turn writes the transpose of x, rows of cols values, to dst, whose rows are ld values
// apart. It does not change the values in between.
func (b *backend) turn(dst, x []float32, cols, ld int) {
	rows, whole := len(x)/cols, cols&^7
	if b == nil || rows < 8 {
		whole = 0
	}
	for r := 0; whole > 0 && r < rows; r += 8 {
		at := min(r, rows-8) // the last 8, some of them repeated
		b.transpose(&dst[at], &x[at*cols], whole/8, ld, cols)
	}
	for r := 0; whole < cols && r < rows; r++ {
		for c, v := range x[r*cols+whole : (r+1)*cols] {
			dst[(whole+c)*ld+r] = v
		}
	}
}

// TileGradWeight adds xᵀ·t to dw[:, j:], dim×out, for x, n×dim, and the tile t from
// column j on.
func TileGradWeight(dw, x, t []float32, n, dim, out, j int) {
	check("TileGradWeight", "x", len(x), n, dim)
	check("TileGradWeight", "t", len(t), n, TileColumns)
	check("TileGradWeight", "dw", len(dw), dim, out)
	cols := min(TileColumns, out-j)
	if active == nil || n == 0 {
		for i := range n {
			for l, v := range x[i*dim:][:dim] {
				fuseRow(dw[l*out+j:][:cols], v, t[i*TileColumns:])
			}
		}
		return
	}
	for at := 0; at < cols; {
		width, some, kernel := active.columns(out - j - at)
		active.rows(dim, func(i int, k *block) {
			k.outer[kernel](&dw[i*out+j+at], &x[i], &t[at], n, dim, TileColumns, out, some)
		})
		at += width
	}
}

// TileStride returns the distance of lists of row numbers. If it were a power of two, the
// numbers of one row would compete for a few sets of the first-level cache.
func TileStride(rows int) int {
	const line = 16
	return ((rows+line-1)/line | 1) * line
}

// TileSum adds rows of tiles for each row of columns j to j+TileColumns of y, rows×out:
// from each list l the row that begins at[l·stride+r] floats into t. The length of at
// determines the number of lists. Sums begin with init, the values of all columns, or with
// y if init is nil. They are at least floor. The caller ensures that no list exceeds t.
func TileSum(y, init, t []float32, at []uint32, stride, rows, out, j int, floor float32) {
	check("TileSum", "y", len(y), rows, out)
	if rows == 0 || len(at) == 0 {
		return
	}
	if init != nil {
		check("TileSum", "init", len(init), 1, out)
	}
	cols, lists := min(TileColumns, out-j), (len(at)+stride-1)/stride
	_ = at[(lists-1)*stride+rows-1]
	if active != nil {
		width, kernel := TileColumns, 1
		if cols < TileColumns {
			width, kernel = active.lanes, 0
		}
		for c := 0; c < cols; c += width {
			var start *float32
			if init != nil {
				start = &init[j+c]
			}
			active.tileSum[kernel](&y[j+c], start, &t[c], &at[0], rows, out, lists, stride, min(width, cols-c), floor)
		}
		return
	}
	for r := range rows {
		sum := y[r*out+j:][:cols]
		if init != nil {
			copy(sum, init[j:])
		}
		for l := range lists {
			for c, v := range t[at[l*stride+r]:][:cols] {
				sum[c] += v
			}
		}
		for c, v := range sum {
			sum[c] = max(v, floor)
		}
	}
}

// TileAdd adds each row r of x, rows×TileColumns, to one row of the tile t per list: for
// list l the row that begins at[l·stride+r] floats into t. Rows of list l from offset
// set[l] on are still unset. A list must reach them in ascending order; the first row added
// sets such a row, and set[l] advances past it. The caller ensures that no list exceeds t.
func TileAdd(t, x []float32, at []uint32, stride, rows int, set []int) {
	check("TileAdd", "x", len(x), rows, TileColumns)
	if rows == 0 || len(set) == 0 {
		return
	}
	_ = at[(len(set)-1)*stride+rows-1]
	if active != nil {
		active.tileAdd(&t[0], &x[0], &at[0], &set[0], rows, len(set), stride)
		return
	}
	for r := range rows {
		for l := range set {
			place := int(at[l*stride+r])
			row := t[place:][:TileColumns]
			if place >= set[l] {
				clear(row)
				set[l] += TileColumns
			}
			addRow(row, x[r*TileColumns:])
		}
	}
}

// TileCut copies columns j to j+TileColumns of y, rows×out, to a tile, with zeros past y's
// last column.
func TileCut(t, y []float32, rows, out, j int) {
	check("TileCut", "t", len(t), rows, TileColumns)
	check("TileCut", "y", len(y), rows, out)
	cols := min(TileColumns, out-j)
	for r := range rows {
		to := t[r*TileColumns:][:TileColumns]
		copy(to, y[r*out+j:][:cols])
		clear(to[cols:])
	}
}

func tileForwardPlain(t, x []float32, w *Packed, n, from, dim, j int) {
	cols := w.tile(j)
	for i := range n {
		sum := t[i*TileColumns:][:cols]
		clear(sum)
		for l, v := range x[i*dim:][:dim] {
			fuseRow(sum, v, w.w[(from+l)*w.out+j:])
		}
	}
}

func tileGradInputPlain(dx, t []float32, w *Packed, n, from, dim, j int) {
	cols := w.tile(j)
	for i := range n {
		for l := range dim {
			var sum float32
			for c, v := range w.w[(from+l)*w.out+j:][:cols] {
				sum = fused(v, t[i*TileColumns+c], sum)
			}
			if j > 0 {
				sum += dx[i*dim+l]
			}
			dx[i*dim+l] = sum
		}
	}
}
