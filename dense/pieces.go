package dense

import (
	"fmt"
	"math"

	"github.com/wdlrun/wdlrun/internal/f32"
)

// Piece is columns of an input in which few distinct rows stand: those of an embedding
// whose keys repeat.
type Piece struct {
	Col, Dim int
	Rows     []float32 // n×Dim: the distinct rows
	Of       []uint32  // by row of the batch: which of them stands there
	Grad     []float32 // n×Dim: End sets it
}

// Pieces takes a whole batch through the first layer of an MLP by the distinct rows of
// pieces of its input, and chunk by chunk through the other layers:
//
//	Begin ─ Sum ─ (Forward ─ Backward) of each chunk ─ End
//
// The products of a piece take n·Dim·H multiply-adds each in place of B·Dim·H, and two
// passes add up rows of H values, B of them each. Columns of no piece go as ever. The
// sums have another order than the layer's own, which depends on the pieces alone.
type Pieces struct {
	// Stops are columns, ascending, at which End takes a rest: gradients of weights from
	// the last of them on are final first. No piece lies across one.
	Stops []int

	mlp    *MLP
	first  *Linear
	rows   int // B
	pieces []piece

	rest   []int     // columns of no piece, ascending
	x, dx  []float32 // B×R: the input there, and its gradient
	weight []float32 // R×H
	grad   []float32 // R×H
	packed f32.Packed

	y    []float32 // B×H: the first layer's output
	dy   []float32 // tile by tile, B×TileColumns: the gradient of its sums
	at   []uint32  // by piece and row: where the row of a tile begins
	tile []float32 // of the pieces of one group
	set  []int     // by piece of the group: where those of its rows begin in the tile that hold nothing yet
	room f32.TileRoom
}

// piece is a Piece with its place among others.
type piece struct {
	Piece
	n     int
	first int  // row of its group's tile
	sight bool // rows are numbered in the order in which they come in the batch, and all come
}

const (
	// tileRows is how many rows the tiles of a group have at most, unless it is one,
	// or the rows of the batch if that is more: so many that a pass over the sums is
	// shared, so few that both stay near the core.
	tileRows = 1536
	// blockRows of a batch are added to all tiles of a group before the next.
	blockRows = 1024
	// together are the pieces to whose rows one of the batch is added at once: it is read
	// once for them.
	together = 4
)

// Pieces returns what takes the MLP's input in pieces, nil if its layers or this
// machine do not.
func (m *MLP) Pieces() *Pieces {
	first, ok := m.layers[0].(*Linear)
	if !ok || m.halved != nil || len(m.layers) < 2 || !f32.Tiles() {
		return nil
	}
	return &Pieces{mlp: m, first: first}
}

// Out is H, the width of the first layer's output.
func (p *Pieces) Out() int { return p.first.out }

// Begin takes the pieces, by ascending column, of a batch of rows rows. It returns the
// columns of no piece, rows×R, for the caller to fill before Sum. It panics where a
// piece names a row that it has not.
func (p *Pieces) Begin(rows int, pieces []Piece) (rest []float32) {
	p.rows, p.pieces, p.rest = rows, p.pieces[:0], p.rest[:0]
	stride := f32.TileStride(rows)
	if n := len(pieces) * stride; cap(p.at) < n {
		p.at = make([]uint32, n)
	} else {
		p.at = p.at[:n]
	}
	col, group := 0, 0
	for i, q := range pieces {
		for ; col < q.Col; col++ {
			p.rest = append(p.rest, col)
		}
		col = q.Col + q.Dim
		n := len(q.Rows) / q.Dim
		if group+n > max(tileRows, rows) {
			group = 0
		}
		p.pieces = append(p.pieces, piece{Piece: q, n: n, first: group})
		p.pieces[i].place(p.at[i*stride : i*stride+rows])
		group += n
	}
	for ; col < p.first.in; col++ {
		p.rest = append(p.rest, col)
	}
	r := len(p.rest)
	p.x, p.dx = grow(p.x, rows*r), grow(p.dx, rows*r)
	p.weight, p.grad = grow(p.weight, r*p.first.out), grow(p.grad, r*p.first.out)
	clear(p.grad)
	return p.x
}

// place finds where the rows that stand in a batch begin in a tile.
func (q *piece) place(at []uint32) {
	seen, skipped := uint64(0), uint64(0)
	for r, number := range q.Of[:len(at)] {
		skipped = max(skipped, max(uint64(number), seen)-seen)
		seen = max(seen, uint64(number)+1)
		at[r] = (uint32(q.first) + number) * f32.TileColumns
	}
	if seen > uint64(q.n) {
		panic(fmt.Sprintf("dense: Pieces: row %d of the %d of columns %d to %d", seen-1, q.n, q.Col, q.Col+q.Dim))
	}
	q.sight = skipped == 0 && seen == uint64(q.n)
}

// group returns where the group of pieces that begins with piece lo ends, and makes room
// for its tile.
func (p *Pieces) group(lo int) (hi int) {
	for hi = lo + 1; hi < len(p.pieces) && p.pieces[hi].first > 0; hi++ {
	}
	last := &p.pieces[hi-1]
	p.tile = grow(p.tile, (last.first+last.n)*f32.TileColumns)
	return hi
}

// of returns the rows of the group's tile that are a piece's.
func (p *Pieces) of(q *piece) []float32 {
	return p.tile[q.first*f32.TileColumns:][:q.n*f32.TileColumns]
}

