package table

import (
	"unsafe"

	"github.com/wdlrun/wdlrun/internal/kernel/f32"
	"github.com/wdlrun/wdlrun/optim"
)

// steps reads rows and applies optimizer steps to them.
type steps struct {
	tiered
	updates  []optim.Update // by part, of the current step
	decaying []optim.Update // by part, of a step in past
	own      Past
	past     *Past     // the table's own, or shared with other tables
	begun    []float32 // records of keys without a row
	unmarked uint32    // dummy stamp of rows that must not be stamped
	scratch  []float32 // 2·V
	found    []Row     // by key of a step
	batch    []Row     // rows of others
	seen     []uint64  // bits: rows that others skips

	deferredValues []float32 // of records that take missed steps: values, zeros, state
}

func (t *steps) init() {
	t.updates, t.decaying = make([]optim.Update, len(t.parts)), make([]optim.Update, len(t.parts))
	t.past, t.scratch = &t.own, make([]float32, 2*t.width)
}

// ready sets the update rules to a step.
func (t *steps) ready(at optim.Step) {
	for i := range t.parts {
		t.updates[i] = t.parts[i].Rule.At(at)
	}
}

// stepRows updates and stamps the first n records, only their DenseL2 parts if dense is
// set. The other records belong to the next call. With stride 0 all rows get the same
// gradient.
func (t *steps) stepRows(records []optim.Record, n int, grads []float32, stride int, dense bool) {
	for _, run := range t.runs {
		if p := &t.parts[run.first]; p.frozen >= t.now && p.frozen > 0 {
			for i := range records[:n] {
				*records[i].Mark = uint32(t.now)
			}
		} else if p.decays || !dense {
			place := optim.Part{Dim: run.dim, Value: p.lo, State: p.stateLo}
			t.updates[run.first].ApplyRows(float32(p.L2), records, n, uint32(t.now), place, grads[p.lo:], stride)
		}
	}
}

// stepPacked is stepRows for records of bfloat16.
func (t *steps) stepPacked(keys []uint64, records []optim.Record, n int, grads []float32) {
	prefetch(unsafe.Slice((**byte)(unsafe.Pointer(&records[0])), 2*len(records)), 0)
	for i, r := range records[:n] {
		*r.Mark = uint32(t.now)
		rec := unsafe.Slice(r.At, t.words())
		w, grad := t.values(rec), grads[i*t.width:(i+1)*t.width]
		for j := range t.parts {
			p := &t.parts[j]
			if p.frozen >= t.now && p.frozen > 0 {
				continue
			}
			t.updates[j].Apply(float32(p.L2), w[p.lo:p.hi], grad[p.lo:p.hi], rec[p.stateLo:p.stateHi])
		}
		stochastic(rec, w, f32.Mix(keys[i]^t.salt)+f32.Mix(uint64(t.now)))
	}
}

// others calls f with the rows that are not in t.found, up to chunk at a time. It returns
// their number.
func (t *steps) others(f func(rows []Row)) (n int) {
	t.seen = resize(t.seen, int(t.used)/64+1)
	clear(t.seen)
	mark := func(rows []Row) {
		for _, r := range rows {
			t.seen[r/64] |= 1 << (r % 64)
		}
	}
	t.seen[0] = 1 // row 0 does not exist
	mark(t.found)
	mark(t.free)
	t.batch = resize(t.batch, chunk)
	rows, in := t.batch, 0
	for r := Row(1); r <= Row(t.used); r++ {
		if t.seen[r/64]>>(r%64)&1 != 0 {
			continue
		}
		rows[in] = r
		if in++; in == chunk {
			f(rows)
			in = 0
		}
		n++
	}
	f(rows[:in])
	return n
}
