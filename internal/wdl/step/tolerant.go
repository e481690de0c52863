package step

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/wdl/slots"
	"github.com/wdlrun/wdlrun/trace"
)

// Source gives a rank its own microbatches of an epoch: number n is its part of
// global batch n.
type Source interface {
	// Batch returns microbatch n, which stays as it is until Done. Numbers grow,
	// but for those that were asked for before.
	Batch(n int64) (*encode.Batch, error)
	// Done says that microbatch n counts and will not be asked for again.
	Done(n int64)
}

// Tolerant is the mode in which slow ranks do not hold up the steps of a Trainer. Every
// rank makes the same calls. Its own goroutine, the owner, only makes collective calls
// and so always answers; another computes, and may be late (see hand).
//
// All ranks run the same machine of package slots and give it the same news in the
// same order, since the news went through an all-gather. So they decide alike, no rank
// leads, and there is no message but collective calls.
type Tolerant struct {
	t      *Trainer
	rank   int
	size   int
	lead   *slots.Machine
	source Source
	hand   *hand
	say    func(string)

	leases  []slots.Lease // to be dealt out
	dealt   []slots.Lease // in this step
	pulls   []*work       // of this step, one for each time leases were dealt out
	spare   []*work
	current *work // in hand; nil: none
	useless bool  // the work in hand was cancelled
	undone  []int64
	empty   encode.Batch

	clock   clock
	words   []int64
	news    []slots.News
	ask     func(n int64) error // gets further leases of step n, or what counts in it
	decided *slots.Record
	last    slots.Record
	ended   bool
	script  *script // nil: ranks decide
	parcels parcels
}

// clock says when a rank enters a round.
type clock struct {
	start  time.Time     // when rank 0's clock, which all go by, began
	now    time.Duration // on that clock, as of the last round
	begun  time.Time     // when the step's first leases were dealt out
	looked time.Time     // when the last round ended
	usual  time.Duration // of a microbatch: a moving mean of the steps' medians
	took   []time.Duration
	timer  *time.Timer
}

// lease is what the worker and the owner of a rank know of a work. The zero value: this
// rank has no slot.
type lease struct {
	slots.Lease
	given bool
	room  encode.Batch // where the batch is, if it came from another rank
	grads []float32    // dense, and the tail
	step  int64

	whole bool  // computed to its end
	done  uint8 // how much of it was, 255 for all
	took  time.Duration
	err   error
}

// Tolerate makes the trainer's steps tolerant. Training continues from record, whose
// queue is that of Microbatches. say, if not nil, is called on rank 0 with what users
// should know.
func (t *Trainer) Tolerate(how Tolerance, record slots.Record, source Source, say func(string)) (*Tolerant, error) {
	x, first, err := t.tolerant(how, record, source)
	if err != nil {
		return nil, err
	}
	x.say, x.ended, x.ask = say, record.Queue.Left() == 0, x.round
	x.follow(first)
	return x, nil
}

// tolerant prepares steps after a record. What the machine decides first is not taken.
func (t *Trainer) tolerant(how Tolerance, record slots.Record, source Source) (*Tolerant, slots.Decision, error) {
	size := t.comm.Size()
	lead, first, err := slots.New(how.machine(size), record)
	if err != nil {
		return nil, first, fmt.Errorf("wdl: %w", err)
	}
	h, err := newHand(t)
	if err != nil {
		return nil, first, err
	}
	x := &Tolerant{
		t: t, rank: t.comm.Rank(), size: size, source: source, hand: h, last: record, lead: lead,
		words: make([]int64, wordsOf*size), clock: clock{start: time.Now(), timer: time.NewTimer(time.Hour)},
	}
	x.empty = emptyBatch(len(t.model.layout.Features))
	x.parcels.init(size)
	t.mode, t.model.sums.open = x, false
	return x, first, nil
}

// Close ends the worker, after the chunk that it computes.
func (x *Tolerant) Close() { x.hand.close() }

// Record returns what was decided last: the queue of a checkpoint.
func (x *Tolerant) Record() slots.Record { return x.last }

// Ended reports whether the epoch is over; Resume begins the next.
func (x *Tolerant) Ended() bool { return x.ended }

// Resume begins the next epoch, with its source. A late worker may continue to read
// a microbatch of the old source for a while, to no effect.
func (x *Tolerant) Resume(source Source) {
	x.source, x.ended, x.undone = source, false, x.undone[:0]
	if x.script != nil {
		return
	}
	x.follow(x.lead.Resume(x.clock.now))
}

