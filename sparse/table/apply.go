package table

import (
	"fmt"
	"math"
	"slices"

	"github.com/wdlrun/wdlrun/internal/kernel/f32"
	"github.com/wdlrun/wdlrun/optim"
)

// NonFiniteError names the key whose gradient is NaN or infinite.
type NonFiniteError struct {
	Table string
	Key   uint64
}

func (e *NonFiniteError) Error() string {
	return fmt.Sprintf("the gradient of key %d of table %q is not finite: look at the input of that key or lower the learning rate", e.Key, e.Table)
}

// Gradients holds the gradients of one step: distinct keys, with V values each. Rows is the
// result of Find for the keys, and Epoch the table's Epoch at that time; if Epoch has
// changed, the rows are found again. A row may be 0. Finite means that Check has found all
// values finite and that none has changed since, so they are not checked again.
type Gradients struct {
	Keys   []uint64
	Rows   []Row
	Epoch  uint64
	Values []float32
	Finite bool
}

// Applied counts the work of one Apply.
type Applied struct {
	Inserted int // rows inserted
	Refused  int // gradients of keys that are not admitted yet
	Steps    int // optimizer steps of rows
}

// Check returns the error that Apply would return: a [*NonFiniteError], an invalid step, or
// a full table. It changes nothing, so several tables can be checked before the first one
// changes.
func (t *steps) Check(at optim.Step, g Gradients) error {
	if err := at.Validate(); err != nil {
		return err
	}
	if !g.Finite {
		if i := f32.FirstNonFinite(g.Values[:len(g.Keys)*t.width]); i >= 0 {
			return &NonFiniteError{Table: t.cfg.Name, Key: g.Keys[i/t.width]}
		}
	}
	return t.checkCapacity(len(g.Keys))
}

// Apply takes one optimizer step for each key, and for every other row of DenseL2
// parts. It inserts keys that have no row and are admitted. It then removes rows
// according to Evict. On an error no row has changed.
func (t *steps) Apply(at optim.Step, g Gradients) (Applied, error) {
	if err := t.Check(at, g); err != nil {
		return Applied{}, err
	}
	missing, err := t.resolve(g)
	if err != nil {
		return Applied{}, err
	}
	t.beginStep(at)
	t.ready(at)
	if t.saving != nil {
		t.saving.copyRows(g.Keys, t.found)
	}
	if t.watch != nil {
		t.watch.before(g.Keys, t.found)
	}
	t.now = at.N
	done := Applied{Steps: len(g.Keys)}
	if missing {
		done = t.admitAll(g.Keys)
	}
	if t.watch != nil {
		t.watch.after(g.Keys, t.found)
	}
	t.catchUp(t.found)
	t.applyTouched(g, done.Refused > 0)
	if t.dense {
		done.Steps += t.stepOthers(at, done.Steps)
	}
	t.counters.Inserted += int64(done.Inserted)
	t.counters.Refused += int64(done.Refused)
	if e := t.cfg.Evict; e != (Evict{}) {
		t.evict()
	}
	return done, nil
}

// resolve writes the rows of the keys of g to t.found and reports whether any key has none.
func (t *steps) resolve(g Gradients) (missing bool, err error) {
	t.found = resize(t.found, len(g.Keys))
	if g.Epoch != t.epoch || len(g.Rows) != len(g.Keys) {
		err = t.lookup(g.Keys, t.found)
		return slices.Contains(t.found, 0), err
	}
	if !copyFound(t.found, g.Rows) {
		return false, nil
	}
	for at := 0; at < len(g.Keys); at += chunk {
		end := min(at+chunk, len(g.Keys))
		if slices.Contains(t.found[at:end], 0) { // a later Apply may have inserted it
			if err := t.lookup(g.Keys[at:end], t.found[at:end]); err != nil {
				return false, err
			}
			missing = missing || slices.Contains(t.found[at:end], 0)
		}
	}
	return missing, nil
}

// admitAll inserts the keys of t.found that have no row and are admitted.
func (t *steps) admitAll(keys []uint64) (done Applied) {
	if t.sketches != nil {
		t.sight(keys, t.found)
	}
	for at := 0; at < len(keys); at += group {
		end := min(at+group, len(keys))
		if found := t.found[at:end]; slices.Contains(found, 0) {
			t.admitGroup(at, keys[at:end], found, &done)
		}
	}
	done.Steps = len(keys) - done.Refused
	return done
}

