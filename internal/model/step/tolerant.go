package step

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/model/slots"
	"github.com/wdlrun/wdlrun/trace"
)

// Tolerate makes the trainer's steps tolerant. Training continues after record, whose queue
// must be one of Microbatches. say, if not nil, is called on rank 0 with messages for
// users.
func (t *Trainer) Tolerate(how Tolerance, record slots.Record, source Source, say func(string)) (*Tolerant, error) {
	x, first, err := t.tolerant(how, record, source)
	if err != nil {
		return nil, err
	}
	x.say, x.ended, x.ask = say, record.Queue.Left() == 0, x.exchangeRound
	x.follow(first)
	return x, nil
}

// tolerant prepares the steps after a record. It returns the first decision of the machine
// without following it.
func (t *Trainer) tolerant(how Tolerance, record slots.Record, source Source) (*Tolerant, slots.Decision, error) {
	size := t.comm.Size()
	machine, first, err := slots.New(how.machine(size), record)
	if err != nil {
		return nil, first, err
	}
	h, err := newAsyncWorker(t)
	if err != nil {
		return nil, first, err
	}
	x := &Tolerant{
		t: t, rank: t.comm.Rank(), size: size, source: source, async: h, last: record, machine: machine,
		words: make([]int64, wordsOf*size), clock: clock{start: time.Now(), timer: time.NewTimer(time.Hour)},
	}
	x.empty = emptyBatch(len(t.model.layout.Features))
	x.forwardBuffers.init(size)
	t.mode, t.model.sums.open = x, false
	return x, first, nil
}

// Close ends the worker after its current chunk.
func (x *Tolerant) Close() { x.async.close() }

// Record returns the last commit set, which contains the queue of a checkpoint.
func (x *Tolerant) Record() slots.Record { return x.last }

// Ended reports whether the epoch has ended. Resume begins the next.
func (x *Tolerant) Ended() bool { return x.ended }

// Resume begins the next epoch with its source. A late worker may still read a microbatch
// of the old source; its result is not used.
func (x *Tolerant) Resume(source Source) {
	x.source, x.ended, x.undone = source, false, x.undone[:0]
	if x.script != nil {
		return
	}
	x.follow(x.machine.Resume(x.clock.now))
}

