package straggler

import (
	"container/heap"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/wdlrun/wdlrun/internal/commit"
)

// Costs are the times of the model; see the package comment.
type Costs struct {
	Control, Pull, Compute, Push, Sync time.Duration
	Chunks                             int // of a microbatch
}

// DefaultCosts are near to a Wide & Deep step of 1024 samples a rank.
func DefaultCosts() Costs {
	return Costs{Control: 50 * time.Microsecond, Pull: time.Millisecond, Compute: 10 * time.Millisecond,
		Push: time.Millisecond, Sync: time.Millisecond, Chunks: 4}
}

// Faults says how slow a rank is. A *chaos.Injector of the rank fits.
type Faults interface {
	Slow(step int64, at time.Duration) float64
	Stop(step int64, at time.Duration) (time.Duration, int)
}

// Config is one job. The zero value of what follows Ranks is the default.
type Config struct {
	Ranks  int
	Mode   commit.Mode
	Backup int
	Auto   bool  // adapt Backup
	Slots  int   // default Ranks
	Steps  int64 // default 500
	Batch  int64 // samples of a microbatch; default 1024
	Costs  Costs // default DefaultCosts
	Seed   uint64

	// A lease stalls with probability StallShare, for a time that is
	// exponentially distributed with a mean of StallSteps undisturbed steps.
	StallShare, StallSteps float64

	Faults func(rank int) Faults // nil: none
}

// Result is what came out.
type Result struct {
	SamplesPerSecond float64  `json:"samples_per_second"`
	LateSlots        int64    `json:"late_slots"`
	CommittedSamples int64    `json:"committed_samples"`
	Steps            int64    `json:"steps"`
	Seconds          float64  `json:"seconds"` // virtual
	Backup           int      `json:"backup"`  // at the end
	Notes            []string `json:"notes,omitempty"`
	Digest           uint64   `json:"-"` // of the commit sets
}

// MaxRanks bounds a simulation.
const MaxRanks = commit.MaxSlots

func (c Config) filled() Config {
	if c.Slots == 0 {
		c.Slots = c.Ranks
	}
	if c.Steps == 0 {
		c.Steps = 500
	}
	if c.Batch == 0 {
		c.Batch = 1024
	}
	if c.Costs == (Costs{}) {
		c.Costs = DefaultCosts()
	}
	if c.StallSteps == 0 {
		c.StallSteps = 4
	}
	return c
}

// Validate reports all faults.
func (c Config) Validate() error {
	c = c.filled()
	var errs []error
	fault := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("straggler: config: "+format, args...))
	}
	if c.Ranks < 1 || c.Ranks > MaxRanks {
		fault("%d ranks are not within 1 … %d", c.Ranks, MaxRanks)
	}
	if c.Steps < 1 || c.Steps > 1<<20 || c.Batch < 1 || c.Batch > 1<<20 {
		fault("%d steps of %d samples are not within 1 … %d", c.Steps, c.Batch, 1<<20)
	}
	if !(c.StallShare >= 0 && c.StallShare <= 1 && c.StallSteps >= 0 && c.StallSteps <= 1e6) {
		fault("a share %v of stalls of %v steps", c.StallShare, c.StallSteps)
	}
	k := c.Costs
	for _, d := range []time.Duration{k.Control, k.Pull, k.Compute, k.Push, k.Sync} {
		if d < 0 || d > time.Hour {
			fault("a cost of %v", d)
		}
	}
	if k.Chunks < 1 || k.Compute <= 0 {
		fault("compute of %v in %d chunks", k.Compute, k.Chunks)
	}
	if errs == nil { // what leads so many ranks exists
		return c.lead().Validate()
	}
	return errors.Join(errs...)
}

// maxOwners is how many owners are simulated: all take the same times, so that
// more would change nothing but the cost of the simulation.
const maxOwners = 2

