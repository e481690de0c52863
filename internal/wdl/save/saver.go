package save

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/wdl/config"
	"github.com/wdlrun/wdlrun/internal/wdl/step"
	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/trace"
)

// Setup is what a Saver saves, and where.
type Setup struct {
	Comm       *collective.Comm
	Rec        *trace.Recorder
	Trainer    *step.Trainer
	Config     *config.Config
	Encoder    []byte // the section
	RunDir     string
	Strategies map[string]sparse.Strategy // by table
	Enough     int64                      // keys of a shard before it may move, see EnoughKeys

	Warn    func(line string)      // called on rank 0
	Say     func(line string)      // the same
	Advance func(by int)           // called for each piece that was written
	Fault   func(step int64) error // an injected fault of the disk at the checkpoint of a step
}

// Saver writes the checkpoints of a training while it continues. All ranks of the group
// make the same calls, between steps. At most one checkpoint is under way: Settle
// precedes Begin. Errors are of the group; a checkpoint that cannot be written is an
// Outcome.
type Saver struct {
	Setup
	last    int64    // step of the last good checkpoint
	links   int      // that it builds upon
	full    bool     // the next one must be full
	failed  int64    // step of the last that failed
	saved   int      // checkpoints written
	pending *pending // the one under way, nil for none
	drafts  [drafts]checkpoint.Draft
	keeper  checkpoint.Keeper // rank 0
	yaml    []byte            // the configuration
	loads   loads
	costs   costs
}

// Open returns a Saver that has saved nothing.
func Open(s Setup) *Saver { return &Saver{Setup: s, yaml: s.Config.YAML()} }

// Boundary is the end of a step, of which a checkpoint is taken.
type Boundary struct {
	Step     int64
	Cursor   any           // the section, as JSON
	Full     bool          // the checkpoint must not build upon another
	Keep     []int64       // steps whose checkpoints outlive train.checkpoint.keep
	Usual    time.Duration // of a step, 0: not known
	Announce bool          // the user has requested it; its path is printed
	Then     func()        // on rank 0, after the commit; nil: nothing
}

// Outcome is what became of a checkpoint.
type Outcome struct {
	Step  int64  // 0: none was under way
	Fault string // why it could not be written; the earlier ones stay
}

// Last is the step of the last good checkpoint, 0 for none.
func (s *Saver) Last() int64 { return s.last }

// Saved is how many checkpoints were written.
func (s *Saver) Saved() int { return s.saved }

// Holds reports whether a checkpoint of a step is there.
func (s *Saver) Holds(step int64) bool { return s.last == step && (step > 0 || s.saved > 0) }

// Resume makes the checkpoint of a step the one that others build upon, which builds
// itself upon so many.
func (s *Saver) Resume(step int64, links int) { s.last, s.links = step, links }

// Heal makes the next checkpoint full, since a healed rank does not know what has changed
// since the last, that of step last. was, if not nil, is the Saver of this rank in the
// group before, whose counts continue; soFar is the time of all steps so far.
func (s *Saver) Heal(was *Saver, last int64, soFar time.Duration) {
	if s.last, s.full = last, true; was != nil {
		s.saved, s.costs = was.saved, was.costs
		s.costs.under, s.costs.until = false, soFar
	}
}

// Warm prepares what the first checkpoint would else delay its step for, by doing what
// Begin does for nothing: memory that is touched for the first time costs more than the
// copy that is put there, a round of the garbage collector that asking for it starts
// more still, and so does a type that is written as JSON for the first time.
func (s *Saver) Warm(cursor any) error {
	if s.pending != nil { // after a heal: its writer has the drafts, and brings what is not there yet
		return nil
	}
	s.Rec.Enter(trace.Build)
	defer s.Rec.Enter(trace.Wait)
	for i := range s.drafts {
		s.drafts[i].Reserve(2 * draftBytes)
	}
	w := &s.drafts[0] // that is filled first
	rest, err := s.copy(w, cursor, step.Full)
	if err != nil {
		return err
	}
	w.Reset()
	s.loads.own = s.Trainer.Store().Shards().Loads(nil)
	s.loads.resize(len(s.loads.own))
	return rest.Close()
}

// Begin begins a checkpoint with all ranks. Training waits for the copy of what the next
// step changes as a whole; the rest is taken in turns. A checkpoint builds upon the one
// before, as long as it may.
func (s *Saver) Begin(b Boundary) error {
	err := s.delay(func() error { return s.cut(b) })
	s.costs.under = err == nil
	return err
}

func (s *Saver) cut(b Boundary) error {
	every := s.Config.Train.Checkpoint
	p := &pending{
		root: filepath.Join(s.RunDir, checkpoint.Folder), step: b.Step, since: s.last,
		rank: s.Comm.Rank(), size: s.Comm.Size(), keep: every.Keep, keeper: &s.keeper, warn: s.Warn, then: b.Then,
	}
	if b.Announce {
		p.say = s.Say
	}
	for _, n := range b.Keep {
		p.protect = append(p.protect, checkpoint.Dir(p.root, n))
	}
	if b.Full || s.full || s.last == 0 || s.last == p.step || s.links+1 >= every.FullEvery {
		p.since, s.full = step.Full, false
	}
	var err error
	if p.place, p.owner, err = s.placement(); err != nil {
		return err
	}
	p.part = newPart(&s.drafts, b.Usual)
	p.part.advance = s.Advance
	p.part.begin(func(w *checkpoint.Draft) (*sparse.Snapshot, error) {
		if err := s.Fault(p.step); err != nil {
			return nil, err
		}
		return s.copy(w, b.Cursor, p.since)
	})
	p.start() // not before: files are made during the next step
	s.pending = p
	return nil
}

