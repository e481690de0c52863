package table

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"unsafe"

	"github.com/wdlrun/wdlrun/optim"
)

// Share makes the table record its steps in p and read earlier steps from it. Before each
// Apply, the caller adds the step to p. Tables that share p may run Apply concurrently.
func (t *steps) Share(p *Past) { t.past = p }

// decay applies the steps before a step, with zero gradients, to records of initial rows.
func (t *steps) decay(records []optim.Record, before int64) {
	if !t.decays || len(records) == 0 {
		return
	}
	if !t.deferred.off {
		var behind [chunk]lagging
		for i, r := range records {
			behind[i] = lagging{at: r.At}
		}
		t.takeMissed(behind[:len(records)], before-1)
		return
	}
	now := t.updates
	t.updates = t.decaying
	zeros := t.scratch[:t.width]
	clear(zeros)
	for i := range records {
		records[i].Mark = &t.unmarked
	}
	t.past.each(before, func(at optim.Step) {
		t.ready(withRate(at))
		t.stepRows(records, len(records), zeros, 0, true)
	})
	t.updates = now
}

// begin writes the values of the initial rows of keys, as of the next step, to dst[i·stride
// : i·stride+V] for every row i that is 0. There are at most chunk keys.
func (t *steps) begin(keys []uint64, rows []Row, dst []float32, stride int) {
	if !t.decays {
		for i, r := range rows {
			if r == 0 {
				t.Initial(keys[i], dst[i*stride:i*stride+t.width])
			}
		}
		return
	}
	words := t.words()
	t.begun = resize(t.begun, chunk*words)
	var records [chunk]optim.Record
	n := 0
	for i, r := range rows {
		if r == 0 {
			rec := t.begun[n*words : (n+1)*words]
			t.Initial(keys[i], rec)
			t.begins(rec)
			records[n].At = &rec[0]
			n++
		}
	}
	t.decay(records[:n], math.MaxInt64)
	n = 0
	for i, r := range rows {
		if r == 0 {
			copy(dst[i*stride:i*stride+t.width], t.begun[n*words:])
			n++
		}
	}
}

// lagging is a record that has taken the steps up to one and not the later ones.
type lagging struct {
	until int64
	row   Row
	at    *float32
}

// SetNow sets the step of an empty table to the step of the data to be loaded.
func (t *steps) SetNow(step int64) {
	t.catchUpAll()
	t.now, t.deferred.taken, t.deferred.base, t.deferred.all = step, step, step, step
}

// beginStep notes a step before rows take it.
func (t *steps) beginStep(at optim.Step) {
	if !t.decays {
		return
	}
	t.past.Add(at)
	if x := &t.deferred; !x.begun {
		x.begun, x.base, x.taken, x.all = true, at.N-1, at.N-1, at.N-1
	}
}

// stepOthers lets the rows without a gradient take a step, now or later, and returns their number.
// touched is the number of rows with one.
func (t *steps) stepOthers(at optim.Step, touched int) int {
	if t.deferred.taken = at.N; !t.deferred.off || !t.decays {
		for _, r := range t.found {
			if r != 0 {
				t.caughtUp(r)
			}
		}
		return int(t.used) - len(t.free) - touched
	}
	zeros := t.scratch[:t.width]
	clear(zeros)
	return t.others(func(rows []Row) {
		var records [chunk]optim.Record
		t.locate(rows, records[:])
		for i := range rows {
			records[i].Mark = &t.unmarked
		}
		t.stepRows(records[:len(rows)], len(rows), zeros, 0, true)
	})
}

// catchUp lets rows take the steps that they have missed. Rows may be 0 or occur twice.
func (t *steps) catchUp(rows []Row) {
	if x := &t.deferred; x.off || !x.begun || x.all == x.taken {
		return
	}
	for at := 0; at < len(rows); at += chunk {
		t.catchUpSome(rows[at:min(at+chunk, len(rows))])
	}
}

// catchUpSome is catchUp for up to chunk rows.
func (t *steps) catchUpSome(rows []Row) {
	x, n := &t.deferred, 0
	var behind [chunk]lagging
	for _, r := range rows {
		if r == 0 {
			continue
		}
		missed := int32(uint32(x.taken) - *(*uint32)(t.notes.until.at(uint32(r))))
		if until := max(x.base, x.taken-int64(missed)); until < x.taken {
			behind[n] = lagging{until, r, &t.at(r)[0]}
			n++
		}
	}
	if n == 0 {
		return
	}
	slices.SortFunc(behind[:n], func(a, b lagging) int { return cmp.Compare(a.until, b.until) })
	t.takeMissed(behind[:n], x.taken)
	for _, o := range behind[:n] {
		t.caughtUp(o.row)
	}
}

// catchUpAll lets every row take the steps that it has missed.
func (t *steps) catchUpAll() {
	x := &t.deferred
	if x.off || !x.begun || x.all == x.taken {
		return
	}
	t.batch = resize(t.batch, chunk)
	for next := Row(1); next <= Row(t.used); {
		n := 0
		for ; n < chunk && next <= Row(t.used); n++ {
			t.batch[n] = next
			next++
		}
		t.catchUpSome(t.batch[:n])
	}
	x.all = x.taken
}

// stopDeferring lets rows take each step when it is made, from the next one on.
func (t *steps) stopDeferring() {
	t.catchUpAll()
	t.deferred.off = true
}

// takeMissed applies to records the steps that they have missed, up to last and without a gradient.
// The records are in the order of until. The values of all records are one vector, and a step
// updates the part of it that has missed the step.
func (t *steps) takeMissed(behind []lagging, last int64) {
	for i := range t.parts {
		p := &t.parts[i]
		if !p.decays {
			continue
		}
		states := p.stateHi - p.stateLo
		t.deferredValues = resize(t.deferredValues, len(behind)*(2*p.Dim+states))
		w, rest := t.deferredValues[:len(behind)*p.Dim], t.deferredValues[len(behind)*p.Dim:]
		zeros, state := rest[:len(w)], rest[len(w):]
		clear(zeros)
		for k, o := range behind {
			rec := unsafe.Slice(o.at, t.words())
			copy(w[k*p.Dim:], rec[p.lo:p.hi])
			copy(state[k*states:], rec[p.stateLo:p.stateHi])
		}
		t.takeMissedPart(p, behind, last, w, zeros, state)
		for k, o := range behind {
			rec := unsafe.Slice(o.at, t.words())
			copy(rec[p.lo:p.hi], w[k*p.Dim:])
			copy(rec[p.stateLo:p.stateHi], state[k*states:])
		}
	}
}

// takeMissedPart is takeMissed for the values of a part.
func (t *steps) takeMissedPart(p *part, behind []lagging, last int64, w, zeros, state []float32) {
	spans, n := t.past.spans, 0
	states := p.stateHi - p.stateLo
	first := sort.Search(len(spans), func(i int) bool { return spans[i].first+spans[i].n > behind[0].until+1 })
	for _, s := range spans[first:] {
		u := p.Rule.At(withRate(s.at))
		for step := max(s.first, behind[0].until+1); step <= min(s.first+s.n-1, last); step++ {
			for n < len(behind) && behind[n].until < step {
				n++
			}
			u.Apply(float32(p.L2), w[:n*p.Dim], zeros[:n*p.Dim], state[:n*states])
		}
		if s.first+s.n > last {
			return
		}
	}
}
