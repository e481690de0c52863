package step

import (
	"time"

	"github.com/wdlrun/wdlrun/dense"
)

// split is how the only worker of a model takes the network's first layer by the
// distinct rows of a batch: Zipf's law makes most values of most features repeat. It is
// for training alone: what a sample is found to be worth must not depend, not by a
// rounding, on the samples beside it.
type split struct {
	by     *dense.Pieces // nil: never
	on     bool          // in this batch
	deep   []int         // features whose distinct rows are pieces
	other  []int         // features in the network whose are not
	pieces []dense.Piece
	values []float32 // of the pieces' rows, then of their gradients
	spared int64     // operations of products, since the trainer was made
}

// passes is what the two passes over the sums cost, in multiply-adds of a value of a
// row: distinct rows save three products and cost two passes.
const passes = 10

// pays reports whether n distinct rows of dim values out of rows are worth a piece.
func pays(n, rows, dim int) bool { return 3*dim*(rows-n) > passes*rows }

// begin decides which features are pieces, and takes the batch through the network's
// first layer.
func (w *worker) begin() {
	s, m, at := &w.split, w.model, time.Now()
	if s.on = false; s.by == nil || w.net == nil || !m.train {
		return
	}
	s.deep, s.other, s.pieces = s.deep[:0], s.other[:0], s.pieces[:0]
	total := 0
	for f, ft := range m.layout.Features {
		if ft.DeepPart < 0 {
			continue
		}
		dim := m.layout.Tables[ft.Table].Parts[ft.DeepPart].Dim
		n, ok := m.lookup.Distinct(f)
		if !ok || !pays(n, m.batch.Rows, dim) {
			s.other = append(s.other, f)
			continue
		}
		s.deep = append(s.deep, f)
		s.pieces = append(s.pieces, dense.Piece{Col: ft.DeepCol, Dim: dim, Of: m.lookup.Numbers(f)})
		total += n * dim
		s.spared += 3 * 2 * int64(m.batch.Rows-n) * int64(dim) * int64(s.by.Out())
	}
	if s.on = len(s.deep) > 0; !s.on {
		return
	}
	if cap(s.values) < 2*total {
		s.values = make([]float32, 2*total+total/2)
	}
	next := 0
	for i, f := range s.deep {
		q := &s.pieces[i]
		n, _ := m.lookup.Distinct(f)
		q.Rows, q.Grad = s.values[next:next+n*q.Dim], s.values[total+next:][:n*q.Dim]
		next += n * q.Dim
		m.lookup.ReadDistinct(f, m.layout.Features[f].DeepPart, q.Rows)
	}
	s.rest(m, s.by.Begin(m.batch.Rows, s.pieces))
	at = lap(&w.spent.Pool, at)
	s.by.Sum()
	lap(&w.spent.Forward, at)
}

// rest fills in the columns that are of no piece.
func (s *split) rest(m *model, x []float32) {
	r, d := 0, len(m.layout.Dense)
	if m.batch.Rows > 0 {
		r = len(x) / m.batch.Rows
	}
	col := 0
	for _, f := range s.other {
		ft := m.layout.Features[f]
		m.lookup.PoolRange(f, ft.DeepPart, 0, m.batch.Rows, from(x, col), r, false)
		col += m.layout.Tables[ft.Table].Parts[ft.DeepPart].Dim
	}
	for i := 0; d > 0 && i < m.batch.Rows; i++ {
		copy(x[(i+1)*r-d:(i+1)*r], m.batch.Dense[i*d:])
	}
}

// through takes rows lo to hi, whose inputs are at hand, through the network.
func (w *worker) through(lo, hi int) ([]float32, error) {
	if w.split.on {
		return w.split.by.Forward(lo, hi, w.model.train)
	}
	return w.net.Forward(w.x, hi-lo, w.model.train)
}

// end adds the gradients of the first layer and of its input.
func (w *worker) end() {
	s, m, at := &w.split, w.model, time.Now()
	if !s.on {
		return
	}
	dx := s.by.End()
	at = lap(&w.spent.Backward, at)
	for i, f := range s.deep {
		m.lookup.AddDistinct(f, m.layout.Features[f].DeepPart, s.pieces[i].Grad)
	}
	r, col := 0, 0
	if m.batch.Rows > 0 {
		r = len(dx) / m.batch.Rows
	}
	for _, f := range s.other {
		ft := m.layout.Features[f]
		m.lookup.PoolGradRange(f, ft.DeepPart, 0, m.batch.Rows, from(dx, col), r)
		col += m.layout.Tables[ft.Table].Parts[ft.DeepPart].Dim
	}
	lap(&w.spent.Keys, at)
}
