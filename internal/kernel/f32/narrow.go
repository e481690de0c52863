package f32

// Products of a tile with weights of few columns, such as an embedding's, are
// computed in two ways. If the columns fill vectors of AVX-512, or halves of them, lanes
// are columns. Otherwise lanes are rows, which must be transposed first.

// narrowRows is the height of the blocks of a narrow kernel.
const narrowRows = 16

// narrowKernel sets some columns of blocks of c to a·w, or adds the product. Rows of a are
// a tile's; w is a panel of k rows.
type narrowKernel func(c, a, w *float32, k, blocks, ldc, add int)

// narrows reports whether lanes should be columns in a product with cols columns of a tile
// for dim columns of the result.
func (b *backend) narrows(dim, cols int) bool {
	return b.narrow[0] != nil && dim%8 == 0 && cols%8 == 0
}

// addNarrow sets dx, rows of dim values, to t·wᵀ if add is 0, else adds the product. Rows
// of w are out floats apart.
func (b *backend) addNarrow(dx, t, w []float32, scratch *TileScratch, dim, out, cols, add int) {
	n := len(dx) / dim
	whole, rest := n/narrowRows, n%narrowRows
	if rest > 0 {
		scratch.turned, scratch.dx = grow(scratch.turned, narrowRows*TileColumns), grow(scratch.dx, narrowRows*dim)
		copy(scratch.turned, t[whole*narrowRows*TileColumns:])
	}
	scratch.panel = grow(scratch.panel, 16*TileColumns)
	for l, width := 0, 16; l < dim; l += width {
		kernel := b.narrow[0]
		if dim-l < width {
			kernel, width = b.narrow[1], 8
		}
		for i := 0; i < width; i += 8 {
			b.transpose(&scratch.panel[i], &w[(l+i)*out], cols/8, width, out)
		}
		if whole > 0 {
			kernel(&dx[l], &t[0], &scratch.panel[0], cols, whole, dim, add)
		}
		if rest > 0 {
			kernel(&scratch.dx[l], &scratch.turned[0], &scratch.panel[0], cols, 1, dim, 0)
		}
	}
	last := dx[whole*narrowRows*dim:]
	if add != 0 {
		AddTo(last, scratch.dx[:len(last)])
	} else {
		copy(last, scratch.dx)
	}
}