// next hands out leases until it is decided what counts: the microbatches go to those who
// compute them, and all ranks pull together. Step c may have fewer microbatches than there
// are ranks.
func (x *Tolerant) next(c *Coming) (*work, error) {
	if x.ended || c.N != x.last.Step+1 {
		return nil, fmt.Errorf("wdl: step %d after step %d: the epoch is over, or a step is left out", c.N, x.last.Step)
	}
	for x.decided == nil {
		if len(x.leases) > 0 {
			return x.deal(c.N)
		}
		if err := x.ask(c.N); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// deal gives out the leases.
func (x *Tolerant) deal(n int64) (*work, error) {
	w := x.take()
	w.step, w.batch = n, &x.empty
	x.t.rec.Enter(trace.Input)
	if err := x.forward(w); err != nil {
		return nil, err
	}
	x.pulls = append(x.pulls, w)
	x.dealt = append(x.dealt, x.leases...)
	x.leases = x.leases[:0]
	return w, nil
}

// compute has this rank's worker begin, if it has a slot.
func (x *Tolerant) compute(w *work) error {
	if len(x.pulls) == 1 {
		x.clock.begin()
	}
	x.t.rec.Enter(trace.Sync)
	if w.given {
		x.t.rec.Enter(trace.Compute)
		x.current, x.useless = w, false
		x.hand.begin(w)
	}
	return nil
}

// push does nothing: settle pushes what counts.
func (x *Tolerant) push(*work) error { return nil }

// follow takes what the machine decided.
func (x *Tolerant) follow(d slots.Decision) {
	x.leases = append(x.leases, d.Leases...)
	for _, l := range d.Cancelled {
		if l.Rank == x.rank && x.current != nil {
			x.useless = true
			x.hand.giveUp.Store(true)
		}
	}
	if d.Commit != nil {
		x.decided = d.Commit
	}
	if d.Text != "" && x.say != nil && x.rank == 0 {
		x.say(d.Text)
	}
}

// take returns a work for the next pull.
func (x *Tolerant) take() *work {
	if n := len(x.spare); n > 0 {
		w := x.spare[n-1]
		x.spare = x.spare[:n-1]
		w.given, w.whole, w.err = false, false, nil
		return w
	}
	return &work{lookup: x.t.model.store.NewLookup(), lease: lease{grads: make([]float32, len(x.t.model.arena.Grads()))}}
}

// What a rank sends in a round.
const (
	newsNone = iota
	newsWhole
	newsGivenUp

	wordsOf = 3 // news; time taken, and how much was done in its last byte; the clock
)

// round lets all ranks tell what their workers have done since the last one. A
// rank enters as soon as its worker has ended, or when it would have usually, and
// then again and again: so a round is over soon after the last of those who were
// in time.
func (x *Tolerant) round(int64) error {
	mine := x.words[wordsOf*x.rank:][:wordsOf]
	mine[0], mine[1] = newsNone, 0
	if w := x.await(); w != nil {
		x.t.rec.Enter(trace.Sync)
		if w.err != nil && !x.useless {
			return w.err
		}
		mine[0], mine[1] = newsGivenUp, int64(w.took)<<8|int64(w.done)
		if w.whole {
			mine[0], mine[1] = newsWhole, int64(w.took)<<8|math.MaxUint8
		}
	}
	mine[2] = int64(time.Since(x.clock.start))
	if err := collective.AllGather(x.t.comm, x.words); err != nil {
		return err
	}
	x.clock.now = max(x.clock.now, time.Duration(x.words[2]))
	x.news = x.news[:0]
	for r := range x.size {
		x.report(r, x.words[wordsOf*r], x.words[wordsOf*r+1])
	}
	x.follow(x.lead.Round(x.clock.now, x.news))
	x.clock.looked = time.Now()
	return nil
}

// report notes what a rank said in a round.
func (x *Tolerant) report(r int, news, detail int64) {
	if news == newsNone {
		return
	}
	x.news = append(x.news, slots.News{Rank: r, Whole: news == newsWhole, Done: uint8(detail)})
	if news == newsWhole {
		x.clock.took = append(x.clock.took, time.Duration(detail>>8))
	}
}

const (
	firstLook = 5 * time.Millisecond // while it is not known what is usual
	looks     = 64                   // in the usual time of a microbatch
)

// begin notes that a step begins.
func (c *clock) begin() {
	c.begun = time.Now()
	c.looked, c.took = c.begun, c.took[:0]
}

// due is when it is time for the next round, if this rank's work has not ended.
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

// end takes in how long the microbatches of a step have taken.
func (c *clock) end() {
	if n := len(c.took); n > 0 {
		slices.Sort(c.took)
		if median := c.took[n/2]; c.usual == 0 {
			c.usual = median
		} else {
			c.usual += (median - c.usual) / 8
		}
	}
}

// await returns this rank's work if it has ended, as soon as that is so or it is
// time to look how far the others are.
func (x *Tolerant) await() (ended *work) {
	w := x.current
	if w == nil {
		return nil
	}
	if x.useless { // others shall not wait for it
		select {
		case <-x.hand.ended:
			return x.end()
		default:
			return nil
		}
	}
	x.clock.timer.Reset(time.Until(x.clock.due()))
	select {
	case <-x.hand.ended:
		return x.end()
	case <-x.clock.timer.C:
		return nil
	}
}

// end takes the work out of the worker's hands. If its step is over, no other goroutine
// needs it.
func (x *Tolerant) end() *work {
	w := x.current
	x.current = nil
	if w.step <= x.last.Step {
		x.spare = append(x.spare, w)
	}
	return w
}

// Spent is how long this rank's worker has computed, and how many microbatches, parts
// of one as parts of a second.
func (x *Tolerant) Spent() (took, batches time.Duration) { return x.hand.spent() }

// Backup returns b as it is now.
func (x *Tolerant) Backup() int { return x.lead.Backup() }
