package f32

import (
	"fmt"
	"math"
)

// The layer in bfloat16: activations, their gradients and packed weights are
// bfloat16, sums and weight gradients float32, master weights the caller's
// float32. With AMX, tiles of 16×16 multiply 32 deep; elsewhere the plain loop
// below does the same arithmetic, slowly, for tests: a program refuses bfloat16
// where AMX gives an error.
//
// Matrices. A bfloat16 matrix of rows×cols has LenBF16(rows, cols) values: its
// rows lie StrideBF16(cols) apart and are whole blocks of 32, their columns from
// cols on are 0. ConvertBF16 and the products write it so. Rows past the last may
// hold anything.
//
// Order of additions. Sums go over blocks of 32 factors upwards from 0. A block
// is one sum of its even products and one of its odd ones, each upwards and
// rounded at each step; their sum is added to the block before. Bias comes last.
// Subnormal numbers count as 0 with AMX. One row's output does not depend on the
// rows around it; the weight gradients of 256 rows at a time are added to dw.

const (
	tile      = 32  // rows and columns of a block, and its depth
	tileChunk = 256 // rows between their sums and their results, which stay in L1
)

// useTiles is cleared by tests, which compare with the plain loops.
var useTiles = true

func padTile(n int) int { return (n + tile - 1) / tile * tile }

// StrideBF16 is the distance of rows of cols values: whole tiles and an odd
// number of cache lines, so that the rows of a tile do not share sets.
func StrideBF16(cols int) int { return (padTile(cols)/tile | 1) * tile }

// LenBF16 is the length of a rows×cols matrix.
func LenBF16(rows, cols int) int { return padTile(rows) * StrideBF16(cols) }

// ConvertBF16 rounds a float32 matrix of rows×cols.
func ConvertBF16(dst []BF16, src []float32, rows, cols int) {
	check("ConvertBF16", "src", len(src), rows, cols)
	checkBF16("ConvertBF16", "dst", len(dst), rows, cols)
	stride := StrideBF16(cols)
	for r := range rows {
		row := dst[r*stride:][:stride]
		ToBF16(row[:cols], src[r*cols:(r+1)*cols])
		clear(row[cols:])
	}
}

func checkBF16(op, name string, n, rows, cols int) {
	if rows < 0 || cols < 0 || n < LenBF16(rows, cols) {
		panic(fmt.Sprintf("f32: %s: %s holds %d values, LenBF16(%d, %d) is %d", op, name, n, rows, cols, LenBF16(rows, cols)))
	}
}

// PackedBF16 is a layer's weights, in×out, rounded to bfloat16. After Pack any
// number of goroutines may use it.
type PackedBF16 struct {
	in, out       int
	forward, grad pairs // of w and of wᵀ
	rounded       []BF16
}

// pairs holds a matrix of k×n as 32-bit pairs of rows 2i and 2i+1, the order in
// which tiles read the second factor. Rows are padded with zeros to whole tiles.
type pairs struct {
	depth  int // of tiles
	stride int // pairs from row to row
	data   []uint32
}

// set takes the k rows of src, stride values apart, of n values, padded.
func (p *pairs) set(src []BF16, stride, k, n int) {
	p.depth, p.stride = padTile(k)/tile, (padTile(n)/16|1)*16
	size := p.depth * tile / 2 * p.stride
	if cap(p.data) < size {
		p.data = make([]uint32, size)
	}
	p.data = p.data[:size]
	width := padTile(n)
	for i := range p.depth * tile / 2 {
		row := p.data[i*p.stride:][:width]
		switch {
		case 2*i+1 < k:
			joinRows(row, src[2*i*stride:], src[(2*i+1)*stride:])
		case 2*i < k:
			for j := range row {
				row[j] = uint32(src[2*i*stride+j])
			}
		default:
			clear(row)
		}
	}
}

