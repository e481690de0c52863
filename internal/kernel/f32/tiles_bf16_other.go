//go:build !amd64 || noasm

package f32

func tileDots(t []float32, x []BF16, w []uint32, n, pairs, ldx int) {
	tileDotsPlain(t, x, w, n, pairs, ldx)
}

func tileOuter(c []float32, x []uint32, t []BF16, pairs, dim, ldx, ldc, cols int) {
	tileOuterPlain(c, x, t, pairs, dim, ldx, ldc, cols)
}

func tileDotRows(c []float32, a []BF16, b []uint32, n int) { tileDotRowsPlain(c, a, b, n) }

func tileGather(t, x []BF16, at, ends []uint32, n int) { tileGatherPlain(t, x, at, ends, n) }
