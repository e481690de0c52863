package f32

// Tiles in bfloat16: a product reads distinct rows, weights and gradients rounded. Forward,
// tiles and their sums are float32. Backward, a tile holds sums of gradients, each computed
// in float32 and rounded once. Products go over ascending pairs, as in the layer's vectors
// (see layer_bf16.go): pairs of columns in Forward and GradInput, pairs of rows in
// GradWeight.

// TilesBF16 reports whether tiles are faster in bfloat16. With AMX they never are: the
// products of all rows cost less than the additional passes.
func TilesBF16() bool { return active != nil && orderBF16() == vectors }

// TileRowsBF16 holds distinct rows, rounded. After Pack any number of goroutines may use
// it.
type TileRowsBF16 struct {
	n, dim, ld int
	half       []BF16   // n×ld
	pairs      []uint32 // of rows 2i and 2i+1, ld per pair; an odd number of rows is padded with zeros
}

// Pack rounds x, n×dim.
func (x *TileRowsBF16) Pack(rows []float32, n, dim int) {
	check("TileRowsBF16.Pack", "rows", len(rows), n, dim)
	x.n, x.dim, x.ld = n, dim, (dim+1)&^1
	if n == 0 || dim == 0 {
		return
	}
	// Full lines are written; the next row overwrites what exceeds a row.
	even := (n + 1) &^ 1
	x.half, x.pairs = spare(x.half, even*x.ld+padTile(dim)), spare(x.pairs, even/2*x.ld+16)
	roundRows(x.half, x.ld, rows, dim, n, dim)
	clear(x.half[n*x.ld:])
	joinRows(x.pairs, x.ld, x.half, x.ld, even/2, (x.ld+15)&^15)
}

// spare returns n values, in the memory of buf if it suffices. It allocates more than n,
// because the number of rows differs between batches.
func spare[T any](buf []T, n int) []T {
	if cap(buf) < n {
		return make([]T, n, n+n/4)
	}
	return buf[:n]
}

// TileScratchBF16 is the scratch memory for the products of one goroutine.
type TileScratchBF16 struct {
	half   []BF16 // dim×TileColumns: weights, rounded
	joined []uint32
	turned [tile * TileColumns / 2]uint32 // transposed rows of a tile, as pairs
	sums   []float32                      // dim×32
	dx     []float32                      // 32×dim
}

// round rounds the weights w[from:from+dim, j:], with zeros past their last column and a
// row of zeros after an odd number of rows.
func (scratch *TileScratchBF16) round(w []float32, out, from, dim, j int) {
	rows, cols := (dim+15)&^15, min(TileColumns, out-j)
	scratch.half = growBF16(scratch.half, rows*TileColumns)
	if cols < TileColumns || dim%2 > 0 {
		clear(scratch.half)
	}
	roundRows(scratch.half, TileColumns, w[from*out+j:(from+dim-1)*out+j+cols], out, dim, cols)
}

// TileForwardBF16 computes the tile t = x·w[from:from+dim] from column j on, n rows of
// TileColumns values, for w of rows of out. Values past w's last column are 0.
func TileForwardBF16(t []float32, x *TileRowsBF16, w []float32, scratch *TileScratchBF16, out, from, j int) {
	check("TileForwardBF16", "t", len(t), x.n, TileColumns)
	if x.n == 0 || x.dim == 0 {
		clear(t)
		return
	}
	scratch.round(w, out, from, x.dim, j)
	count := x.ld / 2
	scratch.joined = spare(scratch.joined, count*TileColumns)
	joinRows(scratch.joined, TileColumns, scratch.half, TileColumns, count, TileColumns)
	tileDots(t, x.half, scratch.joined, x.n, count, x.ld)
}

// TileLenBF16 returns the length of a tile of n rows in bfloat16: full blocks of 32.
func TileLenBF16(n int) int { return padTile(n) * TileColumns }

// TileGatherBF16 sets row i of the tile t, for n rows, to the sum of the rows of x that at
// lists from ends[i−1] (0 for the first row) to ends[i]. The caller ensures that none
// exceeds x.
func TileGatherBF16(t, x []BF16, at, ends []uint32, n int) {
	clear(t[n*TileColumns : TileLenBF16(n)])
	if n > 0 && len(at) > 0 {
		_, _ = ends[n-1], at[ends[n-1]-1]
		tileGather(t, x, at, ends, n)
		return
	}
	clear(t[:n*TileColumns])
}

// TileGradInputBF16 computes dx = t·w[from:from+dim, j:]ᵀ, n×dim, for the tile t from
// column j on. It adds the product to dx unless j is 0. Past w's last column t is 0. Lanes
// are rows, because dim is too small to fill a vector.
func TileGradInputBF16(dx []float32, t []BF16, w []float32, scratch *TileScratchBF16, n, out, from, dim, j int) {
	check("TileGradInputBF16", "dx", len(dx), n, dim)
	check("TileGradInputBF16", "t", len(t), padTile(n), TileColumns)
	if n == 0 || dim == 0 {
		return
	}
	scratch.round(w, out, from, dim, j)
	scratch.sums, scratch.dx = grow(scratch.sums, dim*tile), grow(scratch.dx, tile*dim)
	words := asPairs(t)
	for i := 0; i < n; i += tile {
		m := min(tile, n-i)
		for r := 0; r < m; r += 8 {
			transposePairs(scratch.turned[r:], words[(i+r)*TileColumns/2:], TileColumns/16, tile, TileColumns/2)
		}
		tileDotRows(scratch.sums, scratch.half, scratch.turned[:], dim)
		to := dx[i*dim : (i+m)*dim]
		if j == 0 && m == tile {
			active.turn(to, scratch.sums, tile, dim)
			continue
		}
		if active.turn(scratch.dx, scratch.sums, tile, dim); j == 0 {
			copy(to, scratch.dx)
		} else {
			AddTo(to, scratch.dx[:len(to)])
		}
	}
}

// TileGradWeightBF16 adds xᵀ·t to dw[:, j:], dim×out, for the tile t from column j on.
func TileGradWeightBF16(dw []float32, x *TileRowsBF16, t []BF16, out, j int) {
	check("TileGradWeightBF16", "t", len(t), padTile(x.n), TileColumns)
	check("TileGradWeightBF16", "dw", len(dw), x.dim, out)
	if x.n == 0 {
		return
	}
	for at := 0; at < min(TileColumns, out-j); at += tile {
		tileOuter(dw[j+at:], x.pairs, t[at:], (x.n+1)/2, x.dim, x.ld, out, min(tile, out-j-at))
	}
}

// TileCutBF16 copies columns j to j+TileColumns of a matrix of rows×out to adjacent rows,
// with zeros past the last column.
func TileCutBF16(t, y []BF16, rows, out, j int) {
	checkBF16("TileCutBF16", "y", len(y), rows, out)
	cols, stride := min(TileColumns, out-j), StrideBF16(out)
	for r := range rows {
		to := t[r*TileColumns:][:TileColumns]
		copy(to, y[r*stride+j:][:cols])
		clear(to[cols:])
	}
}
