//go:build !amd64 || noasm

package f32

import (
	"errors"
	"unsafe"
)

// AMX says why bfloat16 is refused on this machine: here always, for the program
// was built without assembly for it.
func AMX() error {
	return errors.New("f32: bfloat16 needs AMX, which this build has not (linux/amd64 without the tag noasm has): use float32")
}

func asPairs(v []BF16) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(v))), len(v)/2)
}

func joinRows(dst []uint32, low, high []BF16) { joinRowsPlain(dst, low, high) }

func transposePairs(dst, src []uint32, n, ldd, lds int) { transposePairsPlain(dst, src, n, ldd, lds) }

func (k *WorkBF16) multiply(a []uint32, lda int, b *pairs, j, blocks int) {
	k.multiplyPlain(a, lda, b, j, blocks)
}

func (k *WorkBF16) finishBF16(dst, gate []BF16, rows, stride int, floor float32) {
	k.finishBF16Plain(dst, gate, rows, stride, floor)
}

func (k *WorkBF16) finishF32(dst []float32, gate []BF16, rows, stride, ldg, cols int, floor float32) {
	k.finishF32Plain(dst, gate, rows, stride, ldg, cols, floor)
}

func (k *WorkBF16) accumulate(dst []float32, rows, stride, cols int) {
	k.accumulatePlain(dst, rows, stride, cols)
}

func (k *WorkBF16) addColumnSums(sum []float32, a []BF16, rows, stride int) {
	addColumnSumsPlain(sum, a, rows, stride)
}