// transposeTo stores the pairs of n columns as rows of dst, stride pairs apart:
// the first factor of the product of the transpose.
func (p *pairs) transposeTo(dst []uint32, stride, n int) {
	for i := 0; i < p.depth*tile/2 && n > 0; i += 8 {
		transposePairs(dst[i:], p.data[i*p.stride:], padTile(n)/8, stride, p.stride)
	}
}

// Pack takes the weights of one step, in×out, rounding them. It keeps its memory
// from step to step.
func (p *PackedBF16) Pack(w []float32, in, out int) {
	check("PackedBF16.Pack", "w", len(w), in, out)
	p.in, p.out = in, out
	if n := LenBF16(in, out); cap(p.rounded) < n {
		p.rounded = make([]BF16, n)
	}
	p.rounded = p.rounded[:LenBF16(in, out)]
	ConvertBF16(p.rounded, w, in, out)
	p.forward.set(p.rounded, StrideBF16(out), in, out)
	p.setGrad(w)
}

// setGrad makes the pairs of wᵀ: pair i of column j holds w[j][2i] and w[j][2i+1],
// which lie beside each other, so it is a transposition of 32-bit values.
func (p *PackedBF16) setGrad(w []float32) {
	g, stride := &p.grad, StrideBF16(p.out)
	g.depth, g.stride = padTile(p.out)/tile, (padTile(p.in)/16|1)*16
	size := g.depth * tile / 2 * g.stride
	if cap(g.data) < size {
		g.data = make([]uint32, size)
	}
	g.data = g.data[:size]
	for i := p.in * stride; i < len(p.rounded); i++ {
		p.rounded[i] = 0
	}
	src := asPairs(p.rounded)
	for j := 0; j < padTile(p.in) && g.depth > 0; j += 8 {
		transposePairs(g.data[j:], src[j*stride/2:], g.depth*tile/16, g.stride, stride/2)
	}
}

// WorkBF16 is the memory of one goroutine between the parts of a product. The
// zero value is ready.
type WorkBF16 struct {
	sums  [tileChunk * tile]float32
	bias  [tile]float32
	right pairs
	left  []uint32
}

// Forward computes y = x·w + bias, and max(y, 0) of it if relu, as bfloat16 to y
// and as float32, rows×out, to yf; either may be nil, and so may bias.
func (k *WorkBF16) Forward(y []BF16, yf []float32, x []BF16, w *PackedBF16, bias []float32, rows int, relu bool) {
	if bias != nil {
		check("Forward", "bias", len(bias), 1, w.out)
	}
	floor := float32(math.Inf(-1))
	if relu {
		floor = 0
	}
	k.product("Forward", y, yf, x, &w.forward, bias, nil, rows, w.in, w.out, floor)
}

// GradInput computes dx = dy·wᵀ, and 0 where gate is: the layer's input, if that
// came out of a ReLU. As bfloat16 to dx and as float32, rows×in, to dxf; either
// may be nil, and so may gate.
func (k *WorkBF16) GradInput(dx []BF16, dxf []float32, dy []BF16, w *PackedBF16, rows int, gate []BF16) {
	if gate != nil {
		checkBF16("GradInput", "gate", len(gate), rows, w.in)
	}
	k.product("GradInput", dx, dxf, dy, &w.grad, nil, gate, rows, w.out, w.in, float32(math.Inf(-1)))
}

