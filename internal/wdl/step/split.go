package step

import (
	"slices"
	"time"

	"github.com/wdlrun/wdlrun/dense"
	"github.com/wdlrun/wdlrun/internal/f32"
)

// split is how a model takes the network's first layer by the distinct rows of a batch:
// Zipf's law makes most values of most features repeat. It is for training alone: the logit
// of a sample in an evaluation must not depend, not even by a rounding, on the other samples.
type split struct {
	by     *dense.Pieces // a hand for each worker; nil: never
	pairs  *dense.Pairs  // of a factorization machine over the same input; nil: there is none
	on     bool          // in this batch
	deep   []int         // features whose distinct rows are pieces
	other  []int         // features in the network whose are not
	pieces []dense.Piece
	rest   []float32 // B×R: the input in the columns of no piece
	wide   []wide    // by feature: those of deep that are wide too
	values []float32 // of the pieces' rows, then of their gradients; the same of wide
	spared int64     // operations of products, since the trainer was made
}

// wide is the wide weights of a feature's distinct rows, side by side: in the rows where
// they are stored, each would need a cache line of its own.
type wide struct {
	of          []uint32  // by row of the batch: the index of its distinct row; empty: none
	value, grad []float32 // by distinct row
}

// byRows is a network whose input can go by distinct rows: a perceptron with a
// factorization machine over the same input.
type byRows interface {
	parts() (*dense.MLP, *dense.FM)
}