// next begins leases until it is decided which microbatches count. The batches are sent to
// the ranks that compute them, and all ranks pull together. A step may have fewer
// microbatches than there are ranks.
func (x *Tolerant) next(c *Input) (*work, error) {
	if x.ended || c.N != x.last.Step+1 {
		return nil, fmt.Errorf("step %d after step %d: the epoch is over, or a step is left out", c.N, x.last.Step)
	}
	for x.decided == nil {
		if len(x.leases) > 0 {
			return x.beginLeases(c.N)
		}
		if err := x.ask(c.N); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// beginLeases begins the pending leases.
func (x *Tolerant) beginLeases(n int64) (*work, error) {
	w := x.freeWork()
	w.step, w.batch = n, &x.empty
	x.t.rec.Enter(trace.Input)
	if err := x.forward(w); err != nil {
		return nil, err
	}
	x.pulls = append(x.pulls, w)
	x.leased = append(x.leased, x.leases...)
	x.leases = x.leases[:0]
	return w, nil
}

// compute starts this rank's worker, if it has a slot.
func (x *Tolerant) compute(w *work) error {
	if len(x.pulls) == 1 {
		x.clock.begin()
	}
	x.t.rec.Enter(trace.Sync)
	if w.assigned {
		x.t.rec.Enter(trace.Compute)
		x.current, x.cancelled = w, false
		x.async.begin(w)
	}
	return nil
}

// push does nothing: sumGradients pushes the gradients that count.
func (x *Tolerant) push(*work) error { return nil }

// follow applies a decision of the machine.
func (x *Tolerant) follow(d slots.Decision) {
	x.leases = append(x.leases, d.Leases...)
	for _, l := range d.Cancelled {
		if l.Rank == x.rank && x.current != nil {
			x.cancelled = true
			x.async.giveUp.Store(true)
		}
	}
	if d.Commit != nil {
		x.decided = d.Commit
	}
	if d.Text != "" && x.say != nil && x.rank == 0 {
		x.say(d.Text)
	}
}

// freeWork returns a work for the next pull.
func (x *Tolerant) freeWork() *work {
	if n := len(x.spare); n > 0 {
		w := x.spare[n-1]
		x.spare = x.spare[:n-1]
		w.assigned, w.complete, w.err = false, false, nil
		return w
	}
	return &work{lookup: x.t.model.store.NewLookup(), lease: lease{grads: make([]float32, len(x.t.model.arena.Grads()))}}
}

// The message of a rank in a round.
const (
	newsNone = iota
	newsWhole
	newsGivenUp

	wordsOf = 3 // reports; time taken << 8 | computed part in 1/255; clock
)

// exchangeRound exchanges what the workers have done since the last round. A rank enters when its
// worker has ended, or when the usual time of a microbatch has passed and then at short
// intervals. So a round ends soon after the last rank that was in time.
func (x *Tolerant) exchangeRound(int64) error {
	mine := x.words[wordsOf*x.rank:][:wordsOf]
	mine[0], mine[1] = newsNone, 0
	if w := x.await(); w != nil {
		x.t.rec.Enter(trace.Sync)
		if w.err != nil && !x.cancelled {
			return w.err
		}
		mine[0], mine[1] = newsGivenUp, int64(w.took)<<8|int64(w.done)
		if w.complete {
			mine[0], mine[1] = newsWhole, int64(w.took)<<8|math.MaxUint8
		}
	}
	mine[2] = int64(time.Since(x.clock.start))
	if err := collective.AllGather(x.t.comm, x.words); err != nil {
		return err
	}
	x.clock.now = max(x.clock.now, time.Duration(x.words[2]))
	x.reports = x.reports[:0]
	for r := range x.size {
		x.report(r, x.words[wordsOf*r], x.words[wordsOf*r+1])
	}
	x.follow(x.machine.Round(x.clock.now, x.reports))
	x.clock.looked = time.Now()
	return nil
}

// report records the message of a rank.
func (x *Tolerant) report(r int, reports, detail int64) {
	if reports == newsNone {
		return
	}
	x.reports = append(x.reports, slots.Report{Rank: r, Whole: reports == newsWhole, Done: uint8(detail)})
	if reports == newsWhole {
		x.clock.times = append(x.clock.times, time.Duration(detail>>8))
	}
}

const (
	firstLook = 5 * time.Millisecond // until a usual time is known
	looks     = 64                   // rounds per usual time of a microbatch
)

// begin starts the clock of a step.
func (c *clock) begin() {
	c.begun = time.Now()
	c.looked, c.times = c.begun, c.times[:0]
}

// due returns the time of the next round if this rank's work has not ended.
func (c *clock) due() time.Time {
	if c.usual == 0 {
		return c.looked.Add(firstLook)
	}
	due := c.looked.Add(c.usual / looks)
	if first := c.begun.Add(c.usual); first.After(due) {
		return first
	}
	return due
}

// end updates the usual time of a microbatch with the times of a step.
func (c *clock) end() {
	if n := len(c.times); n > 0 {
		slices.Sort(c.times)
		if median := c.times[n/2]; c.usual == 0 {
			c.usual = median
		} else {
			c.usual += (median - c.usual) / 8
		}
	}
}

// await returns this rank's work as soon as it has ended, or nil when the next round is
// due.
func (x *Tolerant) await() (ended *work) {
	w := x.current
	if w == nil {
		return nil
	}
	if x.cancelled { // the other ranks must not wait for it
		select {
		case <-x.async.ended:
			return x.end()
		default:
			return nil
		}
	}
	x.clock.timer.Reset(time.Until(x.clock.due()))
	select {
	case <-x.async.ended:
		return x.end()
	case <-x.clock.timer.C:
		return nil
	}
}

// end returns the work that the worker has ended. If its step is over, the work can be used
// again.
func (x *Tolerant) end() *work {
	w := x.current
	x.current = nil
	if w.step <= x.last.Step {
		x.spare = append(x.spare, w)
	}
	return w
}

// Spent returns the time that this rank's worker has computed, and the number of
// microbatches in units of 1 s each, parts included.
func (x *Tolerant) Spent() (took, batches time.Duration) { return x.async.spent() }

// Backup returns the current number of microbatches that may be late.
func (x *Tolerant) Backup() int { return x.machine.Backup() }