func (c Config) lead() commit.Config {
	l := commit.Config{Mode: c.Mode, Workers: c.Ranks, Slots: c.Slots, Backup: c.Backup, Auto: c.Auto}
	l.Replicas = max(1, (c.Ranks+maxOwners-1)/maxOwners)
	for r := 0; r < c.Ranks; r += l.Replicas {
		l.Owners = append(l.Owners, r)
	}
	return l
}

// step returns how long a step without stragglers takes.
func (k Costs) step() time.Duration {
	return 2*k.Control + max(k.Pull/2, k.Sync) + k.Pull/2 + k.Compute + k.Push
}

// Run simulates a job. The same Config gives the same Result.
func Run(c Config) (Result, error) {
	if err := c.Validate(); err != nil {
		return Result{}, err
	}
	s := newSimulation(c.filled())
	if err := s.run(); err != nil {
		return Result{}, fmt.Errorf("straggler: %w", err)
	}
	s.result.Seconds = s.now.Seconds()
	s.result.SamplesPerSecond = float64(s.result.CommittedSamples) / s.result.Seconds
	s.result.Backup = s.lead.Backup()
	return s.result, nil
}

// simulation is one run: machines and what is on its way to them.
type simulation struct {
	cfg     Config
	now     time.Duration
	events  queue
	made    int // events so far: ties are broken by age
	lead    *commit.Coordinator
	owners  []owner // by rank; most are none
	workers []worker
	rng     *rand.Rand
	result  Result
	err     error
}

type worker struct {
	*commit.Worker
	faults  Faults
	work    commit.Tag    // being computed
	begun   time.Duration // when
	took    time.Duration // how long it takes
	stalled time.Duration // until when it hears nothing
}

type owner struct {
	*commit.Owner
	busy time.Duration // until when it applies
}

// event is something due at a time.
type event struct {
	at  time.Duration
	age int
	do  func()
}

type queue []event

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, k int) bool {
	return q[i].at < q[k].at || q[i].at == q[k].at && q[i].age < q[k].age
}
func (q queue) Swap(i, k int) { q[i], q[k] = q[k], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(event)) }
func (q *queue) Pop() any {
	old := *q
	e := old[len(old)-1]
	*q = old[:len(old)-1]
	return e
}

func newSimulation(c Config) *simulation {
	s := &simulation{cfg: c, rng: rand.New(rand.NewPCG(c.Seed, 1))}
	total := 4 * c.Batch * int64(c.Slots) * c.Steps // never reaches the end of its epoch
	start := commit.Record{Queue: commit.Queue{Total: total, Size: c.Batch}}
	for r := range c.Ranks {
		w := worker{Worker: commit.NewWorker(r, 0)}
		if c.Faults != nil {
			w.faults = c.Faults(r)
		}
		s.workers = append(s.workers, w)
		s.owners = append(s.owners, owner{Owner: commit.NewOwner(r, 0, start, 0)})
	}
	s.lead = commit.NewCoordinator(c.lead(), commit.MakeTerm(1, 1, c.Ranks))
	return s
}

func (s *simulation) after(d time.Duration, do func()) {
	s.made++
	heap.Push(&s.events, event{s.now + d, s.made, do})
}

func (s *simulation) run() error {
	s.decided(s.lead.Start(0))
	for r := range s.workers {
		s.decided(s.lead.Join(0, r))
	}
	s.tick()
	for s.result.Steps < s.cfg.Steps && s.err == nil {
		e := heap.Pop(&s.events).(event)
		s.now = e.at
		e.do()
	}
	return s.err
}

// tick lets the coordinator look at the time ten times in a step.
func (s *simulation) tick() {
	s.decided(s.lead.Tick(s.now))
	s.after(s.cfg.Costs.step()/10, s.tick)
}

