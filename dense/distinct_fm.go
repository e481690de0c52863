package dense

import "github.com/wdlrun/wdlrun/internal/kernel/f32"

// DistinctFM computes an FM over an input whose distinct rows a Distinct holds. The same
// workers call it between their calls of Distinct:
//
//	Begin │ Start │ (Forward ─ Backward) of each chunk │ End
//
// All fields have E columns. Forward gathers the rows v of a sample from the distinct rows,
// whose squares are summed once. Backward, the gradient of a distinct row n is
//
//	Σ_r dy_r·(s_r − v_n) = Σ_r dy_r·s_r − v_n·Σ_r dy_r    over the samples r that contain it,
//
// where s_r is the sum of the sample's rows. No worker adds to what another has computed.
type DistinctFM struct {
	p       *Distinct
	fm      *FM
	workers []fmWorker

	at      []uint32  // by embedding and row: where its embedding begins
	first   []int     // by embedding: the index of its first row among all distinct rows
	squares []float32 // by distinct row: the sum of its squares
	sum     []float32 // B×E; after Backward, times dy
	dy      []float32 // B
}

// fmWorker is the memory of one worker.
type fmWorker struct {
	squares []float32 // by row of a chunk
	dsum    []float32 // by distinct row of an embedding
}

// NewDistinctFM returns the DistinctFM of fm over the embeddings of p.
func NewDistinctFM(p *Distinct, fm *FM) *DistinctFM {
	return &DistinctFM{p: p, fm: fm, workers: make([]fmWorker, len(p.Workers))}
}

// Begin is called after Distinct.Begin.
func (x *DistinctFM) Begin() {
	p, n := x.p, 0
	x.first = x.first[:0]
	for i := range p.columns {
		x.first = append(x.first, n)
		n += p.columns[i].n
	}
	if cells := len(p.columns) * p.rows; cap(x.at) < cells {
		x.at = make([]uint32, cells)
	} else {
		x.at = x.at[:cells]
	}
	x.squares, x.sum, x.dy = grow(x.squares, n), grow(x.sum, p.rows*x.fm.embed), grow(x.dy, p.rows)
}

// of returns where the rows of embedding i begin, by row of the batch.
func (x *DistinctFM) of(i int) []uint32 { return x.at[i*x.p.rows : (i+1)*x.p.rows] }

// squaresOf returns the sums of squares of the rows of embedding i.
func (x *DistinctFM) squaresOf(i int) []float32 { return x.squares[x.first[i]:][:x.p.columns[i].n] }

// Start prepares the worker's share of the embeddings.
func (x *DistinctFM) Start(worker int) {
	e := x.fm.embed
	first, end := x.p.Share(worker)
	for i := first; i < end; i++ {
		q, at := &x.p.columns[i], x.of(i)
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

// otherColumns returns how many of the other columns belong to the FM: the first ones.
func (x *DistinctFM) otherColumns() (n int) {
	for _, c := range x.p.rest {
		if c < x.fm.fields*x.fm.embed {
			n++
		}
	}
	return n
}

// Forward adds the pairs of rows lo to hi to y.
func (x *DistinctFM) Forward(worker int, y []float32, lo, hi int) {
	h, e, all, n := &x.workers[worker], x.fm.embed, len(x.p.rest), x.otherColumns()
	sum := x.sum[lo*e : hi*e]
	h.squares = grow(h.squares, hi-lo)
	clear(sum)
	clear(h.squares)
	for i := range x.p.columns {
		q := &x.p.columns[i]
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

// Backward takes the gradients of rows lo to hi, after the worker's Backward.
func (x *DistinctFM) Backward(dy []float32, lo, hi int) {
	e, all, n := x.fm.embed, len(x.p.rest), x.otherColumns()
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

// End adds the gradients of the rows of the worker's embeddings, after the worker's End.
func (x *DistinctFM) End(worker int) {
	h, e := &x.workers[worker], x.fm.embed
	first, end := x.p.Share(worker)
	for i := first; i < end; i++ {
		q := &x.p.columns[i]
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