// admitGroup is admitAll for the keys of a group, from index at on.
func (t *steps) admitGroup(at int, keys []uint64, found []Row, done *Applied) {
	var p probes
	var fresh [group]Row
	n := 0
	t.index.prefetch(keys, &p)
	for i, r := range found {
		switch {
		case r != 0:
		case !t.admits(at + i):
			done.Refused++
		default:
			found[i] = t.insert(keys[i])
			t.fill(found[i], keys[i])
			t.stamp(found[i], uint32(t.now), 0)
			done.Inserted++
			fresh[n] = found[i]
			n++
		}
	}
	if t.decays {
		var records [group]optim.Record
		t.locate(fresh[:n], records[:])
		t.decay(records[:n], t.now)
		for _, r := range fresh[:n] {
			t.caughtUp(r)
		}
	}
}

// applyTouched updates and stamps the rows with gradients. rejected means that some keys
// have no row.
func (t *steps) applyTouched(g Gradients, rejected bool) {
	var records [stepChunk + rowsAhead]optim.Record
	for lo := 0; lo < len(t.found); {
		rows := t.found[lo:min(lo+stepChunk, len(t.found))]
		if rejected {
			if rows = held(rows); len(rows) == 0 {
				lo++
				continue
			}
		}
		if t.cfg.Evict.HalfLife > 0 {
			t.scoreAll(rows)
		}
		coming := t.found[lo:min(lo+len(rows)+rowsAhead, len(t.found))]
		t.locate(coming, records[:])
		grads := g.Values[lo*t.width:]
		if t.cfg.Values == Float32 {
			t.stepRows(records[:len(coming)], len(rows), grads, t.width, false)
		} else {
			t.stepPacked(g.Keys[lo:], records[:len(coming)], len(rows), grads)
		}
		lo += len(rows)
	}
}

// stepChunk is the number of rows that one call updates.
const stepChunk = 512

// rowsAhead is the number of rows of the next call that a call knows. Package optim
// prefetches them.
const rowsAhead = 24

// held returns the rows before the first that is 0.
func held(rows []Row) []Row {
	if i := slices.Index(rows, 0); i >= 0 {
		return rows[:i]
	}
	return rows
}

// Freeze keeps the values of a part as they are in the steps up to the given one. These steps insert,
// stamp and remove rows as others do. Checkpoints do not contain it.
func (t *steps) Freeze(part int, until int64) {
	t.stopDeferring()
	t.parts[part].frozen = until
	t.runs = runs(t.parts)
}

// scoreAll adds a gradient to the scores of rows that are not yet stamped with this step.
func (t *memory) scoreAll(rows []Row) {
	for _, r := range rows {
		_, score := t.meta(r)
		*score = t.decayed(*score, t.now-int64(t.age(r))) + 1
	}
}

// total writes scale·grad + L2·w to x. The float32 conversion keeps the product from being
// fused with the sum, so that every machine computes the same bits.
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

// NormSq adds ‖scale·g + L2·w‖² to sum, over the gradients that Apply would use and
// every row of DenseL2 parts. The sum over all tables and ranks is the squared norm for
// clipping. It does not depend on the order of rows. If the disk fails it is NaN, and
// Apply returns the error.
func (t *steps) NormSq(scale float32, g Gradients, sum *Sum) {
	t.stopDeferring() // every step needs the values of every row
	if _, err := t.resolve(g); err != nil {
		sum.add(math.NaN())
		return
	}
	for i, row := range t.found {
		values := t.scratch[t.width:]
		switch {
		case row != 0:
			values = t.values(t.at(row))
		case !t.admitsNext(g.Keys[i]):
			continue // Apply drops its gradient
		default:
			t.begin(g.Keys[i:i+1], t.found[i:i+1], values, t.width)
		}
		grad, norm := g.Values[i*t.width:(i+1)*t.width], 0.0
		for j := range t.parts {
			p := &t.parts[j]
			p.total(scale, values[p.lo:p.hi], grad[p.lo:p.hi], t.scratch[:p.Dim])
			norm += squares(t.scratch[:p.Dim])
		}
		sum.add(norm)
	}
	if t.decays {
		t.others(func(rows []Row) {
			for _, r := range rows {
				sum.add(t.normOther(t.at(r)))
			}
		})
	}
}

// normOther returns the share of a row without a gradient.
func (t *steps) normOther(rec []float32) (norm float64) {
	for i := range t.parts {
		if p := &t.parts[i]; p.decays {
			p.total(0, rec[p.lo:p.hi], nil, t.scratch[:p.Dim])
			norm += squares(t.scratch[:p.Dim])
		}
	}
	return norm
}

func squares(x []float32) (sum float64) {
	for _, v := range x {
		sum += float64(float64(v) * float64(v))
	}
	return sum
}
