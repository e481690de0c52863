package dense

import (
	"slices"

	"github.com/wdlrun/wdlrun/internal/kernel/f32"
)

// distinctBF16 is the part of Distinct that workers share in bfloat16. Products read rounded
// rows, weights, other columns and gradients. Sums over the rows in which a distinct row
// occurs are float32.
type distinctBF16 struct {
	columns []columnsBF16
	dy      []f32.BF16 // as in Distinct
}

// columnsBF16 are the distinct rows of an embedding, and where they occur.
type columnsBF16 struct {
	rows f32.TileRowsBF16
	at   []uint32 // rows of the batch, by distinct row
	ends []uint32 // from 1 on, by distinct row: where its rows of the batch end in at
}

// begin allocates memory for embeddings and for a gradient of n values.
func (h *distinctBF16) begin(columns, n int) {
	for len(h.columns) < columns {
		h.columns = append(h.columns, columnsBF16{})
	}
	h.dy = growBF16(h.dy, n)
}

// load reads an embedding whose indexes have been checked.
func (h *columnsBF16) load(q *embedding, rows int) {
	h.rows.Pack(q.Rows, q.n, q.Dim)
	h.at, h.ends = slices.Grow(h.at[:0], rows)[:rows], slices.Grow(h.ends[:0], q.n+2)[:q.n+2]
	clear(h.ends)
	for _, number := range q.Of[:rows] {
		h.ends[number+2]++
	}
	for i := 2; i < len(h.ends); i++ {
		h.ends[i] += h.ends[i-1]
	}
	next := h.ends[1:] // where the next row of the batch goes, and in the end the last has gone
	for r, number := range q.Of[:rows] {
		h.at[next[number]] = uint32(r)
		next[number]++
	}
}

// workerBF16 is the part of one worker in bfloat16.
type workerBF16 struct {
	*halved
	scratch    f32.TileScratchBF16
	tile       []f32.BF16 // the gradients of an embedding's rows
	rest       []f32.BF16 // the other columns of restChunk rows
	restPacked f32.PackedBF16
}

// restChunk is the number of rows whose other columns are rounded in one pass.
const restChunk = 256

// start is Start for the other columns: it sets y to the bias and what they add.
func (h *workerBF16) start(y, x, weight, bias []float32, rows, r, out int) {
	h.restPacked.Pack(weight, r, out)
	for lo := 0; lo < rows; lo += restChunk {
		n := min(restChunk, rows-lo)
		h.work.ForwardF32(y[lo*out:(lo+n)*out], h.round(x[lo*r:(lo+n)*r], n, r), &h.restPacked, bias, n)
	}
}

func (h *workerBF16) round(x []float32, rows, r int) []f32.BF16 {
	h.rest = growBF16(h.rest, f32.LenBF16(rows, r))
	f32.ConvertBF16(h.rest, x, rows, r)
	return h.rest
}

// forward computes the other layers from the first layer's output.
func (h *workerBF16) forward(y []float32, rows int) []float32 {
	l := &h.layers[0]
	l.y = growBF16(l.y, f32.LenBF16(rows, l.out))
	f32.ConvertBF16(l.y, y, rows, l.out)
	return h.from(1, l.y, rows)
}

// backward is Backward for rows lo to hi.
func (h *workerBF16) backward(p *DistinctWorker, dy []float32, lo, hi int) {
	l, r, rows := &h.layers[0], len(p.rest), hi-lo
	at := h.to(0, dy, rows)
	h.work.GradWeight(p.restGrad, l.B.Grad, h.round(p.x[lo*r:hi*r], rows, r), at, rows, r, l.out)
	if r > 0 {
		h.work.GradInputF32(p.dx[lo*r:hi*r], at, &h.restPacked, rows)
	}
	for j := 0; j < l.out; j += f32.TileColumns {
		f32.TileCutBF16(p.half.dy[j*p.rows+lo*f32.TileColumns:][:rows*f32.TileColumns], at, rows, l.out, j)
	}
}

// endOf is endOf for embeddings first to end.
func (h *workerBF16) endOf(p *DistinctWorker, first, end int) {
	l := p.first
	for j := 0; j < l.out; j += f32.TileColumns {
		dy := p.half.dy[j*p.rows:][:p.rows*f32.TileColumns]
		for i := first; i < end; i++ {
			q, half := &p.columns[i], &p.half.columns[i]
			h.tile = growBF16(h.tile, f32.TileLenBF16(q.n))
			f32.TileGatherBF16(h.tile, dy, half.at, half.ends[1:], q.n)
			f32.TileGradWeightBF16(l.W.Grad[q.Col*l.out:(q.Col+q.Dim)*l.out], &half.rows, h.tile, l.out, j)
			f32.TileGradInputBF16(q.Grad, h.tile, l.W.Value, &h.scratch, q.n, l.out, q.Col, q.Dim, j)
		}
	}
}
