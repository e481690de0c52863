package dense

import (
	"slices"

	"github.com/wdlrun/wdlrun/internal/f32"
)

// halfPieces is what hands share of Pieces in bfloat16: products read distinct rows,
// weights, columns of no piece and gradients rounded; the sums over the rows in which a
// distinct row occurs are float32.
type halfPieces struct {
	pieces []halfPiece
	dy     []f32.BF16 // as that of Pieces
}

// halfPiece is a piece's distinct rows, and where they stand.
type halfPiece struct {
	rows f32.TileRowsBF16
	at   []uint32 // rows of the batch, by distinct row
	ends []uint32 // from 1 on, by distinct row: where its rows end in at
}

// begin makes room for some pieces and a gradient of n values.
func (h *halfPieces) begin(pieces, n int) {
	for len(h.pieces) < pieces {
		h.pieces = append(h.pieces, halfPiece{})
	}
	h.dy = growBF16(h.dy, n)
}

// take takes a piece whose numbers are those of rows that it has.
func (h *halfPiece) take(q *piece, rows int) {
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

// halfHand is what one hand computes in bfloat16.
type halfHand struct {
	*halved
	room       f32.TileRoomBF16
	tile       []f32.BF16 // the gradients of a piece's rows
	rest       []f32.BF16 // of some rows: the columns of no piece
	restPacked f32.PackedBF16
}

// restChunk are the rows whose columns of no piece are rounded at once.
const restChunk = 256

// start is Start of the columns of no piece: it sets y to the bias and what they give.
func (h *halfHand) start(y, x, weight, bias []float32, rows, r, out int) {
	h.restPacked.Pack(weight, r, out)
	for lo := 0; lo < rows; lo += restChunk {
		n := min(restChunk, rows-lo)
		h.work.ForwardF32(y[lo*out:(lo+n)*out], h.round(x[lo*r:(lo+n)*r], n, r), &h.restPacked, bias, n)
	}
}

func (h *halfHand) round(x []float32, rows, r int) []f32.BF16 {
	h.rest = growBF16(h.rest, f32.LenBF16(rows, r))
	f32.ConvertBF16(h.rest, x, rows, r)
	return h.rest
}

// forward is that of the other layers from the first one's output.
func (h *halfHand) forward(y []float32, rows int) []float32 {
	l := &h.layers[0]
	l.y = growBF16(l.y, f32.LenBF16(rows, l.out))
	f32.ConvertBF16(l.y, y, rows, l.out)
	return h.from(1, l.y, rows)
}

// backward is Backward of rows lo to hi.
func (h *halfHand) backward(p *Hand, dy []float32, lo, hi int) {
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

// endOf is endOf of pieces first to end.
func (h *halfHand) endOf(p *Hand, first, end int) {
	l := p.first
	for j := 0; j < l.out; j += f32.TileColumns {
		dy := p.half.dy[j*p.rows:][:p.rows*f32.TileColumns]
		for i := first; i < end; i++ {
			q, half := &p.pieces[i], &p.half.pieces[i]
			h.tile = growBF16(h.tile, f32.TileLenBF16(q.n))
			f32.TileGatherBF16(h.tile, dy, half.at, half.ends[1:], q.n)
			f32.TileGradWeightBF16(l.W.Grad[q.Col*l.out:(q.Col+q.Dim)*l.out], &half.rows, h.tile, l.out, j)
			f32.TileGradInputBF16(q.Grad, h.tile, l.W.Value, &h.room, q.n, l.out, q.Col, q.Dim, j)
		}
	}
}
