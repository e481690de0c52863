package table

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"
	"unsafe"

	"github.com/wdlrun/wdlrun/optim"
)

// Past records the steps that tables with a DenseL2 part have taken. A new row first takes
// these steps with zero gradients. Frameworks with dense gradients decay it from the first
// step on, so the row takes the same steps in total. Tables that take the same steps share
// one Past ([Table.Share]).
type Past struct {
	spans []span
	last  int64 // last step
}

// span is a sequence of consecutive steps that differ only in their numbers.
type span struct {
	first, n int64
	at       optim.Step // the first step
}

const (
	spanBytes = 8 + 8 + 8 + 4 + 4 + 8 + 4
	maxSpans  = 1 << 28
)

// Add records a step unless it is not later than the last one.
func (p *Past) Add(at optim.Step) {
	if at.N <= p.last {
		return
	}
	at = at.Default()
	if n := len(p.spans); n > 0 {
		s := &p.spans[n-1]
		next := s.at
		next.N = s.first + s.n
		if next == at {
			s.n, p.last = s.n+1, at.N
			return
		}
	}
	p.spans, p.last = append(p.spans, span{at.N, 1, at}), at.N
}

// withRate returns a recorded step to take: files store optim.ZeroRate as 0.
func withRate(at optim.Step) optim.Step {
	if at.Rate == 0 {
		at.Rate = optim.ZeroRate
	}
	return at
}

// each calls f with the recorded steps before a step.
func (p *Past) each(before int64, f func(at optim.Step)) {
	for _, s := range p.spans {
		for at := s.at; at.N < min(s.first+s.n, before); at.N++ {
			f(at)
		}
	}
}

// Save writes the steps, little-endian. For each span of equal steps: number of the
// first step (8 bytes), number of steps (8), Rate (8), Scale (4), Clip (4), Samples
// (8), Batch (4).
func (p *Past) Save(w io.Writer) error {
	le := binary.LittleEndian
	b := make([]byte, 0, len(p.spans)*spanBytes)
	for _, s := range p.spans {
		b = le.AppendUint64(b, uint64(s.first))
		b = le.AppendUint64(b, uint64(s.n))
		b = le.AppendUint64(b, math.Float64bits(s.at.Rate))
		b = le.AppendUint32(b, math.Float32bits(s.at.Scale))
		b = le.AppendUint32(b, math.Float32bits(s.at.Clip))
		b = le.AppendUint64(b, math.Float64bits(s.at.Samples))
		b = le.AppendUint32(b, s.at.Batch)
	}
	if _, err := w.Write(b); err != nil {
		return fmt.Errorf("table: past steps: %w", err)
	}
	return nil
}

// Load replaces the recorded steps by those that Save wrote. It reads to the end of r.
func (p *Past) Load(r io.Reader) error {
	b, err := io.ReadAll(io.LimitReader(r, maxSpans*spanBytes+1))
	if err == nil && len(b)%spanBytes != 0 {
		err = errors.New("they end inside a span, or are too many: the file is damaged")
	}
	var read Past
	le := binary.LittleEndian
	for ; err == nil && len(b) > 0; b = b[spanBytes:] {
		s := span{first: int64(le.Uint64(b)), n: int64(le.Uint64(b[8:]))}
		s.at = optim.Step{N: s.first, Rate: math.Float64frombits(le.Uint64(b[16:])), Scale: math.Float32frombits(le.Uint32(b[24:])), Clip: math.Float32frombits(le.Uint32(b[28:])),
			Samples: math.Float64frombits(le.Uint64(b[32:])), Batch: le.Uint32(b[40:])}
		if s.first <= read.last || s.n < 1 || s.n > math.MaxInt64-s.first || s.at.Validate() != nil {
			err = fmt.Errorf("%d steps from step %d on, after step %d: the file is damaged", s.n, s.first, read.last)
			break
		}
		read.spans, read.last = append(read.spans, s), s.first+s.n-1
	}
	if err != nil {
		return fmt.Errorf("table: past steps: %w", err)
	}
	*p = read
	return nil
}

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

// deferred describes the steps that rows without a gradient have not taken yet. A step of a DenseL2
// part changes every row. Most rows are not read before their next gradient, so a row takes the
// steps that it has missed, one after the other, when it is read. The bits are those of one step
// at a time. A row is then in the processor's cache for all of them, and a step need not
// visit every row.
type deferred struct {
	off   bool  // rows take each step when it is made
	begun bool  // Apply was called since Open, Reset or the load
	taken int64 // last step that a row must have taken before it is read
	base  int64 // every row has taken the steps up to this one
	all   int64 // every row has taken the steps up to taken if it equals taken
}

// lagging is a record that has taken the steps up to one and not the later ones.
type lagging struct {
	until int64
	row   Row
	at    *float32
}

// changesUntouched reports whether a step without a gradient may change a row of the part.
func (p *part) changesUntouched() bool {
	if !p.DenseL2 {
		return false
	}
	switch p.Rule.Kind {
	case "sgd", "adagrad", "rowwise_adagrad":
		return p.L2 != 0
	case "ftrl":
		return p.L2 != 0 || p.stateOfValues // its first step rounds the initial values
	}
	return true
}

// canDefer reports whether steps without a gradient change rows and may be taken later: such steps
// of one rate must be equal and change each value by itself.
func canDefer(parts []part) (decays bool) {
	for i := range parts {
		if p := &parts[i]; p.decays && p.Rule.Kind != "sgd" && p.Rule.Kind != "adagrad" || p.frozen > 0 {
			return false
		}
		decays = decays || parts[i].decays
	}
	return decays
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

// caughtUp notes that a row has taken all steps.
func (t *memory) caughtUp(r Row) {
	if !t.deferred.off {
		*(*uint32)(t.notes.until.at(uint32(r))) = uint32(t.deferred.taken)
	}
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

// takeMissed lets records takeMissed their missing steps, up to last and without a gradient. They are in the order of
// until. The values of all records are one vector, of which a step takes the part that has missed
// it.
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

// takeMissedPart is take for the values of a part.
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
