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
		return errors.New("f32: bfloat16: only Linux is asked for AMX tiles")
	}
	if !cpu.X86.HasAMXTile || !cpu.X86.HasAMXBF16 || !cpu.X86.HasAVX512BF16 || len(backends()) < 2 {
		return errors.New("f32: bfloat16 needs a CPU with AVX512-BF16 and AMX-BF16 (Intel Sapphire Rapids or later)")
	}
	const archPrctl, requestPermission, tileData = 158, 0x1023, 18
	if _, _, errno := syscall.RawSyscall(archPrctl, requestPermission, tileData, 0); errno != 0 {
		return fmt.Errorf("f32: bfloat16: the kernel refuses AMX tiles (Linux 5.16 or later has them): %w", errno)
	}
	return nil
})

func tilesReady() bool { return useTiles && AMX() == nil }

func asPairs(v []BF16) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(v))), len(v)/2)
}

// The kernels' operands are looked up once at their far ends, so that a wrong
// shape panics here and does not reach them.

func roundRows(dst []BF16, ldd int, src []float32, rows, cols int) {
	if !tilesReady() {
		roundRowsPlain(dst, ldd, src, rows, cols)
		return
	}
	_, _ = dst[(rows-1)*ldd+padTile(cols)-1], src[rows*cols-1]
	halvesAVX512(&dst[0], &src[0], rows, cols/tile, cols%tile, 2*ldd, 4*cols)
}

func joinRows(dst []uint32, ldd int, src []BF16, lds, pairs, n int) {
	if !tilesReady() {
		joinRowsPlain(dst, ldd, src, lds, pairs, n)
		return
	}
	_, _ = dst[(pairs-1)*ldd+n-1], src[(2*pairs-1)*lds+n-1]
	interleaveAVX512(&dst[0], &src[0], pairs, n, 4*ldd, 2*lds)
}

func transposePairs(dst, src []uint32, n, ldd, lds int) {
	if !tilesReady() || n == 0 {
		transposePairsPlain(dst, src, n, ldd, lds)
		return
	}
	d, s := (*float32)(unsafe.Pointer(&dst[0])), (*float32)(unsafe.Pointer(&src[0]))
	_, _ = dst[(8*n-1)*ldd+7], src[7*lds+8*n-1]
	transposeAVX2(d, s, n, ldd, lds)
}

func transposeRows(dst []BF16, ldd int, src []BF16, lds, n int) {
	if !tilesReady() {
		transposeRowsPlain(dst, ldd, src, lds, n)
		return
	}
	_, _ = dst[(8*n-1)*ldd+tile-1], src[(tile-1)*lds+8*n-1]
	transposeHalvesAVX512(&dst[0], &src[0], n, 2*ldd, 2*lds)
}

// toFloat sets 32 rows of c to init + a·b, for blocks of 32 columns of b from j on.
// Rows of init lie ldi apart, 0 for one that all start from.
func (k *WorkBF16) toFloat(c []float32, ldc int, a []BF16, b *pairs, j int, init []float32, ldi, blocks int) {
	if !tilesReady() || b.depth == 0 {
		toFloatPlain(c, ldc, a, b, j, init, ldi, blocks)
		return
	}
	far, width := tile-1, blocks*tile
	_, _, _ = c[far*ldc+width-1], init[far*ldi+width-1], a[far*b.lda()+b.depth*tile-1]
	_ = b.data[(b.depth*tile/2-1)*b.stride+j+width-1]
	tilesToFloatAMX(&c[0], &a[0], &b.data[j], &init[0], blocks, b.depth, 2*b.lda(), 4*b.stride, 4*ldc, 4*ldi)
}

// toHalf sets 32 rows of c to a·b through row, floor and gate, for blocks of 32
// columns. Rows of gate lie as those of c.
func (k *WorkBF16) toHalf(c []BF16, ldc int, a []BF16, b *pairs, gate []BF16, blocks int, floor float32) {
	if !tilesReady() || b.depth == 0 {
		k.toHalfPlain(c, ldc, a, b, gate, blocks, floor)
		return
	}
	far, width := tile-1, blocks*tile
	_, _, _ = c[far*ldc+width-1], a[far*b.lda()+b.depth*tile-1], b.data[(b.depth*tile/2-1)*b.stride+width-1]
	if _ = k.row[width-1]; gate != nil {
		_ = gate[far*ldc+width-1]
	}
	tilesToHalfAMX(&c[0], &a[0], &b.data[0], &k.row[0], unsafe.SliceData(gate), &k.block[0], blocks, b.depth, 2*b.lda(), 4*b.stride, 2*ldc, floor)
}

func (k *WorkBF16) addColumnSums(sum []float32, a []BF16, rows, stride int) {
	if !tilesReady() {
		addColumnSumsPlain(sum, a, rows, stride)
		return
	}
	_ = a[(rows-1)*stride+tile-1]
	k.begin(sum, len(sum))
	columnSumsBF16AVX512(&k.row[0], &a[0], rows, 2*stride)
	copy(sum, k.row)
}

// dotRows sets y to bias + x·w; w is padded with zeros to whole tiles.
func dotRows(y []float32, x []BF16, ldx int, w []float32, bias float32) {
	if !tilesReady() || len(w) == 0 {
		dotRowsPlain(y, x, ldx, w, bias)
		return
	}
	_ = x[(len(y)-1)*ldx+len(w)-1]
	dotHalvesAVX512(&y[0], &x[0], &w[0], len(y), len(w), 2*ldx, bias)
}

// outerRows sets dst to the product of a column and of w, and to 0 where gate is;
// w is padded with zeros to whole tiles.
func outerRows(dst []BF16, ldd int, factor, w []float32, gate []BF16) {
	if !tilesReady() {
		outerRowsPlain(dst, ldd, factor, w, gate)
		return
	}
	far := (len(factor)-1)*ldd + len(w) - 1
	if _ = dst[far]; gate != nil {
		_ = gate[far]
	}
	outerHalvesAVX512(&dst[0], &factor[0], &w[0], unsafe.SliceData(gate), len(factor), len(w), 2*ldd)
}

// addScaledRows adds the rows of x, each times its factor, to at most 32 sums.
func addScaledRows(sum []float32, x []BF16, ldx int, factor []float32) {
	if !tilesReady() {
		addScaledRowsPlain(sum, x, ldx, factor)
		return
	}
	_ = x[(len(factor)-1)*ldx+tile-1]
	scaledRowsAVX512(&sum[0], &x[0], &factor[0], len(factor), 2*ldx, len(sum))
}

// peakTiles runs n rounds of four products of tiles, if there are any.
func peakTiles(n int) bool {
	if !tilesReady() {
		return false
	}
	peakAMX(n)
	return true
}
