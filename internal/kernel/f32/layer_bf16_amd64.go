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

// machineBF16 returns the unit that this machine multiplies with: tiles if it has them,
// else vectors. With both, vectors are slower (on Sapphire Rapids half as fast as float32).
// With vectors only, they do two products in the time of one in float32 (Zen 4 and later).
var machineBF16 = sync.OnceValues(func() (unitBF16, error) {
	x := &cpu.X86
	switch {
	case !x.HasAVX512BF16 || len(backends()) < 2:
		return noUnit, errors.New("f32: bfloat16 needs a CPU with AVX512_BF16 (AMD Zen 4 or later) or AMX (Intel Sapphire Rapids or later)")
	case x.HasAMXTile && x.HasAMXBF16:
		return askForTiles()
	}
	return vectors, nil
})

func askForTiles() (unitBF16, error) {
	if runtime.GOOS != "linux" {
		return noUnit, errors.New("f32: bfloat16: only Linux is asked for AMX tiles")
	}
	const archPrctl, requestPermission, tileData = 158, 0x1023, 18
	if _, _, errno := syscall.RawSyscall(archPrctl, requestPermission, tileData, 0); errno != 0 {
		return noUnit, fmt.Errorf("f32: bfloat16: the kernel rejects AMX tiles (Linux 5.16 or later has them): %w", errno)
	}
	return tiles, nil
}

func asPairs(v []BF16) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(v))), len(v)/2)
}

// The ends of the kernels' operands are accessed once, so that a wrong shape panics here
// and does not reach them.

func roundRows(dst []BF16, ldd int, src []float32, lds, rows, cols int) {
	if !assembled() {
		roundRowsPlain(dst, ldd, src, lds, rows, cols)
		return
	}
	_, _ = dst[(rows-1)*ldd+padTile(cols)-1], src[(rows-1)*lds+cols-1]
	halvesAVX512(&dst[0], &src[0], rows, cols/tile, cols%tile, 2*ldd, 4*lds)
}

func joinRows(dst []uint32, ldd int, src []BF16, lds, pairs, n int) {
	if !assembled() {
		joinRowsPlain(dst, ldd, src, lds, pairs, n)
		return
	}
	_, _ = dst[(pairs-1)*ldd+n-1], src[(2*pairs-1)*lds+n-1]
	interleaveAVX512(&dst[0], &src[0], pairs, n, 4*ldd, 2*lds)
}

func transposePairs(dst, src []uint32, n, ldd, lds int) {
	if !assembled() || n == 0 {
		transposePairsPlain(dst, src, n, ldd, lds)
		return
	}
	d, s := (*float32)(unsafe.Pointer(&dst[0])), (*float32)(unsafe.Pointer(&src[0]))
	_, _ = dst[(8*n-1)*ldd+7], src[7*lds+8*n-1]
	transposeAVX2(d, s, n, ldd, lds)
}

func transposeRows(dst []BF16, ldd int, src []BF16, lds, n int) {
	if !assembled() {
		transposeRowsPlain(dst, ldd, src, lds, n)
		return
	}
	_, _ = dst[(8*n-1)*ldd+tile-1], src[(tile-1)*lds+8*n-1]
	transposeHalvesAVX512(&dst[0], &src[0], n, 2*ldd, 2*lds)
}

// toFloat sets 32 rows of c to init + a·b, for blocks of 32 columns of b from j on. Rows of
// init are ldi apart; 0 means that all rows start from the same one.
func (k *WorkBF16) toFloat(c []float32, ldc int, a []BF16, b *pairs, j int, init []float32, ldi, blocks int) {
	if !assembled() || b.depth == 0 {
		toFloatPlain(c, ldc, a, b, j, init, ldi, blocks)
		return
	}
	far, width := tile-1, blocks*tile
	_, _, _ = c[far*ldc+width-1], init[far*ldi+width-1], a[far*b.lda()+b.depth*tile-1]
	_ = b.data[b.at(j+width-1)+(b.depth*tile/2-1)*b.stride]
	if b.unit == tiles {
		tilesToFloatAMX(&c[0], &a[0], &b.data[j], &init[0], blocks, b.depth, 2*b.lda(), 4*b.stride, 4*ldc, 4*ldi)
		return
	}
	for i := 0; i < width; i += tile {
		for _, d := range dots {
			d.toFloat(&c[d.row*ldc+i], &a[d.row*b.lda()], &b.data[b.at(j+i)], &init[d.row*ldi+i], b.depth*tile/2, 2*b.lda(), 4*ldc, 4*ldi)
		}
	}
}

