package commit

import (
	"fmt"
	"slices"
	"time"
)

// Event is what a coordinator tells its driver.
type Event uint8

// The events.
const (
	Decided   Event = 1 + iota // Record is decided; Late slots of it were cancelled
	Finished                   // Record's step is applied by all owners
	Idle                       // paused at a boundary: Finished, and nothing is leased
	EpochEnd                   // like Idle, at the end of an epoch
	Done                       // like Idle, at the end of the last epoch
	Excluded                   // Rank gets no more leases
	Adapted                    // Backup has changed
	Lost                       // shards without a holder: restore the last checkpoint
	Poisoned                   // a microbatch that no rank can compute
	Overruled                  // a higher term rules; this coordinator is over
	Stayed                     // Backup was weighed for the first time, and stays
)

// Note is one event, told once.
type Note struct {
	Event  Event
	Rank   int
	Late   int
	Record *Record
	Text   string // for people
}

// Coordinator is the state machine of one term's leader, or of several terms
// when owners are lost. Times are since any fixed moment and never decrease.
// What it answers stays valid until the next event.
type Coordinator struct {
	cfg    Config
	term   Term
	stage  stage
	known  bool    // record is one that was decided
	record Record  // decided last
	queue  Queue   // of the step in work
	owners []owner // of the term
	ranks  []int   // of the owners, ascending; leases share it
	seats  []seat  // workers by rank
	free   []int   // idle workers, the first to become so first
	slots  []slot  // of the step in work, step record.Step+1
	next   int     // attempt number of the next lease
	begun  time.Duration
	heard  time.Duration // when something last came
	pause  bool
	cut    bool
	told   int64 // last step of which Finished was told
	rested bool  // Idle, EpochEnd or Done was told of this boundary
	gaps   gaps
	out    []Message
	notes  []Note
}

type stage uint8

const (
	gathering stage = iota // owners are being asked
	running
	resting // at a boundary, told or to be told
	over
)

type owner struct {
	rank     int
	answered bool
	state    Message // its answer, while gathering
	version  int64   // applied, as far as known
}

type seat struct {
	life    life
	tag     Tag // leased or being cancelled
	since   time.Duration
	strikes int
}

type life uint8

const (
	absent life = iota
	idle
	busy
	leaving // cancelled, not yet ready
	barred  // excluded
)

// slot is one slot of the step in work.
type slot struct {
	Item
	attempts []attempt
	complete bool
	counted  int   // attempt that is complete
	failed   []int // ranks that could not do it
}

type attempt struct {
	number int
	rank   int // -1: not leased in this term
	since  time.Duration
	staged []bool // by owner of the term
}

// NewCoordinator returns the leader of a term. It knows nothing but cfg: Start
// asks the owners. It panics if cfg is not valid.
func NewCoordinator(cfg Config, term Term) *Coordinator {
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	cfg = cfg.Default()
	c := &Coordinator{cfg: cfg, term: term, seats: make([]seat, cfg.Workers)}
	c.reign(cfg.Owners)
	return c
}

// reign makes ranks the owners of the term.
func (c *Coordinator) reign(ranks []int) {
	c.owners, c.ranks = make([]owner, len(ranks)), ranks
	for i, r := range ranks {
		c.owners[i].rank = r
	}
	c.stage = gathering
}

// Term returns the term that this coordinator leads now.
func (c *Coordinator) Term() Term { return c.term }

// Record returns what was decided last.
func (c *Coordinator) Record() Record { return c.record }

// Backup returns b as it is now.
func (c *Coordinator) Backup() int { return c.cfg.Backup }

func (c *Coordinator) begin(now time.Duration) {
	c.out, c.notes = c.out[:0], c.notes[:0]
	c.heard = now
}

func (c *Coordinator) answer() ([]Message, []Note) { return c.out, c.notes }

func (c *Coordinator) send(to int, k Kind, t Tag) *Message {
	c.out = append(c.out, Message{Kind: k, From: Lead, To: to, Tag: t})
	return &c.out[len(c.out)-1]
}

func (c *Coordinator) note(n Note) { c.notes = append(c.notes, n) }

// Start opens the term.
func (c *Coordinator) Start(now time.Duration) ([]Message, []Note) {
	c.begin(now)
	c.ask()
	return c.answer()
}

func (c *Coordinator) ask() {
	for _, o := range c.owners {
		if c.stage != gathering || !o.answered {
			c.send(o.rank, Ask, Tag{Term: c.term})
		}
	}
}

// Join says that a worker is there and free: at the start, or back again.
func (c *Coordinator) Join(now time.Duration, rank int) ([]Message, []Note) {
	c.begin(now)
	if rank >= 0 && rank < len(c.seats) && c.seats[rank].life == absent {
		c.seats[rank] = seat{}
		c.release(rank)
		c.assign(now)
	}
	return c.answer()
}

