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

func tileOuterPlain(c []float32, x []uint32, t []float32, n, dim, ldx, ldc, cols int) {
	for l := range dim {
		for j := range cols {
			sum := &c[l*ldc+j]
			for i := 0; i < n; i += 2 {
				pair := uint32(roundTile(t[i*TileColumns+j]))
				if i+1 < n {
					pair |= uint32(roundTile(t[(i+1)*TileColumns+j])) << 16
				}
				factor := x[i/2*ldx+l]
				*sum = addPair(*sum, BF16(factor), BF16(factor>>16), pair)
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

func tileAddBF16Plain(t []float32, x []BF16, at []uint32, stride, rows int, set []int) {
	for r := range rows {
		for l := range set {
			place := int(at[l*stride+r])
			row := t[place:][:TileColumns]
			if place >= set[l] {
				clear(row)
				set[l] += TileColumns
			}
			for c, v := range x[r*TileColumns:][:TileColumns] {
				row[c] += widenBF16(v)
			}
		}
	}
}
