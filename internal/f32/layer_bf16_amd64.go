//go:build !noasm

package f32

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/cpu"
)

// AMX says why bfloat16 is refused on this machine: nil if it is not. The first
// call asks the kernel for the use of tiles, for the whole process.
func AMX() error { return askForTiles() }

var askForTiles = sync.OnceValue(func() error {
	if runtime.GOOS != "linux" {
		return errors.New("f32: bfloat16: only Linux is asked for AMX tiles: use float32")
	}
	if !cpu.X86.HasAMXTile || !cpu.X86.HasAMXBF16 || len(backends()) < 2 {
		return errors.New("f32: bfloat16 needs a CPU with AVX-512 and AMX-BF16 (Intel Sapphire Rapids or later): use float32")
	}
	const archPrctl, requestPermission, tileData = 158, 0x1023, 18
	if _, _, errno := syscall.RawSyscall(archPrctl, requestPermission, tileData, 0); errno != 0 {
		return fmt.Errorf("f32: bfloat16: the kernel refuses AMX tiles (Linux 5.16 or later has them): %w: use float32", errno)
	}
	return nil
})

func tilesReady() bool { return useTiles && AMX() == nil }

func asPairs(v []BF16) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(v))), len(v)/2)
}

func joinRows(dst []uint32, low, high []BF16) {
	if tilesReady() && len(dst) > 0 {
		_, _ = low[len(dst)-1], high[len(dst)-1]
		interleaveAVX512(&dst[0], &low[0], &high[0], len(dst))
		return
	}
	joinRowsPlain(dst, low, high)
}

func transposePairs(dst, src []uint32, n, ldd, lds int) {
	if tilesReady() && n > 0 {
		d, s := (*float32)(unsafe.Pointer(&dst[0])), (*float32)(unsafe.Pointer(&src[0]))
		_, _ = dst[(8*n-1)*ldd+7], src[7*lds+8*n-1]
		transposeAVX2(d, s, n, ldd, lds)
		return
	}
	transposePairsPlain(dst, src, n, ldd, lds)
}

func (k *WorkBF16) multiply(a []uint32, lda int, b *pairs, j, blocks int) {
	if !tilesReady() || b.depth == 0 {
		k.multiplyPlain(a, lda, b, j, blocks)
		return
	}
	_, _ = a[(blocks*tile-1)*lda+b.depth*tile/2-1], b.data[(b.depth*tile/2-1)*b.stride+j+tile-1]
	tilesAMX(&k.sums[0], (*uint16)(unsafe.Pointer(&a[0])), &b.data[j], blocks, b.depth, 4*lda, 4*b.stride)
}

func (k *WorkBF16) finishBF16(dst, gate []BF16, rows, stride int, floor float32) {
	if !tilesReady() {
		k.finishBF16Plain(dst, gate, rows, stride, floor)
		return
	}
	finishBF16AVX512(&dst[0], &k.sums[0], &k.bias[0], unsafe.SliceData(gate), rows, 2*stride, 2*stride, tile, floor)
}

func (k *WorkBF16) finishF32(dst []float32, gate []BF16, rows, stride, ldg, cols int, floor float32) {
	if !tilesReady() {
		k.finishF32Plain(dst, gate, rows, stride, ldg, cols, floor)
		return
	}
	finishF32AVX512(&dst[0], &k.sums[0], &k.bias[0], unsafe.SliceData(gate), rows, 4*stride, 2*ldg, cols, floor)
}

func (k *WorkBF16) accumulate(dst []float32, rows, stride, cols int) {
	if !tilesReady() {
		k.accumulatePlain(dst, rows, stride, cols)
		return
	}
	accumulateAVX512(&dst[0], &k.sums[0], rows, 4*stride, cols)
}

func (k *WorkBF16) addColumnSums(sum []float32, a []BF16, rows, stride int) {
	if !tilesReady() {
		addColumnSumsPlain(sum, a, rows, stride)
		return
	}
	k.bias = [tile]float32{}
	copy(k.bias[:], sum)
	columnSumsBF16AVX512(&k.bias[0], &a[0], rows, 2*stride)
	copy(sum, k.bias[:])
}