// newSplit is for workers of one label whose networks are perceptrons alone, or are byRows.
func newSplit(workers []*worker) (s split) {
	var mlps []*dense.MLP
	var fm *dense.FM
	for _, w := range workers {
		if len(w.tower) > 1 {
			return s
		}
		net := w.tower[0].net
		mlp, ok := net.(*dense.MLP)
		if n, both := net.(byRows); both {
			mlp, fm = n.parts()
		} else if !ok {
			return s
		}
		mlps = append(mlps, mlp)
	}
	if s.by = dense.NewPieces(mlps...); s.by == nil {
		return s
	}
	for i, w := range workers {
		w.hand = s.by.Hands[i]
	}
	if fm != nil {
		s.pairs = dense.NewPairs(s.by, fm)
	}
	return s
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

// addGrad adds the gradients of the logits to their weights'.
func (x *wide) addGrad(dlogit []float32) {
	for i, n := range x.of[:len(dlogit)] {
		x.grad[n] += dlogit[i]
	}
}

// choose decides which features of the model's batch are pieces.
func (s *split) choose(m *model) {
	if s.on = false; s.by == nil || !m.train {
		return
	}
	defer lap(&m.workers[0].spent.Pool, time.Now())
	s.deep, s.other, s.pieces = s.deep[:0], s.other[:0], s.pieces[:0]
	s.wide = slices.Grow(s.wide[:0], len(m.layout.Features))[:len(m.layout.Features)]
	clear(s.wide)
	total := 0
	for f, ft := range m.layout.Features {
		if ft.DeepPart < 0 {
			continue
		}
		dim := m.layout.Tables[ft.Table].Parts[ft.DeepPart].Dim
		n, ok := m.lookup.Distinct(f)
		if !ok || !s.by.Pays(n, m.batch.Rows, dim) {
			s.other = append(s.other, f)
			continue
		}
		s.deep = append(s.deep, f)
		s.pieces = append(s.pieces, dense.Piece{Col: ft.DeepCol, Dim: dim, Of: m.lookup.Numbers(f)})
		total += n * (dim + 1)
		s.spared += 3 * 2 * int64(m.batch.Rows-n) * int64(dim) * int64(s.by.Out())
	}
	if s.on = len(s.deep) > 0; s.on {
		s.room(m, total)
		s.rest = s.by.Begin(m.batch.Rows, s.pieces)
		if s.pairs != nil {
			s.pairs.Begin()
		}
	}
}

// room gives pieces and wide weights their places among total values, and as many
// gradients behind them.
func (s *split) room(m *model, total int) {
	if cap(s.values) < 2*total {
		s.values = make([]float32, 2*total+total/2)
	}
	values, grads := s.values[:total], s.values[total:2*total]
	take := func(n int) (value, grad []float32) {
		value, grad = values[:n], grads[:n]
		values, grads = values[n:], grads[n:]
		return value, grad
	}
	for i, f := range s.deep {
		q, x := &s.pieces[i], &s.wide[f]
		n, _ := m.lookup.Distinct(f)
		q.Rows, q.Grad = take(n * q.Dim)
		if m.layout.Features[f].WidePart >= 0 && m.workers[0].tower[0].bias != nil {
			x.of = q.Of
			x.value, x.grad = take(n)
		}
	}
}

// fill is phaseFill of worker i: it reads the distinct rows of its share of the pieces,
// and what of its rows of the batch is of no piece.
func (m *model) fill(i int) {
	s, w, at := &m.split, m.workers[i], time.Now()
	first, end := s.by.Share(i)
	for k := first; k < end; k++ {
		f := s.deep[k]
		m.lookup.ReadDistinct(f, m.layout.Features[f].DeepPart, s.pieces[k].Rows)
		if x := &s.wide[f]; len(x.of) > 0 {
			m.lookup.ReadDistinct(f, m.layout.Features[f].WidePart, x.value)
			clear(x.grad)
		}
	}
	lo, hi := share(m.batch.Rows, len(m.workers), i)
	s.fillRest(m, lo, hi)
	at = lap(&w.spent.Pool, at)
	w.hand.Start(lo, hi)
	if s.pairs != nil {
		s.pairs.Start(i)
	}
	lap(&w.spent.Forward, at)
}

// fillRest fills in the columns of rows lo to hi that are of no piece.
func (s *split) fillRest(m *model, lo, hi int) {
	r, d := len(s.rest)/m.batch.Rows, len(m.layout.Dense)
	x, col := s.rest[lo*r:hi*r], 0
	for _, f := range s.other {
		ft := m.layout.Features[f]
		m.lookup.PoolRange(f, ft.DeepPart, lo, hi, from(x, col), r, false)
		col += m.layout.Tables[ft.Table].Parts[ft.DeepPart].Dim
	}
	for i := 0; d > 0 && i < hi-lo; i++ {
		copy(x[(i+1)*r-d:(i+1)*r], m.batch.Dense[(lo+i)*d:])
	}
}

// columns is phaseColumns of worker i.
func (m *model) columns(i int) {
	w := m.workers[i]
	defer lap(&w.spent.Forward, time.Now())
	w.hand.Sum()
}

// through takes rows lo to hi, whose inputs are at hand, through a network.
func (w *worker) through(net network, lo, hi int) ([]float32, error) {
	s := &w.model.split
	if !s.on {
		return net.Forward(w.x, hi-lo, w.model.train)
	}
	y, err := w.hand.Forward(lo, hi, w.model.train)
	if err == nil && s.pairs != nil {
		s.pairs.Forward(w.i, y, lo, hi)
	}
	return y, err
}

// back takes the gradients of the logits of rows lo to hi back through the network, but
// for its first layer.
func (w *worker) back(lo, hi int) error {
	m := w.model
	err := w.hand.Backward(m.dlogit[lo:hi], lo, hi)
	if err == nil && m.split.pairs != nil {
		m.split.pairs.Backward(m.dlogit[lo:hi], lo, hi)
	}
	return err
}

// end is phaseEnd of worker i: the gradients of its share of the first layer and of its
// input, and of the workers' sums of all else.
func (m *model) end(i int) {
	w := m.workers[i]
	defer lap(&w.spent.Backward, time.Now())
	w.hand.End()
	if m.split.pairs != nil {
		m.split.pairs.End(i)
	}
	m.sum(i)
}

// keyGradients is model's for a batch whose first layer went by distinct rows.
func (s *split) keyGradients(m *model, i int) {
	for k, f := range s.deep {
		ft := m.layout.Features[f]
		if ft.Table%len(m.workers) != i {
			continue
		}
		m.lookup.AddDistinct(f, ft.DeepPart, s.pieces[k].Grad)
		if x := s.wideOf(f); x != nil {
			x.addGrad(m.dlogit)
			m.lookup.AddDistinct(f, ft.WidePart, x.grad)
		}
	}
	dx := s.by.Rest()
	r, col := len(dx)/m.batch.Rows, 0
	for _, f := range s.other {
		ft := m.layout.Features[f]
		if ft.Table%len(m.workers) == i {
			m.lookup.PoolGradRange(f, ft.DeepPart, 0, m.batch.Rows, from(dx, col), r)
		}
		col += m.layout.Tables[ft.Table].Parts[ft.DeepPart].Dim
	}
	for f, ft := range m.layout.Features {
		if ft.WidePart >= 0 && ft.Table%len(m.workers) == i && s.wideOf(f) == nil {
			m.lookup.PoolGradRange(f, ft.WidePart, 0, m.batch.Rows, m.dlogit, 1)
		}
	}
}

// zero clears the worker's gradients, but for those that phaseEnd makes for all in the
// first worker's arena.
func (w *worker) zero() {
	grads := w.arena.Grads()
	if w.model.split.on && w != w.model.workers[0] {
		from, to := w.model.split.by.Own()
		clear(grads[:from])
		grads = grads[to:]
	}
	clear(grads)
}

// sum is phaseSum of worker i: worker after worker, into the arena.
func (m *model) sum(i int) {
	from, to := 0, 0
	if m.split.on {
		from, to = m.split.by.Own()
	}
	all := m.arena.Grads()[:len(m.arena.Grads())-len(m.arena.Tail())]
	for _, part := range [...][2]int{{0, from}, {to, len(all)}} {
		lo, hi := share(part[1]-part[0], len(m.workers), i)
		for _, w := range m.workers[1:] {
			f32.AddTo(all[part[0]+lo:part[0]+hi], w.arena.Grads()[part[0]+lo:part[0]+hi])
		}
	}
}
