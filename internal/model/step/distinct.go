package step

import (
	"slices"
	"time"

	"github.com/wdlrun/wdlrun/dense"
	"github.com/wdlrun/wdlrun/internal/kernel/f32"
)

// newDistinct returns a distinct for the networks of the workers. It is never used unless
// there is one label, and all operations that read the input support distinct rows.
func newDistinct(workers []*worker) (s distinct) {
	var mlps []*dense.MLP
	var fm *dense.FM
	for _, w := range workers {
		if len(w.tower) > 1 {
			return s
		}
		if w.tower[0].net == nil {
			return s
		}
		mlp, of, can := w.tower[0].net.byRows()
		if !can {
			return s
		}
		mlps, fm = append(mlps, mlp), of
	}
	if s.layer = dense.NewDistinct(mlps...); s.layer == nil {
		return s
	}
	for i, w := range workers {
		w.distinct = s.layer.Workers[i]
	}
	if fm != nil {
		s.fm = dense.NewDistinctFM(s.layer, fm)
	}
	return s
}

// choose selects the features of the batch that are computed by distinct rows.
func (s *distinct) choose(m *model) {
	if s.on = false; s.layer == nil || !m.train {
		return
	}
	defer lap(&m.workers[0].spent.Pool, time.Now())
	s.deep, s.other, s.columns = s.deep[:0], s.other[:0], s.columns[:0]
	s.wide = slices.Grow(s.wide[:0], len(m.layout.Features))[:len(m.layout.Features)]
	clear(s.wide)
	total := 0
	for f, ft := range m.layout.Features {
		if ft.DeepPart < 0 {
			continue
		}
		dim := m.layout.Tables[ft.Table].Parts[ft.DeepPart].Dim
		v := m.lookup.Values(f)
		n, single := len(v.Places), v.Offsets == nil && v.Numbers != nil
		if !single || !s.layer.Pays(n, m.batch.Rows, dim) {
			s.other = append(s.other, f)
			continue
		}
		s.deep = append(s.deep, f)
		s.columns = append(s.columns, dense.Columns{Col: ft.DeepCol, Dim: dim, Of: v.Numbers})
		total += n * (dim + 1)
		s.spared += 3 * 2 * int64(m.batch.Rows-n) * int64(dim) * int64(s.layer.Out())
	}
	if s.on = len(s.deep) > 0; s.on {
		s.divide(m, total)
		s.rest = s.layer.Begin(m.batch.Rows, s.columns)
		if s.fm != nil {
			s.fm.Begin()
		}
	}
}

// divide divides one buffer of total values and total gradients among the distinct rows and
// the wide weights.
func (s *distinct) divide(m *model, total int) {
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
		q, x := &s.columns[i], &s.wide[f]
		n := len(m.lookup.Values(f).Places)
		q.Rows, q.Grad = take(n * q.Dim)
		if m.layout.Features[f].WidePart >= 0 && m.workers[0].tower[0].bias != nil {
			x.of = q.Of
			x.value, x.grad = take(n)
		}
	}
}

// fill is phaseFill of worker i. It reads the distinct rows of its share of the features,
// and the other columns of its rows of the batch.
func (m *model) fill(i int) {
	s, w, at := &m.distinct, m.workers[i], time.Now()
	first, end := s.layer.Share(i)
	for k := first; k < end; k++ {
		f := s.deep[k]
		m.lookup.ReadDistinct(f, m.layout.Features[f].DeepPart, s.columns[k].Rows)
		if x := &s.wide[f]; len(x.of) > 0 {
			m.lookup.ReadDistinct(f, m.layout.Features[f].WidePart, x.value)
			clear(x.grad)
		}
	}
	lo, hi := share(m.batch.Rows, len(m.workers), i)
	s.fillRest(m, lo, hi)
	at = lap(&w.spent.Pool, at)
	w.distinct.Start(lo, hi)
	if s.fm != nil {
		s.fm.Start(i)
	}
	lap(&w.spent.Forward, at)
}

// fillRest reads the other columns of rows lo to hi.
func (s *distinct) fillRest(m *model, lo, hi int) {
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
	w.distinct.Sum()
}

// end is phaseEnd of worker i. It computes the gradients of its share of the first layer
// and of its input, and then sums its share of all other gradients over the workers.
func (m *model) end(i int) {
	w := m.workers[i]
	defer lap(&w.spent.Backward, time.Now())
	w.distinct.End()
	if m.distinct.fm != nil {
		m.distinct.fm.End(i)
	}
	m.sum(i)
}

// sum is phaseSum of worker i. It adds the gradients of all workers to the arena, in the
// order of the workers.
func (m *model) sum(i int) {
	from, to := 0, 0
	if m.distinct.on {
		from, to = m.distinct.layer.Own()
	}
	all := m.arena.Grads()[:len(m.arena.Grads())-len(m.arena.Tail())]
	for _, part := range [...][2]int{{0, from}, {to, len(all)}} {
		lo, hi := share(part[1]-part[0], len(m.workers), i)
		for _, w := range m.workers[1:] {
			f32.AddTo(all[part[0]+lo:part[0]+hi], w.arena.Grads()[part[0]+lo:part[0]+hi])
		}
	}
}
