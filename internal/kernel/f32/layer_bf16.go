package f32

import (
	"fmt"
	"math"
)

// The layer in bfloat16. Activations, their gradients and packed weights are bfloat16; sums
// and weight gradients are float32, as are the caller's master weights. With AMX, tiles of
// 16×16 multiply 32 deep. With only AVX512_BF16, vectors multiply pairs. Otherwise plain
// loops do the same arithmetic, slowly, for tests; programs reject bfloat16 if NoBF16
// returns an error.
//
// Matrices. A bfloat16 matrix of rows×cols has LenBF16(rows, cols) values. Its rows are
// StrideBF16(cols) apart. Rows and columns are padded to full blocks of 32 with 0, which
// ConvertBF16 and the products write. Values between the last block of a row and the next
// row are unspecified.
//
// Order of additions. A sum starts from the bias, from 0 or from the accumulated value, and
// goes over ascending indices. In tiles it goes over blocks of 32 factors. A block is the
// sum of its even products plus the sum of its odd ones, each in ascending order and
// rounded at each step. In vectors it goes over pairs: the odd product is added, then the
// even one, each fused into one rounding. Subnormal numbers count as 0. One row's output
// does not depend on the rows around it; weight gradients take 256 rows at a time. The sums
// of a single output differ: see layer_bf16_one.go.

const (
	tile      = 32  // rows and columns of a block, and its depth
	tileChunk = 256 // rows whose gradients are added at once: transposed, they stay in the second-level cache
)

// unitBF16 is the unit that multiplies.
type unitBF16 int

const (
	noUnit  unitBF16 = iota
	tiles            // AMX
	vectors          // VDPBF16PS of AVX512_BF16
)

// plainBF16 is set by tests to run plain loops in the order of that unit.
var plainBF16 unitBF16

// orderBF16 returns the unit whose order of additions applies.
func orderBF16() unitBF16 {
	if plainBF16 != noUnit {
		return plainBF16
	}
	unit, _ := machineBF16()
	return unit
}

// assembled reports whether kernels run, not the plain loops.
func assembled() bool { return plainBF16 == noUnit && orderBF16() != noUnit }

// NoBF16 returns the reason why this machine does not support bfloat16, or nil. On a CPU
// with AMX the first call requests the use of tiles from the kernel for the whole process.
func NoBF16() error {
	_, err := machineBF16()
	return err
}

func padTile(n int) int { return (n + tile - 1) / tile * tile }

// StrideBF16 returns the distance of rows of cols values: full tiles and an odd number of
// cache lines, so that the rows of a tile do not share cache sets.
func StrideBF16(cols int) int { return (padTile(cols)/tile | 1) * tile }

// LenBF16 returns the length of a rows×cols matrix.
func LenBF16(rows, cols int) int { return padTile(rows) * StrideBF16(cols) }

// ConvertBF16 rounds a float32 matrix of rows×cols to bfloat16.
func ConvertBF16(dst []BF16, src []float32, rows, cols int) {
	check("ConvertBF16", "src", len(src), rows, cols)
	checkBF16("ConvertBF16", "dst", len(dst), rows, cols)
	if rows > 0 && cols > 0 {
		roundRows(dst, StrideBF16(cols), src, cols, rows, cols)
	}
	clearBelow(dst, rows, cols)
}

// clearBelow zeroes the rows past the last of a matrix.
func clearBelow(m []BF16, rows, cols int) {
	clear(m[rows*StrideBF16(cols) : LenBF16(rows, cols)])
}

func checkBF16(op, name string, n, rows, cols int) {
	if rows < 0 || cols < 0 || n < LenBF16(rows, cols) {
		panic(fmt.Sprintf("f32: %s: %s holds %d values, LenBF16(%d, %d) is %d", op, name, n, rows, cols, LenBF16(rows, cols)))
	}
}

// pairs holds a matrix of k×n as 32-bit pairs of rows 2i and 2i+1, in the order in which
// products read the second factor: for tiles by row, for vectors in panels of 32 columns,
// so that a loop over k reads consecutive lines.
type pairs struct {
	unit   unitBF16
	depth  int // in tiles
	stride int // pairs from row to row
	next   int // pairs from 32 columns to the next
	data   []uint32
}

// at returns the offset of column j.
func (p *pairs) at(j int) int { return j/tile*p.next + j%tile }

// lda returns the distance of rows of the first factor, whose columns are b's rows.
func (p *pairs) lda() int { return StrideBF16(p.depth * tile) }

