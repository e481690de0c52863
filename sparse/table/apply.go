package table

import (
	"fmt"
	"math"

	"github.com/wdlrun/wdlrun/optim"
)

// Step says how gradients g become a step. The update rule of a part sees
// Clip·(Scale·g + L2·w).
type Step struct {
	N     int64   // number of the step, from 1: Adam's bias correction
	Scale float32 // factor of the gradients, such as one over the samples
	Rate  float64 // factor of the learning rates, from a schedule; 1 for none
	Clip  float32 // factor of the whole gradient, from clipping its norm; 0 means 1
}

// Validate returns what is wrong with the step, nil if nothing is.
func (at Step) Validate() error {
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

// Gradients are those of a step: of distinct keys, with their rows as Find gave
// them in this Epoch and V values for each. A key whose row is 0 is not held, or
// was not when it was found.
type Gradients struct {
	Keys   []uint64
	Rows   []Row
	Values []float32
}

// Applied counts what an Apply did.
type Applied struct {
	Inserted int // rows
	Steps    int // optimizer steps of rows
}

// Check returns what would make Apply fail: a [*NonFiniteError], a step that is
// none, no room. It changes nothing, so that several tables can be checked
// before the first is changed.
func (t *Table) Check(at Step, g Gradients) error {
	if err := at.Validate(); err != nil {
		return err
	}
	if !finite(g.Values) {
		for i, key := range g.Keys {
			if !finite(g.Values[i*t.width : (i+1)*t.width]) {
				return &NonFiniteError{Table: t.cfg.Name, Key: key}
			}
		}
	}
	return t.room(len(g.Rows))
}

// Apply takes one optimizer step for each key, inserting those that are not
// held, and one for every other row of DenseL2 parts. On an error no row has
// changed.
func (t *Table) Apply(at Step, g Gradients) (Applied, error) {
	if err := t.Check(at, g); err != nil {
		return Applied{}, err
	}
	if at.Clip == 0 {
		at.Clip = 1
	}
	for i := range t.parts {
		t.updates[i] = t.parts[i].Rule.At(at.N, at.Rate)
	}
	done := Applied{Inserted: t.applyTouched(at, g), Steps: len(g.Keys)}
	if t.dense {
		done.Steps += t.rows.n - len(g.Keys)
		t.applyOthers(at)
	}
	return done, nil
}

// applyTouched steps the rows with gradients and returns how many are new.
func (t *Table) applyTouched(at Step, g Gradients) (inserted int) {
	t.nextStamp()
	for i, row := range g.Rows {
		if row == 0 { // an Apply since it was found may have inserted it
			row = t.find(g.Keys[i])
		}
		if row == 0 {
			row = t.insert(g.Keys[i])
			rec := t.rows.row(row)
			t.Initial(g.Keys[i], rec[:t.width])
			copy(rec[t.width:], t.fresh)
			inserted++
		}
		rec, grad := t.rows.row(row), g.Values[i*t.width:(i+1)*t.width]
		for j := range t.parts {
			p := &t.parts[j]
			p.step(&t.updates[j], at, rec, grad[p.lo:p.hi], t.scratch)
		}
		if t.dense {
			t.stamps[row-1] = t.stamp
		}
	}
	return inserted
}

// applyOthers steps the DenseL2 parts of the rows without gradients.
func (t *Table) applyOthers(at Step) {
	for row, stamp := range t.stamps {
		if stamp == t.stamp {
			continue
		}
		rec := t.rows.row(Row(row + 1))
		for i := range t.parts {
			if p := &t.parts[i]; p.DenseL2 {
				p.step(&t.updates[i], at, rec, nil, t.scratch)
			}
		}
	}
}

// nextStamp starts a new set of touched rows.
func (t *Table) nextStamp() {
	t.stamp++
	if t.stamp == 0 {
		clear(t.stamps)
		t.stamp = 1
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

// total writes scale·grad + L2·w to x. The float32 conversion keeps the product
// from being fused with the sum, so that every machine gives the same bits.
func (p *part) total(scale float32, w, grad, x []float32) {
	clear(x)
	for i, v := range grad {
		x[i] = scale * v
	}
	if p.L2 != 0 {
		l2 := float32(p.L2)
		for i, v := range w {
			x[i] += float32(l2 * v)
		}
	}
}

// NormSq adds ‖scale·g + L2·w‖² to sum, over g and every row of DenseL2 parts;
// summed over tables and ranks it is what clipping needs. The sum does not depend
// on the order of rows.
func (t *Table) NormSq(scale float32, g Gradients, sum *Sum) {
	t.nextStamp()
	for i, row := range g.Rows {
		values := t.scratch[t.width:]
		if row == 0 {
			row = t.find(g.Keys[i])
		}
		if row != 0 {
			values = t.rows.row(row)
			if t.dense {
				t.stamps[row-1] = t.stamp
			}
		} else {
			t.Initial(g.Keys[i], values)
		}
		grad, norm := g.Values[i*t.width:(i+1)*t.width], 0.0
		for j := range t.parts {
			p := &t.parts[j]
			p.total(scale, values[p.lo:p.hi], grad[p.lo:p.hi], t.scratch[:p.Dim])
			norm += squares(t.scratch[:p.Dim])
		}
		sum.Add(norm)
	}
	if t.dense {
		t.normOthers(sum)
	}
}

func (t *Table) normOthers(sum *Sum) {
	for row, stamp := range t.stamps {
		if stamp == t.stamp {
			continue
		}
		rec, norm := t.rows.row(Row(row+1)), 0.0
		for i := range t.parts {
			if p := &t.parts[i]; p.DenseL2 {
				p.total(0, rec[p.lo:p.hi], nil, t.scratch[:p.Dim])
				norm += squares(t.scratch[:p.Dim])
			}
		}
		sum.Add(norm)
	}
}

func squares(x []float32) (sum float64) {
	for _, v := range x {
		sum += float64(float64(v) * float64(v))
	}
	return sum
}

// finite reports whether all x are: 0·x is 0 for a finite x and NaN otherwise.
func finite(x []float32) bool {
	var sum float32
	for _, v := range x {
		sum += 0 * v
	}
	return sum == 0
}
