package f32

import "math"

// The plain loops of the bfloat16 layer: the specification of the AVX-512
// kernels around the tiles.

func joinRowsPlain(dst []uint32, low, high []BF16) {
	for i := range dst {
		dst[i] = uint32(low[i]) | uint32(high[i])<<16
	}
}

// transposePairsPlain transposes n blocks of 8×8, beside each other in src and
// below each other in dst.
func transposePairsPlain(dst, src []uint32, n, ldd, lds int) {
	for i := range 8 {
		for j := range 8 * n {
			dst[j*ldd+i] = src[i*lds+j]
		}
	}
}

func (k *WorkBF16) finishBF16Plain(dst, gate []BF16, rows, stride int, floor float32) {
	for i := range rows {
		for j := range tile {
			dst[i*stride+j] = roundBF16(k.finishPlain(i, j, gate, stride, floor))
		}
	}
}

func (k *WorkBF16) finishF32Plain(dst []float32, gate []BF16, rows, stride, ldg, cols int, floor float32) {
	for i := range rows {
		for j := range cols {
			dst[i*stride+j] = k.finishPlain(i, j, gate, ldg, floor)
		}
	}
}

func (k *WorkBF16) accumulatePlain(dst []float32, rows, stride, cols int) {
	for i := range rows {
		for j := range cols {
			dst[i*stride+j] += k.sums[i*tile+j]
		}
	}
}

func addColumnSumsPlain(sum []float32, a []BF16, rows, stride int) {
	for i := range rows {
		for j := range sum {
			sum[j] += math.Float32frombits(uint32(a[i*stride+j]) << 16)
		}
	}
}