// Sum computes the first layer.
func (p *Pieces) Sum() {
	l, r, h, stride := p.first, len(p.rest), p.first.out, f32.TileStride(p.rows)
	l.pack()
	p.y = grow(p.y, p.rows*h)
	init := l.bias()
	if r > 0 || init == nil {
		for i, c := range p.rest {
			copy(p.weight[i*h:(i+1)*h], l.W.Value[c*h:])
		}
		p.packed.Pack(p.weight, r, h)
		f32.Forward(p.y, p.x, &p.packed, init, p.rows, false)
		init = nil
	}
	for j := 0; j < h; j += f32.TileColumns {
		from := init
		for lo, hi := 0, 0; lo < len(p.pieces); lo = hi {
			hi = p.group(lo)
			for i := lo; i < hi; i++ {
				q := &p.pieces[i]
				f32.TileForward(p.of(q), q.Rows, &l.packed, q.n, q.Col, q.Dim, j)
			}
			floor := float32(math.Inf(-1))
			if l.relu && hi == len(p.pieces) {
				floor = 0
			}
			f32.TileSum(p.y, from, p.tile, p.at[lo*stride:hi*stride], p.rows, h, j, floor)
			from = nil
		}
	}
}

// Forward computes the MLP's output of rows lo to hi of the batch.
func (p *Pieces) Forward(lo, hi int, train bool) (y []float32, err error) {
	m, h := p.mlp, p.first.out
	clear(m.outs)
	y = p.y[lo*h : hi*h]
	m.x, p.first.y, m.outs[0] = nil, y, y
	for i, l := range m.layers[1:] {
		if y, err = l.Forward(y, hi-lo, train); err != nil {
			return nil, err
		}
		m.outs[i+1] = y
	}
	return y, nil
}

// Backward adds the gradients of the other layers for the rows of the last Forward, lo
// to hi, and keeps that of the first layer's sums.
func (p *Pieces) Backward(dy []float32, lo, hi int) (err error) {
	m, l, h, rows := p.mlp, p.first, p.first.out, hi-lo
	for i := len(m.layers) - 1; i > 0; i-- {
		if dy, err = m.layers[i].Backward(dy, rows); err != nil {
			return err
		}
	}
	if l.relu && !l.before {
		f32.ReLUGrad(dy, l.y)
	}
	if l.B != nil {
		f32.GradWeight(nil, l.B.Grad, nil, dy, rows, 0, h)
	}
	if r := len(p.rest); r > 0 {
		f32.GradWeight(p.grad, nil, p.x[lo*r:hi*r], dy, rows, r, h)
		f32.GradInput(p.dx[lo*r:hi*r], dy, &p.packed, rows, nil)
	}
	p.dy = grow(p.dy, (h+f32.TileColumns-1)/f32.TileColumns*f32.TileColumns*p.rows)
	for j := 0; j < h; j += f32.TileColumns {
		f32.TileCut(p.dy[j*p.rows+lo*f32.TileColumns:][:rows*f32.TileColumns], dy, rows, h, j)
	}
	return nil
}

// End adds the gradients of the first layer's weights, sets those of the pieces' rows
// and returns that by the columns of no piece, rows×R. Stops do not change the bits.
func (p *Pieces) End() (dx []float32) {
	l, h := p.first, p.first.out
	pieces, rest := len(p.pieces), len(p.rest)
	for k := len(p.Stops); k >= 0; k-- {
		from := 0
		if k > 0 {
			from = p.Stops[k-1]
		}
		end := pieces
		for pieces > 0 && p.pieces[pieces-1].Col >= from {
			pieces--
		}
		p.endOf(pieces, end)
		for ; rest > 0 && p.rest[rest-1] >= from; rest-- {
			c := p.rest[rest-1]
			f32.AddTo(l.W.Grad[c*h:(c+1)*h], p.grad[(rest-1)*h:rest*h])
		}
		l.arena.finish(l.W, from)
	}
	return p.dx
}

// endOf is End of pieces first to end.
func (p *Pieces) endOf(first, end int) {
	for j := 0; j < p.first.out; j += f32.TileColumns {
		dy := p.dy[j*p.rows:][:p.rows*f32.TileColumns]
		for lo, hi := first, 0; lo < end; lo = hi {
			hi = min(p.group(lo), end)
			p.add(lo, hi, dy)
			for i := lo; i < hi; i++ {
				p.gradients(&p.pieces[i], j)
			}
		}
	}
}

// add sets the rows of the tile of pieces lo to hi to the sums of the rows of dy in which
// they stand.
func (p *Pieces) add(lo, hi int, dy []float32) {
	stride := f32.TileStride(p.rows)
	p.set = p.set[:0]
	for i := lo; i < hi; i++ {
		q := &p.pieces[i]
		set := q.first * f32.TileColumns
		if !q.sight {
			clear(p.of(q))
			set = len(p.tile)
		}
		p.set = append(p.set, set)
	}
	for r := 0; r < p.rows; r += blockRows {
		end := min(r+blockRows, p.rows)
		for i := lo; i < hi; i += together {
			last := min(i+together, hi)
			f32.TileAdd(p.tile, dy[r*f32.TileColumns:end*f32.TileColumns], p.at[i*stride+r:last*stride], stride, end-r, p.set[i-lo:last-lo])
		}
	}
}

// gradients adds what columns j on have of the gradients of a piece's weights and rows.
func (p *Pieces) gradients(q *piece, j int) {
	l, h, tile := p.first, p.first.out, p.of(q)
	f32.TileGradWeight(l.W.Grad[q.Col*h:(q.Col+q.Dim)*h], q.Rows, tile, q.n, q.Dim, h, j)
	f32.TileGradInput(q.Grad, tile, &l.packed, &p.room, q.n, q.Col, q.Dim, j)
}
