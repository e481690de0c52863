package sparse

import (
	"fmt"
	"math"

	"github.com/wdlrun/wdlrun/optim"
)

// Step says how Apply turns staged gradients g into a step. The update rule of
// a part sees Clip·(Scale·g + L2·w).
type Step struct {
	N     int64   // number of the step, from 1: Adam's bias correction
	Scale float32 // factor of the gradients, such as one over the samples
	Rate  float64 // factor of the learning rates, from a schedule; 1 for none
	Clip  float32 // factor of the whole gradient, from clipping its norm; 0 means 1
}

func (at Step) check() error {
	switch {
	case at.N < 1:
		return fmt.Errorf("step %d: steps count from 1", at.N)
	case !finite([]float32{at.Scale, at.Clip}) || math.IsNaN(at.Rate) || math.IsInf(at.Rate, 0):
		return fmt.Errorf("step %d: scale %v, rate %v, clip %v: not all are finite", at.N, at.Scale, at.Rate, at.Clip)
	}
	return nil
}

// NonFiniteError says whose gradient was NaN or infinite.
type NonFiniteError struct {
	Table string
	Key   uint64
}

func (e *NonFiniteError) Error() string {
	return fmt.Sprintf("the gradient of key %d of table %q is not finite: look at the input of that key or lower the learning rate", e.Key, e.Table)
}

// Apply takes one optimizer step for each distinct key whose gradient is staged,
// inserting those that are not held, and one for every other row of DenseL2
// parts. It does not communicate. On an error, [*NonFiniteError] among them, no
// row has changed and the gradients are still staged.
func (s *Store) Apply(at Step) error {
	fault := func(err error) error {
		return fmt.Errorf("sparse: apply: step %d: rank %d of %d: %w", at.N, s.rank, s.size, err)
	}
	if err := at.check(); err != nil {
		return fault(err)
	}
	if at.Clip == 0 {
		at.Clip = 1
	}
	for _, t := range s.tables {
		if err := t.checkStaged(); err != nil {
			return fault(err)
		}
	}
	for _, t := range s.tables {
		for i := range t.parts {
			t.updates[i] = t.parts[i].Rule.At(at.N, at.Rate)
		}
		s.counters.RowsInserted += t.applyStaged(at, s.gradient)
		s.counters.StepsOfRows += int64(len(t.staged.rows))
		if t.dense {
			s.counters.StepsOfRows += int64(t.rows.n - len(t.staged.rows))
			t.applyOthers(at, s.gradient)
		}
		t.staged.reset()
	}
	return nil
}

// checkStaged finds what would make applying fail half-way.
func (t *table) checkStaged() error {
	g := &t.staged
	if !finite(g.grads) {
		for id, key := range g.set.keys {
			if !finite(g.grads[id*t.width : (id+1)*t.width]) {
				return &NonFiniteError{Table: t.Name, Key: key}
			}
		}
	}
	if t.rows.n+len(g.rows) > maxRows {
		return fmt.Errorf("table %q: %d rows are held and %d touched; one rank can hold %d: use more ranks", t.Name, t.rows.n, len(g.rows), maxRows)
	}
	return nil
}

// applyStaged steps the rows with gradients and returns how many are new.
func (t *table) applyStaged(at Step, scratch []float32) (inserted int64) {
	t.nextStamp()
	g := &t.staged
	for id, row := range g.rows {
		if row == 0 {
			key := g.set.keys[id]
			row = t.insert(key)
			rec := t.rows.row(row)
			t.initial(key, rec[:t.width])
			copy(rec[t.width:], t.fresh)
			inserted++
		}
		rec, grad := t.rows.row(row), g.grads[id*t.width:(id+1)*t.width]
		for i := range t.parts {
			p := &t.parts[i]
			p.step(&t.updates[i], at, rec, grad[p.lo:p.hi], scratch)
		}
		if t.dense {
			t.stamps[row-1] = t.stamp
		}
	}
	return inserted
}

// applyOthers steps the DenseL2 parts of the rows without gradients.
func (t *table) applyOthers(at Step, scratch []float32) {
	for row, stamp := range t.stamps {
		if stamp == t.stamp {
			continue
		}
		rec := t.rows.row(uint32(row + 1))
		for i := range t.parts {
			if p := &t.parts[i]; p.DenseL2 {
				p.step(&t.updates[i], at, rec, nil, scratch)
			}
		}
	}
}

// step updates one part of a record; a nil gradient is zero.
func (p *part) step(u *optim.Update, at Step, rec, grad, scratch []float32) {
	w, x := rec[p.lo:p.hi], scratch[:p.Dim]
	p.total(at.Scale, w, grad, x)
	if at.Clip != 1 {
		for i := range x {
			x[i] *= at.Clip
		}
	}
	u.Apply(w, x, rec[p.stateLo:p.stateHi])
}

// total writes scale·grad + L2·w to x.
func (p *part) total(scaling float32, w, grad, x []float32) {
	if grad == nil {
		clear(x)
	} else {
		scale(x, grad, scaling)
	}
	if p.L2 != 0 {
		addScaled(x, w, float32(p.L2))
	}
}

// GradNormSq returns this rank's share of ‖scale·g + L2·w‖², over the staged
// keys and every row of DenseL2 parts; summed over ranks it is what clipping
// needs. The sum does not depend on the order of rows.
func (s *Store) GradNormSq(scale float32) float64 {
	s.norm.reset()
	for _, t := range s.tables {
		t.normStaged(scale, s.gradient, &s.norm)
		if t.dense {
			t.normOthers(s.gradient, &s.norm)
		}
	}
	return s.norm.total()
}

func (t *table) normStaged(scale float32, scratch []float32, sum *orderFreeSum) {
	t.nextStamp()
	g := &t.staged
	for id, row := range g.rows {
		values := scratch[t.width : 2*t.width]
		if row != 0 {
			values = t.rows.row(row)
			if t.dense {
				t.stamps[row-1] = t.stamp
			}
		} else {
			t.initial(g.set.keys[id], values)
		}
		grad, norm := g.grads[id*t.width:(id+1)*t.width], 0.0
		for i := range t.parts {
			p := &t.parts[i]
			p.total(scale, values[p.lo:p.hi], grad[p.lo:p.hi], scratch[:p.Dim])
			norm += squares(scratch[:p.Dim])
		}
		sum.add(norm)
	}
}

func (t *table) normOthers(scratch []float32, sum *orderFreeSum) {
	for row, stamp := range t.stamps {
		if stamp == t.stamp {
			continue
		}
		rec, norm := t.rows.row(uint32(row+1)), 0.0
		for i := range t.parts {
			if p := &t.parts[i]; p.DenseL2 {
				p.total(0, rec[p.lo:p.hi], nil, scratch[:p.Dim])
				norm += squares(scratch[:p.Dim])
			}
		}
		sum.add(norm)
	}
}

func squares(x []float32) (sum float64) {
	for _, v := range x {
		sum += float64(float64(v) * float64(v))
	}
	return sum
}