func (s *simulation) decided(out []commit.Message, notes []commit.Note) {
	for _, n := range notes {
		switch n.Event {
		case commit.Decided:
			s.result.LateSlots += int64(n.Late)
			s.result.CommittedSamples += n.Record.Samples
			s.result.Steps++
		case commit.Adapted, commit.Excluded:
			s.result.Notes = append(s.result.Notes, n.Text)
		case commit.Lost, commit.Poisoned, commit.Overruled:
			s.err = errors.New(n.Text)
		}
	}
	s.send(slices.Clone(out), 0)
}

// send delivers messages after the times they take, and a delay before.
func (s *simulation) send(out []commit.Message, delay time.Duration) {
	for _, m := range out {
		d := delay + s.cfg.Costs.Control
		switch m.Kind {
		case commit.Pull, commit.Rows:
			d = delay + s.cfg.Costs.Pull/2
		case commit.Push:
			d = delay + s.cfg.Costs.Push
		}
		s.after(d, func() { s.deliver(m) })
	}
}

func (s *simulation) deliver(m commit.Message) {
	switch m.Kind {
	case commit.Lease, commit.Cancel, commit.Rows, commit.Stale:
		s.hear(m)
	case commit.Ask, commit.Pull, commit.Push, commit.Withdraw, commit.Commit:
		s.own(&s.owners[m.To], m)
	default:
		s.decided(s.lead.Receive(s.now, m))
	}
}

// own gives an owner a message, which it answers when it has applied what it is
// at.
func (s *simulation) own(o *owner, m commit.Message) {
	out, err := o.Receive(m)
	if err != nil {
		s.err = err
	}
	if out.Act == commit.Apply {
		o.busy = s.now + s.cfg.Costs.Sync
		s.result.Digest = o.Digest()
	}
	s.send(slices.Clone(out.Messages), max(o.busy-s.now, 0))
}

// hear gives a worker a message, when it next looks up.
func (s *simulation) hear(m commit.Message) {
	w := &s.workers[m.To]
	tag, _, busy := w.Lease()
	if wait := s.looksUp(w); busy && tag == w.work && wait > 0 {
		s.after(wait, func() { s.hear(m) })
		return
	}
	done := uint8(0)
	if busy && tag == w.work && w.took > 0 {
		done = uint8(min(255, 255*(s.now-w.begun)/w.took))
	}
	o := w.Receive(m, done)
	if o.Act == commit.Abandon && o.Tag == w.work {
		w.work = commit.Tag{}
	}
	s.send(slices.Clone(o.Messages), 0)
	if o.Act == commit.Compute {
		s.compute(w, o.Tag)
	}
}

// looksUp returns how long a computing worker will not look at its messages.
func (s *simulation) looksUp(w *worker) time.Duration {
	if s.now < w.stalled {
		return w.stalled - s.now
	}
	if w.took == 0 {
		return 0
	}
	chunk := max(w.took/time.Duration(s.cfg.Costs.Chunks), 1)
	into := (s.now - w.stalled) % chunk
	if into == 0 {
		return 0
	}
	return min(chunk-into, w.begun+w.took-s.now)
}

// compute begins the work on a tag, with a stall before it if chance has it.
func (s *simulation) compute(w *worker, t commit.Tag) {
	stall, factor := time.Duration(0), 1.0
	if s.rng.Float64() < s.cfg.StallShare {
		stall = time.Duration(s.rng.ExpFloat64() * s.cfg.StallSteps * float64(s.cfg.Costs.step()))
	}
	if w.faults != nil {
		d, _ := w.faults.Stop(t.Step, s.now)
		stall += d
		factor = w.faults.Slow(t.Step, s.now)
	}
	w.work, w.begun, w.stalled = t, s.now+stall, s.now+stall
	w.took = time.Duration(float64(s.cfg.Costs.Compute) * factor)
	s.after(stall+w.took, func() {
		if w.work == t {
			w.work, w.took = commit.Tag{}, 0
			s.send(slices.Clone(w.Computed(t).Messages), 0)
		}
	})
}