// copy puts what of this rank's share of a checkpoint cannot wait into w, and returns
// the tables, of which what has changed since a step, or all, is to be saved.
func (s *Saver) copy(w *checkpoint.Draft, cursor any, since int64) (*sparse.Snapshot, error) {
	if s.Comm.Rank() == 0 {
		b, err := json.Marshal(cursor)
		if err != nil {
			return nil, err
		}
		for _, x := range []struct {
			name string
			data []byte
		}{{SectionConfig, s.yaml}, {SectionEncoder, s.Encoder}, {SectionCursor, b}} {
			if err := w.Section(x.name, func(out io.Writer) error { _, err := out.Write(x.data); return err }); err != nil {
				return nil, err
			}
		}
	}
	return s.Trainer.Save(w, since)
}

// Stepped notes that a step has been taken; soFar is the time of all.
func (s *Saver) Stepped(soFar time.Duration) { s.costs.count(soFar) }

// Turn takes the checkpoint under way a little further, if there is one.
func (s *Saver) Turn() {
	if s.taking() {
		s.delay(func() error { s.pending.part.turn(); return nil }) // what fails is known when it is settled
	}
	s.costs.under = s.writing()
}

// Meanwhile takes the checkpoint under way further while the caller does what changes no
// parameter, until end is called.
func (s *Saver) Meanwhile() (end func()) {
	if !s.taking() {
		return func() {}
	}
	p, stop, done := s.pending.part, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		p.meanwhile(stop)
	}()
	return func() {
		close(stop)
		<-done
	}
}

// UnderWay is the step of the checkpoint under way, and the owners that shards are to
// have from there on, nil if they stay; 0 and nil if there is none.
func (s *Saver) UnderWay() (step int64, owner []int32) {
	if s.pending == nil {
		return 0, nil
	}
	return s.pending.step, s.pending.owner
}

// Busy reports whether a checkpoint is under way.
func (s *Saver) Busy() bool { return s.pending != nil }

// taking reports whether a part of the checkpoint under way has not been copied yet.
func (s *Saver) taking() bool { return s.pending != nil && s.pending.part.rest != nil }

// writing reports whether a checkpoint is being taken or written.
func (s *Saver) writing() bool {
	if s.pending == nil {
		return false
	}
	select {
	case <-s.pending.done:
		return false
	default:
		return true
	}
}

// CatchUp is Settle while training waits; it notes the longest wait.
func (s *Saver) CatchUp() (Outcome, error) {
	s.Rec.Enter(trace.Checkpoint)
	start := time.Now()
	o, err := s.Settle()
	s.costs.awaited = max(s.costs.awaited, time.Since(start))
	return o, err
}

// Settle waits for the checkpoint under way, if there is one, and has all ranks know
// what became of it. If a rank could not write (a full disk), the checkpoint is given up,
// the earlier ones stay and the user is warned, once for a step.
func (s *Saver) Settle() (o Outcome, err error) {
	p := s.pending
	if p == nil {
		return o, nil
	}
	p.part.finish()
	<-p.written
	report := partReport{File: p.file}
	if p.err != nil {
		report.Fault = p.err.Error()
	}
	b, err := json.Marshal(report)
	if err != nil {
		return o, err
	}
	s.Rec.Enter(trace.Wait)
	all, err := collective.AllGatherBytes(s.Comm, b, maxReport)
	if err != nil {
		return o, err
	}
	s.Rec.Enter(trace.Checkpoint)
	p.stop()
	s.pending = nil
	if p.rank == 0 && !p.committed {
		if err := p.conclude(all); err != nil {
			return o, err
		}
	}
	s.Rec.Enter(trace.Wait)
	fault, err := collective.BroadcastBytes(s.Comm, []byte(p.fault), 0, maxReport)
	if err != nil {
		return o, err
	}
	o = Outcome{p.step, string(fault)}
	s.note(o, p.since)
	return o, nil
}

// note keeps the books of a checkpoint that changes what changed since a step.
func (s *Saver) note(o Outcome, since int64) {
	if o.Fault == "" {
		s.saved++
		s.last = o.Step
		if s.links++; since == step.Full {
			s.links = 0
		}
		s.Trainer.Store().Files().Forget(o.Step) // what comes builds upon this one
		return
	}
	s.full = since != step.Full // it may be for what it builds upon
	if s.failed == o.Step {     // it was tried once more
		return
	}
	s.failed = o.Step
	last := "none is written so far"
	if s.last > 0 {
		last = fmt.Sprintf("the last good one is of step %d", s.last)
	}
	if s.Comm.Rank() == 0 {
		s.Warn(fmt.Sprintf("checkpoint of step %d failed, training continues, %s: %s", o.Step, last, o.Fault))
	}
}

// Stop ends the goroutine of a checkpoint under way, in a training that has failed. A nil
// Saver has none.
func (s *Saver) Stop() {
	if s != nil && s.pending != nil {
		s.pending.stop()
	}
}
