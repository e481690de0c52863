//go:build !amd64 || noasm

package f32

func tileDots(t []float32, x []BF16, w []uint32, n, pairs, ldx int) {
	tileDotsPlain(t, x, w, n, pairs, ldx)
}

func tileOuter(c []float32, x []uint32, t []float32, n, dim, ldx, ldc, cols int) {
	tileOuterPlain(c, x, t, n, dim, ldx, ldc, cols)
}

func tileDotRows(c []float32, a []BF16, b []uint32, n int) { tileDotRowsPlain(c, a, b, n) }

func tileAddBF16(t []float32, x []BF16, at []uint32, stride, rows int, set []int) {
	tileAddBF16Plain(t, x, at, stride, rows, set)
}
