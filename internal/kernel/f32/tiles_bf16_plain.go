package f32

// The plain loops of tiles in bfloat16.

func tileDotsPlain(t []float32, x []BF16, w []uint32, n, pairs, ldx int) {
	for r := range n {
		for c := range TileColumns {
			var sum float32
			for i := range pairs {
				sum = addPair(sum, x[r*ldx+2*i], x[r*ldx+2*i+1], w[i*TileColumns+c])
			}
			t[r*TileColumns+c] = sum
		}
	}
}

func tileOuterPlain(c []float32, x []uint32, t []BF16, pairs, dim, ldx, ldc, cols int) {
	for l := range dim {
		for j := range cols {
			sum := &c[l*ldc+j]
			for i := range pairs {
				at, factor := 2*i*TileColumns+j, x[i*ldx+l]
				*sum = addPair(*sum, BF16(factor), BF16(factor>>16), uint32(t[at])|uint32(t[at+TileColumns])<<16)
			}
		}
	}
}

func tileDotRowsPlain(c []float32, a []BF16, b []uint32, n int) {
	for l := range n {
		for j := range tile {
			var sum float32
			for i := range TileColumns / 2 {
				at := l*TileColumns + 2*i
				sum = addPair(sum, a[at], a[at+1], b[i*tile+j])
			}
			c[l*tile+j] = sum
		}
	}
}

func tileGatherPlain(t, x []BF16, at, ends []uint32, n int) {
	from := uint32(0)
	for i := range n {
		for c := range TileColumns {
			var sum float32
			for _, r := range at[from:ends[i]] {
				sum += widenBF16(x[int(r)*TileColumns+c])
			}
			t[i*TileColumns+c] = roundTile(sum)
		}
		from = ends[i]
	}
}
