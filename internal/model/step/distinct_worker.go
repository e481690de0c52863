package step

// wideOf returns the wide weights of feature f's distinct rows; nil if there are none.
func (s *distinct) wideOf(f int) *wide {
	if !s.on || len(s.wide[f].of) == 0 {
		return nil
	}
	return &s.wide[f]
}

// add adds the wide weights of the rows from lo on to their logits.
func (x *wide) add(logit []float32, lo int) {
	for i, n := range x.of[lo : lo+len(logit)] {
		logit[i] += x.value[n]
	}
}

// addGrad adds the gradients of the logits to the gradients of their weights.
func (x *wide) addGrad(dlogit []float32) {
	for i, n := range x.of[:len(dlogit)] {
		x.grad[n] += dlogit[i]
	}
}

// outputs computes the outputs of net for rows lo to hi of the input.
func (w *worker) outputs(net *layers, lo, hi int) ([]float32, error) {
	s := &w.model.distinct
	if !s.on {
		return net.Forward(w.x, hi-lo, w.model.train)
	}
	y, err := w.distinct.Forward(lo, hi, w.model.train)
	if err == nil && s.fm != nil {
		s.fm.Forward(w.i, y, lo, hi)
	}
	return y, err
}

// backwardRows computes the gradients of rows lo to hi from the gradients of their logits, except for the
// first layer.
func (w *worker) backwardRows(lo, hi int) error {
	m := w.model
	err := w.distinct.Backward(m.dlogit[lo:hi], lo, hi)
	if err == nil && m.distinct.fm != nil {
		m.distinct.fm.Backward(m.dlogit[lo:hi], lo, hi)
	}
	return err
}

// keyGradients is model.tables for a batch whose first layer was computed by distinct rows.
func (s *distinct) keyGradients(m *model, i int) {
	for k, f := range s.deep {
		ft := m.layout.Features[f]
		if ft.Table%len(m.workers) != i {
			continue
		}
		m.lookup.AddDistinct(f, ft.DeepPart, s.columns[k].Grad)
		if x := s.wideOf(f); x != nil {
			x.addGrad(m.dlogit)
			m.lookup.AddDistinct(f, ft.WidePart, x.grad)
		}
	}
	dx := s.layer.Rest()
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

// zero clears the worker's gradients, except for those that phaseEnd sets for all workers in
// the first worker's arena.
func (w *worker) zero() {
	grads := w.arena.Grads()
	if w.model.distinct.on && w != w.model.workers[0] {
		from, to := w.model.distinct.layer.Own()
		clear(grads[:from])
		grads = grads[to:]
	}
	clear(grads)
}

// from returns x[i:], which is empty for an empty batch.
func from(x []float32, i int) []float32 { return x[min(i, len(x)):] }
