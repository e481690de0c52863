// Package trace records how a rank spends its time. It holds the current phase and step, the
// total time of each phase, and the last spans, which it writes as a timeline for Perfetto
// and chrome://tracing.
//
// One goroutine, the one that trains, calls Enter, Step, Count and Exchange. Any goroutine may
// call Now and Totals. Entering a phase or recording an exchange costs one clock reading and a few
// stores, and does not allocate memory.
package trace

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Recorder records the times of one rank.
type Recorder struct {
	origin  time.Time
	now     func() time.Time
	phase   atomic.Int32
	step    atomic.Int64
	entered atomic.Int64 // ns since origin
	of      int64        // step in which the current phase was entered
	totals  [Phases]atomic.Int64
	tape    tape
	first   int64 // step of the first span to keep
	last    int64 // step of the last; 0: keep all
	bytes   int64 // of the current phase
	rows    int

	others ring // spans of other goroutines
}

// ring holds the last spans of work in other goroutines.
type ring struct {
	mu    sync.Mutex
	spans []span
	next  int
}

// New returns a recorder in phase Start. It keeps about the last keep spans, and not more, with
// the exchanges in them.
func New(keep int) *Recorder {
	return newAt(keep, time.Now)
}

func newAt(keep int, now func() time.Time) *Recorder {
	r := &Recorder{origin: now(), now: now, tape: newTape(keep)}
	r.others.spans = make([]span, 0, (keep+7)/8)
	return r
}

// Keeps reports whether spans are kept.
func (r *Recorder) Keeps() bool { return r.tape.keep > 0 }

// Only restricts the recording of spans and exchanges to steps first to last. Call it before
// the first step.
func (r *Recorder) Only(first, last int64) { r.first, r.last = first, last }

// wants reports whether spans of a step are kept.
func (r *Recorder) wants(step int64) bool { return r.last == 0 || r.first <= step && step <= r.last }

// Step sets the step of the phases entered from now on.
func (r *Recorder) Step(n int64) { r.step.Store(n) }

// Enter ends the current phase and begins p.
func (r *Recorder) Enter(p Phase) {
	now := r.now().Sub(r.origin).Nanoseconds()
	old, since := Phase(r.phase.Load()), r.entered.Load()
	r.totals[old].Add(now - since)
	r.record(span{step: r.of, start: since, end: now, phase: old, bytes: r.bytes, rows: r.rows})
	r.of, r.bytes, r.rows = r.step.Load(), 0, 0
	r.entered.Store(now)
	r.phase.Store(int32(p))
}

// Count adds to the current phase bytes, which this rank sends or which are summed over the
// ranks, and rows of tables that it requests. Call it from the goroutine that calls Enter.
func (r *Recorder) Count(bytes int64, rows int) {
	r.bytes += bytes
	r.rows += rows
}

// Background records work that ran from one time to another, concurrently with the phases.
// It is not part of any total. The phase determines the meaning of n and bytes:
//
//	Sync        the sum of bucket n of the dense gradients, from 1; its bytes
//	Input       the reader has read n batches; bytes is 0
//	Checkpoint  a checkpoint was written; n is 1, bytes is 0
//
// Work of Sync is recorded by the goroutine that calls Enter, other work by any goroutine.
func (r *Recorder) Background(p Phase, n int, bytes int64, from, to time.Time) {
	s := span{step: r.step.Load(), start: from.Sub(r.origin).Nanoseconds(), end: to.Sub(r.origin).Nanoseconds(), phase: p, nth: n, bytes: bytes}
	if p == Sync {
		r.record(s)
	} else if r.wants(s.step) {
		r.others.add(s)
	}
}

func (x *ring) add(s span) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.spans) < cap(x.spans) {
		x.spans = append(x.spans, s)
	} else if len(x.spans) > 0 {
		x.spans[x.next] = s
		x.next = (x.next + 1) % len(x.spans)
	}
}

// since returns the spans that end after a time, the oldest first.
func (x *ring) since(at int64) (all []span) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i := range x.spans {
		if s := x.spans[(x.next+i)%len(x.spans)]; s.end > at {
			all = append(all, s)
		}
	}
	return all
}

// Exchange records that the rank now enters exchange number seq, from which no rank returns
// before all ranks have entered it. All ranks use the same number for the same exchange. It
// is not part of any total.
func (r *Recorder) Exchange(seq uint64) {
	if r.Keeps() && r.wants(r.step.Load()) {
		r.tape.addExchange(exchange{at: r.now().Sub(r.origin).Nanoseconds(), seq: seq})
	}
}

func (r *Recorder) record(s span) {
	if r.Keeps() && r.wants(s.step) {
		r.tape.addSpan(&s)
	}
}

// Now returns the current step and phase, and the time since the phase began.
func (r *Recorder) Now() (step int64, p Phase, in time.Duration) {
	in = r.now().Sub(r.origin) - time.Duration(r.entered.Load())
	return r.step.Load(), Phase(r.phase.Load()), in
}

// Totals returns the time spent in each phase up to the last Enter.
func (r *Recorder) Totals() (t [Phases]time.Duration) {
	for i := range t {
		t[i] = time.Duration(r.totals[i].Load())
	}
	return t
}

// WriteLast writes the current phase and up to n earlier spans, the latest first, one per
// line: step, phase, start and duration in seconds. Call it from the goroutine that calls
// Enter.
func (r *Recorder) WriteLast(w io.Writer, n int) error {
	b := bufio.NewWriter(w)
	line := func(step int64, p Phase, start, end int64, note string) {
		fmt.Fprintf(b, "%8d  %-10s %12.6f %12.6f%s\n", step, p, float64(start)/1e9, float64(end-start)/1e9, note)
	}
	fmt.Fprintf(b, "%8s  %-10s %12s %12s\n", "step", "phase", "began s", "took s")
	line(r.step.Load(), Phase(r.phase.Load()), r.entered.Load(), r.now().Sub(r.origin).Nanoseconds(), "  so far")
	var last []span
	r.tape.each(r.tape.older(n), func(s *span, _ []exchange) error {
		last = append(last, *s)
		return nil
	})
	for _, s := range slices.Backward(last) {
		note := ""
		if s.nth > 0 {
			note = fmt.Sprintf("  bucket %d, in the background", s.nth)
		}
		line(s.step, s.phase, s.start, s.end, note)
	}
	return b.Flush()
}