// resize allocates k×n, both padded to full tiles.
func (p *pairs) resize(k, n int) {
	p.unit, p.depth = orderBF16(), padTile(k)/tile
	p.stride, p.next = (padTile(n)/16|1)*16, tile
	size := p.depth * tile / 2 * p.stride
	if p.unit == vectors {
		p.stride, p.next = tile, p.depth*tile/2*tile
		size = padTile(n) / tile * p.next
	}
	if cap(p.data) < size {
		p.data = make([]uint32, size)
	}
	p.data = p.data[:size]
}

// set copies a matrix of k×n.
func (p *pairs) set(src []BF16, k, n int) {
	p.resize(k, n)
	width := padTile(n)
	if p.unit == vectors {
		width = tile
	}
	for j := 0; j < n && len(p.data) > 0; j += width {
		joinRows(p.data[p.at(j):], p.stride, src[j:], StrideBF16(n), p.depth*tile/2, width)
	}
}

// setTransposed copies the transpose of a matrix of n×k. Pair i of row j holds src[j][2i]
// and src[j][2i+1], which are adjacent, so this is a transposition of 32-bit values.
func (p *pairs) setTransposed(src []BF16, k, n int) {
	p.resize(k, n)
	words, stride := asPairs(src), StrideBF16(k)/2
	for j := 0; j < padTile(n) && p.depth > 0; j += 8 {
		transposePairs(p.data[p.at(j):], words[j*stride:], p.depth*tile/16, p.stride, stride)
	}
}

// PackedBF16 holds a layer's weights, in×out, rounded to bfloat16. After Pack any number of
// goroutines may use it.
type PackedBF16 struct {
	in, out       int
	rounded       []BF16
	forward, grad pairs     // of w and of wᵀ
	column        []float32 // of a single output: the rounded weights, padded to full tiles
}

// Pack rounds the weights of one step, in×out. It reuses its memory from step to step.
func (p *PackedBF16) Pack(w []float32, in, out int) {
	check("PackedBF16.Pack", "w", len(w), in, out)
	p.in, p.out = in, out
	p.rounded = growBF16(p.rounded, LenBF16(in, out))
	ConvertBF16(p.rounded, w, in, out)
	p.forward.set(p.rounded, in, out)
	p.grad.setTransposed(p.rounded, out, in)
	if out == 1 {
		p.column = firstColumn(p.column, p.rounded, padTile(in), StrideBF16(out))
	}
}

func growBF16(buf []BF16, n int) []BF16 {
	if cap(buf) < n {
		return make([]BF16, n)
	}
	return buf[:n]
}

// WorkBF16 is the memory of one goroutine for the parts of a product. The zero value is
// ready for use.
type WorkBF16 struct {
	block  []float32 // 32×32, stays in the first-level cache
	row    []float32 // initial sums: the bias or zeros, padded to full tiles
	right  pairs
	left   []BF16    // the transpose of 32 columns of x
	factor []float32 // of a single output: its gradients
}

// begin allocates the block and sets row to the n values of a bias, or to 0.
func (k *WorkBF16) begin(bias []float32, n int) {
	if k.block == nil {
		k.block = make([]float32, tile*tile)
	}
	k.row = grow(k.row, padTile(n))
	clear(k.row[copy(k.row, bias):])
}

// Forward computes y = x·w + bias, or max(y, 0) if relu is set. A nil bias is zero. NaN
// passes through ReLU.
func (k *WorkBF16) Forward(y, x []BF16, w *PackedBF16, bias []float32, rows int, relu bool) {
	if bias != nil {
		check("Forward", "bias", len(bias), 1, w.out)
	}
	floor := float32(math.Inf(-1))
	if relu {
		floor = 0
	}
	k.halves("Forward", y, x, &w.forward, bias, nil, rows, w.in, w.out, floor)
}

// ForwardF32 computes y = x·w + bias, rows×out, without rounding to bfloat16.
func (k *WorkBF16) ForwardF32(y []float32, x []BF16, w *PackedBF16, bias []float32, rows int) {
	if bias != nil {
		check("ForwardF32", "bias", len(bias), 1, w.out)
	}
	check("ForwardF32", "y", len(y), rows, w.out)
	checkBF16("ForwardF32", "x", len(x), rows, w.in)
	if w.out == 1 {
		k.forwardOne(y, x, w, bias, rows)
		return
	}
	k.floats(y, x, &w.forward, bias, rows, w.in, w.out)
}

// GradInput computes dx = dy·wᵀ, set to 0 where gate is 0. gate is the layer's input if it
// came out of a ReLU, otherwise nil.
func (k *WorkBF16) GradInput(dx, dy []BF16, w *PackedBF16, rows int, gate []BF16) {
	if gate != nil {
		checkBF16("GradInput", "gate", len(gate), rows, w.in)
	}
	if w.out == 1 {
		k.gradInputOne(dx, dy, w, rows, gate)
		return
	}
	k.halves("GradInput", dx, dy, &w.grad, nil, gate, rows, w.out, w.in, float32(math.Inf(-1)))
}

