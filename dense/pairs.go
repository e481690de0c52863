package dense

import "github.com/wdlrun/wdlrun/internal/f32"

// Pairs makes what FM does of an input of which Pieces have the distinct rows, hand by
// hand between theirs:
//
//	Begin │ Start │ (Forward ─ Backward) of each chunk │ End
//
// All fields are of E columns. Forward gathers the rows v of a sample from the distinct
// ones, whose squares are summed once. Backward, the gradient of a distinct row n is
//
//	Σ_r dy_r·(s_r − v_n) = Σ_r dy_r·s_r − v_n·Σ_r dy_r    over the samples r that contain it,
//
// for s_r the sum of the sample's rows. Several hands add up nothing of each other's.
type Pairs struct {
	p     *Pieces
	fm    *FM
	hands []pairsHand

	at      []uint32  // by piece and row: where its embedding begins
	first   []int     // by piece: its first distinct row of all
	squares []float32 // by distinct row: the sum of its squares
	sum     []float32 // B×E; after Backward, times dy
	dy      []float32 // B
}

// pairsHand is what a hand works in.
type pairsHand struct {
	squares []float32 // by row of a chunk
	dsum    []float32 // by distinct row of a piece
}

// NewPairs returns what computes the pairs of fm from the pieces of p.
func NewPairs(p *Pieces, fm *FM) *Pairs {
	return &Pairs{p: p, fm: fm, hands: make([]pairsHand, len(p.Hands))}
}

// Begin follows that of Pieces.
func (x *Pairs) Begin() {
	p, n := x.p, 0
	x.first = x.first[:0]
	for i := range p.pieces {
		x.first = append(x.first, n)
		n += p.pieces[i].n
	}
	if cells := len(p.pieces) * p.rows; cap(x.at) < cells {
		x.at = make([]uint32, cells)
	} else {
		x.at = x.at[:cells]
	}
	x.squares, x.sum, x.dy = grow(x.squares, n), grow(x.sum, p.rows*x.fm.embed), grow(x.dy, p.rows)
}

// of returns where the embeddings of piece i begin, by row of the batch.
func (x *Pairs) of(i int) []uint32 { return x.at[i*x.p.rows : (i+1)*x.p.rows] }

// squaresOf returns the sums of squares of piece i.
func (x *Pairs) squaresOf(i int) []float32 { return x.squares[x.first[i]:][:x.p.pieces[i].n] }

// Start prepares hand i's share of the pieces.
func (x *Pairs) Start(hand int) {
	e := x.fm.embed
	first, end := x.p.Share(hand)
	for i := first; i < end; i++ {
		q, at := &x.p.pieces[i], x.of(i)
		for r, n := range q.Of[:len(at)] {
			at[r] = n * uint32(e)
		}
		for n, squares := 0, x.squaresOf(i); n < len(squares); n++ {
			squares[n] = sumSquares(q.Rows[n*e : (n+1)*e])
		}
	}
}

func sumSquares(v []float32) (sum float32) {
	for _, a := range v {
		sum += float32(a * a)
	}
	return sum
}

// rest returns how many columns of no piece are the machine's: the first ones.
func (x *Pairs) rest() (n int) {
	for _, c := range x.p.rest {
		if c < x.fm.fields*x.fm.embed {
			n++
		}
	}
	return n
}

// Forward adds the pairs of rows lo to hi to y.
func (x *Pairs) Forward(hand int, y []float32, lo, hi int) {
	h, e, all, n := &x.hands[hand], x.fm.embed, len(x.p.rest), x.rest()
	sum := x.sum[lo*e : hi*e]
	h.squares = grow(h.squares, hi-lo)
	clear(sum)
	clear(h.squares)
	for i := range x.p.pieces {
		q := &x.p.pieces[i]
		f32.Pool(sum, e, q.Rows, f32.Bags{At: x.of(i)[lo:hi]}, e, true)
		f32.Pool(h.squares, 1, x.squaresOf(i), f32.Bags{At: q.Of[lo:hi]}, 1, true)
	}
	for r := range hi - lo {
		s := sum[r*e : (r+1)*e]
		for v := x.p.x[(lo+r)*all:][:n]; len(v) > 0; v = v[e:] {
			f32.AddTo(s, v[:e])
			h.squares[r] += sumSquares(v[:e])
		}
		y[r] += (sumSquares(s) - h.squares[r]) / 2
	}
}

// Backward takes the gradients of rows lo to hi, after that of the hand.
func (x *Pairs) Backward(dy []float32, lo, hi int) {
	e, all, n := x.fm.embed, len(x.p.rest), x.rest()
	copy(x.dy[lo:hi], dy)
	for r := lo; r < hi; r++ {
		s, g := x.sum[r*e:(r+1)*e], x.dy[r]
		for at := r * all; at < r*all+n; at += e {
			v, d := x.p.x[at:][:e], x.p.dx[at:][:e]
			for k, a := range s {
				d[k] += float32(g * (a - v[k]))
			}
		}
		for k := range s {
			s[k] *= g
		}
	}
}

// End adds the gradients of the rows of the hand's pieces, after that of the hand.
func (x *Pairs) End(hand int) {
	h, e := &x.hands[hand], x.fm.embed
	first, end := x.p.Share(hand)
	for i := first; i < end; i++ {
		q := &x.p.pieces[i]
		f32.PoolGrad(q.Grad, f32.Bags{At: x.of(i)}, x.sum, e, e)
		h.dsum = grow(h.dsum, q.n)
		clear(h.dsum)
		f32.PoolGrad(h.dsum, f32.Bags{At: q.Of[:x.p.rows]}, x.dy, 1, 1)
		for n, g := range h.dsum {
			d, v := q.Grad[n*e:(n+1)*e], q.Rows[n*e:(n+1)*e]
			for k, a := range v {
				d[k] -= float32(g * a)
			}
		}
	}
}
