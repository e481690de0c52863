package step

import (
	"slices"
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
	wide   []wide    // by feature: those of deep that are wide too
	values []float32 // of the pieces' rows, then of their gradients; the same of wide
	spared int64     // operations of products, since the trainer was made
}

// wide is the wide weights of a feature's distinct rows, side by side: in the rows where
// they lie, each would come with a line of its own.
type wide struct {
	of          []uint32  // by row of the batch: which of them stands there; empty: none
	value, grad []float32 // by distinct row
}

// wideOf returns the wide weights of feature f's distinct rows, nil if they are not at hand.
func (s *split) wideOf(f int) *wide {
	if !s.on || len(s.wide[f].of) == 0 {
		return nil
	}
	return &s.wide[f]
}

// add adds the weights of the rows from lo on to their logits.
func (x *wide) add(logit []float32, lo int) {
	for i, n := range x.of[lo : lo+len(logit)] {
		logit[i] += x.value[n]
	}
}

// addGrad adds the gradients of the logits from row lo on to their weights'.
func (x *wide) addGrad(dlogit []float32, lo int) {
	for i, n := range x.of[lo : lo+len(dlogit)] {
		x.grad[n] += dlogit[i]
	}
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
	s.wide = slices.Grow(s.wide[:0], len(m.layout.Features))[:len(m.layout.Features)]
	clear(s.wide)
	total, scalars := 0, 0
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
		if ft.WidePart >= 0 && w.bias != nil {
			s.wide[f].of = m.lookup.Numbers(f)
			scalars += n
		}
		s.spared += 3 * 2 * int64(m.batch.Rows-n) * int64(dim) * int64(s.by.Out())
	}
	if s.on = len(s.deep) > 0; !s.on {
		return
	}
	s.read(m, total, scalars)
	s.rest(m, s.by.Begin(m.batch.Rows, s.pieces))
	at = lap(&w.spent.Pool, at)
	s.by.Sum()
	lap(&w.spent.Forward, at)
}

// read reads the pieces' rows, total values, and the wide weights that are with them.
func (s *split) read(m *model, total, scalars int) {
	if n := 2 * (total + scalars); cap(s.values) < n {
		s.values = make([]float32, n+n/4)
	}
	deep, rest := s.values[:2*total], s.values[2*total:2*(total+scalars)]
	clear(rest[scalars:])
	next, one := 0, 0
	for i, f := range s.deep {
		q, x, ft := &s.pieces[i], &s.wide[f], m.layout.Features[f]
		n, _ := m.lookup.Distinct(f)
		q.Rows, q.Grad = deep[next:next+n*q.Dim], deep[total+next:][:n*q.Dim]
		next += n * q.Dim
		m.lookup.ReadDistinct(f, ft.DeepPart, q.Rows)
		if len(x.of) > 0 {
			x.value, x.grad = rest[one:one+n], rest[scalars+one:][:n]
			one += n
			m.lookup.ReadDistinct(f, ft.WidePart, x.value)
		}
	}
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
		ft := m.layout.Features[f]
		m.lookup.AddDistinct(f, ft.DeepPart, s.pieces[i].Grad)
		if x := &s.wide[f]; len(x.of) > 0 {
			m.lookup.AddDistinct(f, ft.WidePart, x.grad)
		}
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