// GradInputF32 computes dx = dy·wᵀ, rows×in, without rounding to bfloat16.
func (k *WorkBF16) GradInputF32(dx []float32, dy []BF16, w *PackedBF16, rows int) {
	check("GradInputF32", "dx", len(dx), rows, w.in)
	checkBF16("GradInputF32", "dy", len(dy), rows, w.out)
	k.floats(dx, dy, &w.grad, nil, rows, w.out, w.in)
}

// GradWeight adds the gradients of one batch: dw += xᵀ·dy and db += the column sums of dy,
// both float32. db may be nil.
func (k *WorkBF16) GradWeight(dw, db []float32, x, dy []BF16, rows, in, out int) {
	check("GradWeight", "dw", len(dw), in, out)
	checkBF16("GradWeight", "x", len(x), rows, in)
	checkBF16("GradWeight", "dy", len(dy), rows, out)
	if db != nil {
		check("GradWeight", "db", len(db), 1, out)
	}
	if out == 1 {
		k.gradWeightOne(dw, db, x, dy, rows, in)
		return
	}
	k.begin(nil, 0)
	for r := 0; r < rows && out > 0; r += tileChunk {
		m := min(tileChunk, rows-r)
		k.gradWeight(dw, x[r*StrideBF16(in):], dy[r*StrideBF16(out):], m, in, out)
		for j := 0; j < out && db != nil; j += tile {
			k.addColumnSums(db[j:min(j+tile, out)], dy[r*StrideBF16(out)+j:], m, StrideBF16(out))
		}
	}
}

// gradWeight is GradWeight for dw and at most tileChunk rows. It transposes 32 columns of x
// at a time, which stay in the first-level cache.
func (k *WorkBF16) gradWeight(dw []float32, x, dy []BF16, rows, in, out int) {
	ldx, stride := StrideBF16(in), StrideBF16(rows)
	k.left = growBF16(k.left, tile*stride)
	k.right.set(dy, rows, out)
	for i := 0; i < in; i += tile {
		for r := 0; r < rows; r += tile {
			transposeRows(k.left[r:], stride, x[r*ldx+i:], ldx, tile/8)
		}
		k.floatRows(dw[i*out:], k.left, &k.right, min(tile, in-i), out, true)
	}
}

// halves computes c = a·b, rows×n, with bias, floor and gate.
func (k *WorkBF16) halves(op string, c, a []BF16, b *pairs, bias []float32, gate []BF16, rows, depth, n int, floor float32) {
	checkBF16(op, "its input", len(a), rows, depth)
	checkBF16(op, "its result", len(c), rows, n)
	k.begin(bias, n)
	ldc := StrideBF16(n)
	for i := 0; i < rows && n > 0; i += tile {
		var open []BF16
		if gate != nil {
			open = gate[i*ldc:]
		}
		k.toHalf(c[i*ldc:], ldc, a[i*StrideBF16(depth):], b, open, padTile(n)/tile, floor)
	}
	clearBelow(c, rows, n)
}

// floats computes c = a·b + bias, rows×n.
func (k *WorkBF16) floats(c []float32, a []BF16, b *pairs, bias []float32, rows, depth, n int) {
	k.begin(bias, n)
	for i := 0; i < rows; i += tile {
		k.floatRows(c[i*n:], a[i*StrideBF16(depth):], b, min(tile, rows-i), n, false)
	}
}

// floatRows computes at most 32 rows of a product, starting from row or, with add, from c.
// Partial blocks of rows or columns are computed in k.block.
func (k *WorkBF16) floatRows(c []float32, a []BF16, b *pairs, rows, n int, add bool) {
	j := 0
	if whole := n / tile; rows == tile && whole > 0 {
		init, ldi := k.row, 0
		if add {
			init, ldi = c, n
		}
		k.toFloat(c, n, a, b, 0, init, ldi, whole)
		j = whole * tile
	}
	for ; j < n; j += tile {
		k.edge(c[j:], n, a, b, j, rows, min(tile, n-j), add)
	}
}

// edge computes a block of which only rows×cols exist.
func (k *WorkBF16) edge(c []float32, ldc int, a []BF16, b *pairs, j, rows, cols int, add bool) {
	for i := range tile {
		at := k.block[i*tile:][:tile]
		if add {
			clear(at)
		} else {
			copy(at, k.row[j:])
		}
		if add && i < rows {
			copy(at[:cols], c[i*ldc:])
		}
	}
	k.toFloat(k.block, tile, a, b, j, k.block, tile, 1)
	for i := range rows {
		copy(c[i*ldc:][:cols], k.block[i*tile:])
	}
}
