package dense

import "github.com/wdlrun/wdlrun/internal/f32"

// halfPieces is what hands share of Pieces in bfloat16: products read distinct rows,
// weights, columns of no piece and gradients rounded; the sums over the rows in which a
// distinct row stands are float32.
type halfPieces struct {
	rows []f32.TileRowsBF16 // by piece
	dy   []f32.BF16         // as that of Pieces
}

// begin makes room for some pieces and a gradient of n values.
func (h *halfPieces) begin(pieces, n int) {
	for len(h.rows) < pieces {
		h.rows = append(h.rows, f32.TileRowsBF16{})
	}
	h.dy = growBF16(h.dy, n)
}

// halfHand is what one hand computes in bfloat16.
type halfHand struct {
	*halved
	room       f32.TileRoomBF16
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

// gradients is gradients of piece i.
func (h *halfHand) gradients(p *Hand, i, j int) {
	q, l, tile := &p.pieces[i], p.first, p.of(&p.pieces[i])
	f32.TileGradWeightBF16(l.W.Grad[q.Col*l.out:(q.Col+q.Dim)*l.out], &p.half.rows[i], tile, l.out, j)
	f32.TileGradInputBF16(q.Grad, tile, l.W.Value, &h.room, q.n, l.out, q.Col, q.Dim, j)
}