// toHalf sets 32 rows of c to a·b with row, floor and gate, for blocks of 32 columns. Rows
// of gate are laid out like the rows of c.
func (k *WorkBF16) toHalf(c []BF16, ldc int, a []BF16, b *pairs, gate []BF16, blocks int, floor float32) {
	if !assembled() || b.depth == 0 {
		k.toHalfPlain(c, ldc, a, b, gate, blocks, floor)
		return
	}
	far, width := tile-1, blocks*tile
	_, _, _ = c[far*ldc+width-1], a[far*b.lda()+b.depth*tile-1], b.data[b.at(width-1)+(b.depth*tile/2-1)*b.stride]
	if _ = k.row[width-1]; gate != nil {
		_ = gate[far*ldc+width-1]
	}
	if b.unit == tiles {
		tilesToHalfAMX(&c[0], &a[0], &b.data[0], &k.row[0], unsafe.SliceData(gate), &k.block[0], blocks, b.depth, 2*b.lda(), 4*b.stride, 2*ldc, floor)
		return
	}
	for i := 0; i < width; i += tile {
		for _, d := range dots {
			var open *uint16
			if gate != nil {
				open = &gate[d.row*ldc+i]
			}
			d.toHalf(&c[d.row*ldc+i], &a[d.row*b.lda()], &b.data[b.at(i)], &k.row[i], open, b.depth*tile/2, 2*b.lda(), 2*ldc, floor)
		}
	}
}

// dots are the vector kernels for the 32 rows of a block.
var dots = [...]struct {
	row     int
	toFloat func(c *float32, a *uint16, b *uint32, init *float32, k, lda, ldc, ldi int)
	toHalf  func(dst, a *uint16, b *uint32, bias *float32, gate *uint16, k, lda, ldd int, floor float32)
}{
	{0, dotsToFloat11AVX512BF16, dotsToHalf11AVX512BF16},
	{11, dotsToFloat11AVX512BF16, dotsToHalf11AVX512BF16},
	{22, dotsToFloat10AVX512BF16, dotsToHalf10AVX512BF16},
}

func (k *WorkBF16) addColumnSums(sum []float32, a []BF16, rows, stride int) {
	if !assembled() {
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
	if !assembled() || len(w) == 0 {
		dotRowsPlain(y, x, ldx, w, bias)
		return
	}
	_ = x[(len(y)-1)*ldx+len(w)-1]
	dotHalvesAVX512(&y[0], &x[0], &w[0], len(y), len(w), 2*ldx, bias)
}

// outerRows sets dst to the product of a column and w, and to 0 where gate is 0. w is
// padded with zeros to full tiles.
func outerRows(dst []BF16, ldd int, factor, w []float32, gate []BF16) {
	if !assembled() {
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
	if !assembled() {
		addScaledRowsPlain(sum, x, ldx, factor)
		return
	}
	_ = x[(len(factor)-1)*ldx+tile-1]
	scaledRowsAVX512(&sum[0], &x[0], &factor[0], len(factor), 2*ldx, len(sum))
}

// peakBF16 runs n rounds of products on registers and returns the number of operations.
func peakBF16(n int) int {
	switch unit, _ := machineBF16(); unit {
	case tiles:
		peakAMX(n)
		return n * 4 * 2 * 16 * 16 * 32
	case vectors:
		peakAVX512BF16(n)
		return n * 12 * 2 * 16 * 2
	}
	return 0
}
