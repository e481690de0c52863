//go:build !amd64 || noasm

package f32

import (
	"errors"
	"unsafe"
)

func machineBF16() (unitBF16, error) {
	return noUnit, errors.New("f32: bfloat16 needs assembly, which this build has not (linux/amd64 without the tag noasm has)")
}

func asPairs(v []BF16) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(v))), len(v)/2)
}

func roundRows(dst []BF16, ldd int, src []float32, lds, rows, cols int) {
	roundRowsPlain(dst, ldd, src, lds, rows, cols)
}

func joinRows(dst []uint32, ldd int, src []BF16, lds, pairs, n int) {
	joinRowsPlain(dst, ldd, src, lds, pairs, n)
}

func transposePairs(dst, src []uint32, n, ldd, lds int) { transposePairsPlain(dst, src, n, ldd, lds) }

func transposeRows(dst []BF16, ldd int, src []BF16, lds, n int) {
	transposeRowsPlain(dst, ldd, src, lds, n)
}

func (k *WorkBF16) toFloat(c []float32, ldc int, a []BF16, b *pairs, j int, init []float32, ldi, blocks int) {
	toFloatPlain(c, ldc, a, b, j, init, ldi, blocks)
}

func (k *WorkBF16) toHalf(c []BF16, ldc int, a []BF16, b *pairs, gate []BF16, blocks int, floor float32) {
	k.toHalfPlain(c, ldc, a, b, gate, blocks, floor)
}

func (k *WorkBF16) addColumnSums(sum []float32, a []BF16, rows, stride int) {
	addColumnSumsPlain(sum, a, rows, stride)
}

func dotRows(y []float32, x []BF16, ldx int, w []float32, bias float32) {
	dotRowsPlain(y, x, ldx, w, bias)
}

func outerRows(dst []BF16, ldd int, factor, w []float32, gate []BF16) {
	outerRowsPlain(dst, ldd, factor, w, gate)
}

func addScaledRows(sum []float32, x []BF16, ldx int, factor []float32) {
	addScaledRowsPlain(sum, x, ldx, factor)
}

func peakBF16(int) int { return 0 }