// product computes c = a·b, rows×n, through bias, floor and gate.
func (k *WorkBF16) product(op string, c []BF16, cf []float32, a []BF16, b *pairs, bias []float32, gate []BF16, rows, depth, n int, floor float32) {
	checkBF16(op, "its input", len(a), rows, depth)
	if c != nil {
		checkBF16(op, "its bfloat16 result", len(c), rows, n)
	}
	if cf != nil {
		check(op, "its float32 result", len(cf), rows, n)
	}
	lda, ldc := StrideBF16(depth), StrideBF16(n)
	for r := 0; r < rows; r += tileChunk {
		m := min(tileChunk, rows-r)
		for j := 0; j < n; j += tile {
			k.multiply(asPairs(a[r*lda:]), lda/2, b, j, padTile(m)/tile)
			cols := min(tile, n-j)
			k.bias = [tile]float32{}
			if bias != nil {
				copy(k.bias[:], bias[j:j+cols])
			}
			var open []BF16
			if gate != nil {
				open = gate[r*ldc+j:]
			}
			if c != nil {
				k.finishBF16(c[r*ldc+j:], open, m, ldc, floor)
			}
			if cf != nil {
				k.finishF32(cf[r*n+j:], open, m, n, ldc, cols, floor)
			}
		}
		clearPadding(c, r, m, n)
	}
}

// clearPadding zeroes the columns that are there only to keep rows apart.
func clearPadding(c []BF16, r, rows, n int) {
	stride, width := StrideBF16(n), padTile(n)
	if c == nil || width == stride {
		return
	}
	for i := r; i < r+rows; i++ {
		clear(c[i*stride+width : (i+1)*stride])
	}
}

// GradWeight adds the gradients of one batch: dw += xᵀ·dy and db += the column
// sums of dy, both float32. A nil db is left out.
func (k *WorkBF16) GradWeight(dw, db []float32, x, dy []BF16, rows, in, out int) {
	check("GradWeight", "dw", len(dw), in, out)
	checkBF16("GradWeight", "x", len(x), rows, in)
	checkBF16("GradWeight", "dy", len(dy), rows, out)
	if db != nil {
		check("GradWeight", "db", len(db), 1, out)
	}
	ldx, ldy := StrideBF16(in), StrideBF16(out)
	for r := 0; r < rows; r += tileChunk {
		m := min(tileChunk, rows-r)
		depth := padTile(m) / 2 // pairs of rows
		stride := (depth/16 | 1) * 16
		if n := padTile(in) * stride; cap(k.left) < n {
			k.left = make([]uint32, n)
		}
		k.left = k.left[:padTile(in)*stride]
		k.right.set(x[r*ldx:], ldx, m, in)
		k.right.transposeTo(k.left, stride, in)
		k.right.set(dy[r*ldy:], ldy, m, out)
		for j := 0; j < out; j += tile {
			cols := min(tile, out-j)
			for i := 0; i < in; i += tileChunk {
				height := min(tileChunk, in-i)
				k.multiply(k.left[i*stride:], stride, &k.right, j, padTile(height)/tile)
				k.accumulate(dw[i*out+j:], height, out, cols)
			}
			if db != nil {
				k.addColumnSums(db[j:j+cols], dy[r*ldy+j:], m, ldy)
			}
		}
	}
}

// multiplyPlain is what tiles do: it sets sums to blocks of 32 rows of a, lda
// pairs apart, times 32 columns of b from j on.
func (k *WorkBF16) multiplyPlain(a []uint32, lda int, b *pairs, j, blocks int) {
	for r := range blocks * tile {
		for c := range tile {
			var sum float32
			for d := range b.depth {
				var even, odd float32
				for i := d * tile / 2; i < (d+1)*tile/2; i++ {
					x, y := a[r*lda+i], b.data[i*b.stride+j+c]
					// The products are exact.
					even += float32(low(x) * low(y))
					odd += float32(high(x) * high(y))
				}
				sum += even + odd
			}
			k.sums[r*tile+c] = sum
		}
	}
}

func low(pair uint32) float32  { return math.Float32frombits(pair << 16) }
func high(pair uint32) float32 { return math.Float32frombits(pair &^ 0xffff) }

// finishPlain gives the result of row i and column j of the sums.
func (k *WorkBF16) finishPlain(i, j int, gate []BF16, ldg int, floor float32) float32 {
	if gate != nil && gate[i*ldg+j]&0x7fff == 0 {
		return 0
	}
	v := k.sums[i*tile+j] + k.bias[j]
	if v < floor {
		return floor
	}
	return v
}