// Leave says that a rank has ended, as a worker and as an owner.
func (c *Coordinator) Leave(now time.Duration, rank int) ([]Message, []Note) {
	c.begin(now)
	if rank < 0 || rank >= len(c.seats) || c.stage == over {
		return c.answer()
	}
	c.drop(rank)
	c.seats[rank].life = absent
	c.free = without(c.free, rank)
	left := without(c.ranks, rank)
	switch {
	case len(left) == len(c.owners):
		c.assign(now)
	case !Covers(left, c.cfg.Workers, c.cfg.Replicas):
		c.stage = over
		c.note(Note{Event: Lost, Rank: rank, Text: fmt.Sprintf(
			"rank %d is gone and nobody else holds its shards: restore the last checkpoint (-replicas 2 would go on)", rank)})
	default:
		c.reform(left)
	}
	return c.answer()
}

// Reform opens a new term over other owners, once Idle was told and a rank that
// comes back has copied its shards.
func (c *Coordinator) Reform(now time.Duration, owners []int) ([]Message, []Note) {
	c.begin(now)
	if c.stage != over {
		c.reform(slices.Clone(owners))
	}
	return c.answer()
}

func (c *Coordinator) reform(owners []int) {
	c.term = c.term.Next()
	c.reign(owners)
	c.slots = nil
	for r := range c.seats {
		if s := &c.seats[r]; s.life == busy || s.life == leaving {
			c.release(r) // the term's first lease ends what it does
		}
	}
	c.ask()
}

// Receive takes one message of a rank.
func (c *Coordinator) Receive(now time.Duration, m Message) ([]Message, []Note) {
	c.begin(now)
	c.take(now, m)
	return c.answer()
}

// ReceiveAll takes messages that came at one time. All that they say is staged
// counts before anybody gets new work, so that ranks which finish together are
// not given slots that the step can do without.
func (c *Coordinator) ReceiveAll(now time.Duration, all []Message) ([]Message, []Note) {
	c.begin(now)
	complete := false
	for _, m := range all {
		complete = c.takeStaged(now, m) || complete
	}
	if complete {
		c.advance(now)
	}
	for _, m := range all {
		if m.Kind != Staged {
			c.take(now, m)
		}
	}
	return c.answer()
}

// takeStaged reports whether a message completes a slot.
func (c *Coordinator) takeStaged(now time.Duration, m Message) bool {
	i := c.owner(m.From)
	return m.Kind == Staged && m.Tag.Term == c.term && i >= 0 && c.stage == running &&
		m.Tag.Step == c.record.Step+1 && c.staged(now, i, m.Tag.Slot, m.Tag.Attempt)
}

func (c *Coordinator) take(now time.Duration, m Message) {
	if c.stage == over || m.Tag.Term != c.term {
		return
	}
	switch m.Kind {
	case Fenced:
		c.stage = over
		c.note(Note{Event: Overruled, Rank: m.From, Text: fmt.Sprintf(
			"term %v is over: rank %d obeys term %v", c.term, m.From, m.Rules)})
	case State:
		c.state(now, m)
	case Applied:
		c.applied(m.From, m.Tag.Step)
		c.rest()
	case Staged:
		if c.takeStaged(now, m) {
			c.advance(now)
		}
	case Ready:
		c.ready(now, m)
	}
}

func (c *Coordinator) owner(rank int) int {
	i, ok := slices.BinarySearch(c.ranks, rank)
	if !ok {
		return -1
	}
	return i
}

// Tick lets time pass: it repeats what seems lost, and in Speculate looks for
// late slots. Call it a few times in each usual step.
func (c *Coordinator) Tick(now time.Duration) ([]Message, []Note) {
	heard := c.heard
	c.begin(now)
	c.heard = heard
	if c.stage != over && now-heard >= c.cfg.Resend {
		c.heard = now
		c.repeat()
	}
	c.assign(now) // what was in vain need not be any more
	return c.answer()
}

// Retry repeats all that is outstanding, after a connection came back.
func (c *Coordinator) Retry(now time.Duration) ([]Message, []Note) {
	c.begin(now)
	if c.stage != over {
		c.repeat()
	}
	return c.answer()
}

func (c *Coordinator) repeat() {
	c.ask()
	if c.stage == gathering {
		return
	}
	for r := range c.seats {
		switch s := &c.seats[r]; s.life {
		case busy:
			c.lease(r, &c.slots[s.tag.Slot], s.tag)
		case leaving:
			c.send(r, Cancel, s.tag)
		}
	}
}

// Pause stops leasing at the next step boundary; Idle tells when all owners are
// there.
func (c *Coordinator) Pause() { c.pause = true }

// Cut makes the next decided step one after which owners take a checkpoint.
func (c *Coordinator) Cut() { c.cut = true }

// Resume goes on after Idle or EpochEnd.
func (c *Coordinator) Resume(now time.Duration) ([]Message, []Note) {
	c.begin(now)
	c.pause = false
	if end := c.queue.Left() == 0; c.stage == resting && !(end && c.lastEpoch()) {
		if end {
			c.queue = c.queue.NextEpoch()
		}
		c.step(now, nil)
	}
	return c.answer()
}
