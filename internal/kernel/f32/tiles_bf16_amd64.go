//go:build !noasm

package f32

func tileDots(t []float32, x []BF16, w []uint32, n, pairs, ldx int) {
	if !assembled() {
		tileDotsPlain(t, x, w, n, pairs, ldx)
		return
	}
	_, _, _ = t[n*TileColumns-1], x[(n-1)*ldx+2*pairs-1], w[pairs*TileColumns-1]
	tileDotsAVX512BF16(&t[0], &x[0], &w[0], n, pairs, 2*ldx)
}

// tileKernels are the kernels by number of dims, the highest first: one adds xᵀ·t, one
// multiplies rows of weights by transposed rows of a tile.
var tileKernels = [...]struct {
	height int
	outer  func(c *float32, x *uint32, t *uint16, pairs, ldx, ldc, cols int)
	dot    func(c *float32, a *uint16, b *uint32, init *float32, k, lda, ldc, ldi int)
}{
	{10, tileOuter10AVX512BF16, dotsToFloat10AVX512BF16},
	{8, tileOuter8AVX512BF16, dotsToFloat8AVX512BF16},
	{4, tileOuter4AVX512BF16, dotsToFloat4AVX512BF16},
	{2, tileOuter2AVX512BF16, dotsToFloat2AVX512BF16},
	{1, tileOuter1AVX512BF16, dotsToFloat1AVX512BF16},
}

func tileOuter(c []float32, x []uint32, t []BF16, pairs, dim, ldx, ldc, cols int) {
	if !assembled() {
		tileOuterPlain(c, x, t, pairs, dim, ldx, ldc, cols)
		return
	}
	_, _, _ = c[(dim-1)*ldc+cols-1], x[(pairs-1)*ldx+dim-1], t[(2*pairs-1)*TileColumns+tile-1]
	for l, k := 0, 0; l < dim; l += tileKernels[k].height {
		for tileKernels[k].height > dim-l {
			k++
		}
		tileKernels[k].outer(&c[l*ldc], &x[l], &t[0], pairs, 4*ldx, 4*ldc, cols)
	}
}

// tileDotRows sets n rows of 32 columns of c to a·b, for 32 pairs.
func tileDotRows(c []float32, a []BF16, b []uint32, n int) {
	if !assembled() {
		tileDotRowsPlain(c, a, b, n)
		return
	}
	_, _, _ = c[n*tile-1], a[n*TileColumns-1], b[tile*TileColumns/2-1]
	for l, k := 0, 0; l < n; l += tileKernels[k].height {
		for tileKernels[k].height > n-l {
			k++
		}
		tileKernels[k].dot(&c[l*tile], &a[l*TileColumns], &b[0], &zeroTile[0], TileColumns/2, 2*TileColumns, 4*tile, 0)
	}
}

// zeroTile holds initial sums.
var zeroTile [tile]float32

func tileGather(t, x []BF16, at, ends []uint32, n int) {
	if !assembled() {
		tileGatherPlain(t, x, at, ends, n)
		return
	}
	tileGatherAVX512BF16(&t[0], &x[0], &at[0], &ends[0], n)
}
