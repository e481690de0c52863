package save

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/train/shared"
	"github.com/wdlrun/wdlrun/internal/train/volumes"
	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/trace"
)

// Setup configures a Saver.
type Setup struct {
	shared.Rank
	Trainer    *step.Trainer
	Config     *config.Config
	Encoder    []byte // content of the section
	RunDir     string
	TurnName   string                     // of the group, see rundir.Turn
	Strategies map[string]sparse.Strategy // by table
	Before     int64                      // steps before the first one of the model, which its tables do not count
	Enough     int64                      // requested keys per shard before shards may move, see EnoughKeys
	Volumes    *volumes.Volumes           // nil: all ranks are on one host
	Patience   time.Duration              // how long a commit waits for parts that a shared disk does not show yet

	Advance func(by int)           // called after each piece was written
	Fault   func(step int64) error // an injected fault of the disk at the checkpoint of a step
	Reading func() int64           // step of a checkpoint that another goroutine reads and that stays; 0: none
}

// Saver writes the checkpoints of a training while it continues. All ranks of the group
// make the same calls, between steps. At most one checkpoint is being written at a time:
// call Wait before Begin. Methods return errors of the group. A checkpoint that cannot be
// written is not an error but an Outcome.
type Saver struct {
	Setup
	last    int64    // step of the last good checkpoint
	links   int      // number of checkpoints that the last one depends on
	full    bool     // the next one must be full
	failed  int64    // step of the last failed checkpoint
	saved   int      // checkpoints written
	pending *pending // the checkpoint being written; nil: none
	buffers [buffers]checkpoint.Buffer
	keeper  *checkpoint.Keeper // rank 0 and the leaders of volumes
	yaml    []byte             // the configuration
	loads   loads
	costs   costs
}

// Open returns a Saver that has not saved a checkpoint.
func Open(s Setup) *Saver {
	k := newKeeper(s.Warn)
	if s.Volumes != nil {
		k.Patience, k.Waits = s.Patience, func() { s.Advance(1) }
	}
	return &Saver{Setup: s, yaml: s.Config.YAML(), keeper: k}
}

// newKeeper returns a Keeper that reports links it removes.
func newKeeper(warn func(string)) *checkpoint.Keeper {
	return &checkpoint.Keeper{Unlinked: func(f checkpoint.Found) {
		warn(fmt.Sprintf("the old checkpoint %s was a link, which was removed; what it led to stays: %s", f.Dir, f.Link))
	}}
}

// Boundary describes the end of a step at which a checkpoint is taken.
type Boundary struct {
	Step     int64
	Cursor   any           // content of the section, written as JSON
	Full     bool          // write a full checkpoint
	Keep     []int64       // steps whose checkpoints are kept in addition to train.checkpoint.keep
	Usual    time.Duration // usual time of a step; 0: not known
	Announce bool          // the user has requested it; its path is printed
	Then     func()        // if not nil, called on rank 0 after the commit
}

// Outcome is the result of a checkpoint.
type Outcome struct {
	Step  int64  // 0: none was being written
	Fault string // why it could not be written; "": it was. Earlier checkpoints remain.
}

// Last returns the step of the last good checkpoint; 0 if there is none.
func (s *Saver) Last() int64 { return s.last }

// Holds reports whether the last checkpoint is of this step.
func (s *Saver) Holds(step int64) bool { return s.last == step && (step > 0 || s.saved > 0) }

// Resume makes the next checkpoint extend the checkpoint of a step, which itself depends on
// links others.
func (s *Saver) Resume(step int64, links int) { s.last, s.links = step, links }

// Heal makes the next checkpoint full, since a healed rank does not know what has changed
// since the last one. last is the step of that checkpoint. was, if not nil, is the Saver of
// this rank in the previous group; its counts continue. soFar is the time of all steps so
// far.
func (s *Saver) Heal(was *Saver, last int64, soFar time.Duration) {
	if s.last, s.full = last, true; was != nil {
		s.saved, s.costs = was.saved, was.costs
		s.costs.under, s.costs.until = false, soFar
	}
}

// Warm does the work of Begin once without a checkpoint, so that the first one delays its
// step less. Touching new memory takes longer than the copy itself. A garbage collection
// started by the allocation and the first encoding of a type as JSON also take time.
func (s *Saver) Warm(cursor any) error {
	if s.pending != nil { // after a heal: the writer uses the buffers, and has warmed up
		return nil
	}
	s.Rec.Enter(trace.Build)
	defer s.Rec.Enter(trace.Wait)
	for i := range s.buffers {
		s.buffers[i].Reserve(2 * bufferBytes)
	}
	w := &s.buffers[0] // the buffer that is filled first
	rest, err := s.copy(w, cursor, step.Full)
	if err != nil {
		return err
	}
	w.Reset()
	s.loads.own = s.Trainer.Store().Shards().Loads(nil)
	s.loads.resize(len(s.loads.own))
	return rest.Close()
}

// Begin begins a checkpoint on all ranks. Training waits for the copy of the state that the
// next step changes as a whole; the rest is copied in turns. A checkpoint extends the
// previous one unless it must be full.
func (s *Saver) Begin(b Boundary) error {
	err := s.delay(func() error { return s.cut(b) })
	s.costs.under = err == nil
	return err
}

func (s *Saver) cut(b Boundary) error {
	every := s.Config.Train.Checkpoint
	p := &pending{
		root: checkpoint.InTurn(filepath.Join(s.RunDir, checkpoint.Folder), s.TurnName), step: b.Step, since: s.last,
		rank: s.Comm.Rank(), size: s.Comm.Size(), keep: every.Keep, keeper: s.keeper, warn: s.Warn, then: b.Then, rec: s.Rec,
		volumes: s.Volumes, copies: every.Copies,
	}
	if p.volumes != nil {
		p.forget() // before placement, in which all ranks meet
	}
	if b.Announce {
		p.say = s.Say
	}
	keep := slices.Clone(b.Keep)
	p.protect = func() []int64 {
		if n := s.Reading(); n > 0 {
			return append(keep[:len(keep):len(keep)], n)
		}
		return keep
	}
	if b.Full || s.full || s.last == 0 || s.last == p.step || s.links+1 >= every.FullEvery {
		p.since, s.full = step.Full, false
	}
	var err error
	if p.place, p.owner, err = s.placement(); err != nil {
		return err
	}
	p.part = newPart(&s.buffers, b.Usual)
	p.part.advance = s.Advance
	p.part.begin(func(w *checkpoint.Buffer) (*sparse.Snapshot, error) {
		if err := s.Fault(p.step); err != nil {
			return nil, err
		}
		return s.copy(w, b.Cursor, p.since)
	})
	p.start() // files are created during the next step
	s.pending = p
	return nil
}

// copy copies this rank's share of the state that the next step changes as a whole to w. It
// returns a snapshot of the tables: the rows that changed since a step, or all.
func (s *Saver) copy(w *checkpoint.Buffer, cursor any, since int64) (*sparse.Snapshot, error) {
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
	if since != step.Full {
		since -= s.Before
	}
	return s.Trainer.Save(w, since)
}

// Stepped records that a step has been taken. soFar is the time of all steps.
func (s *Saver) Stepped(soFar time.Duration) { s.costs.count(soFar) }

// CopySlice copies a part of the checkpoint being written, if there is one.
func (s *Saver) CopySlice() {
	if s.taking() {
		s.delay(func() error { s.pending.part.copySlice(); return nil }) // Wait reports errors
	}
	s.costs.under = s.writing()
}

// CopyInBackground continues to copy the checkpoint being written until end is called. The caller
// must not change parameters before that.
func (s *Saver) CopyInBackground() (end func()) {
	if !s.taking() {
		return func() {}
	}
	p, stop, done := s.pending.part, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		p.copyInBackground(stop)
	}()
	return func() {
		close(stop)
		<-done
	}
}

// UnderWay returns the step of the checkpoint being written, and the owners of shards after
// it, nil if unchanged. It returns 0 and nil if there is none.
func (s *Saver) UnderWay() (step int64, owner []int32) {
	if s.pending == nil {
		return 0, nil
	}
	return s.pending.step, s.pending.owner
}

// Busy reports whether a checkpoint is being written or waits to be settled.
func (s *Saver) Busy() bool { return s.pending != nil }

// taking reports whether a part of the current checkpoint has not been copied yet.
func (s *Saver) taking() bool { return s.pending != nil && s.pending.part.rest != nil }

// writing reports whether a checkpoint is being copied or written.
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

// CatchUp is Wait while training waits. It records the longest wait.
func (s *Saver) CatchUp() (Outcome, error) {
	s.Rec.Enter(trace.Checkpoint)
	start := time.Now()
	o, err := s.Wait()
	s.costs.awaited = max(s.costs.awaited, time.Since(start))
	return o, err
}

// Wait waits for the checkpoint being written, if there is one, and returns its outcome
// on all ranks. If a rank could not write (for example because the disk is full), the
// checkpoint is abandoned, the earlier ones remain, and the user is warned once per step.
func (s *Saver) Wait() (o Outcome, err error) {
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
	if p.volumes.Several() {
		<-p.done // all parts are written, so that the ranks soon agree
	}
	s.Rec.Enter(trace.Checkpoint)
	p.stop()
	s.pending = nil
	if p.volumes != nil && !p.volumes.Several() {
		p.forget() // all ranks have the reports
	}
	if !p.volumes.Several() && p.rank == 0 && !p.committed {
		if err := p.conclude(all); err != nil {
			return o, err
		}
	}
	s.Rec.Enter(trace.Wait)
	fault, err := collective.BroadcastBytes(s.Comm, []byte(p.fault), 0, maxReport)
	if err != nil {
		return o, err
	}
	p.endOnVolume(string(fault))
	o = Outcome{p.step, string(fault)}
	s.note(o, p.since)
	return o, nil
}

// note updates the Saver after a checkpoint with the changes since a step.
func (s *Saver) note(o Outcome, since int64) {
	if o.Fault == "" {
		s.saved++
		s.last = o.Step
		if s.links++; since == step.Full {
			s.links = 0
		}
		s.Trainer.Store().Files().Forget(o.Step - s.Before) // the next checkpoint extends this one
		return
	}
	s.full = since != step.Full // the cause may be the checkpoint that it extends
	if s.failed == o.Step {     // it was tried again
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

// Stop ends the goroutine of a checkpoint being written, in a training that has failed. s
// may be nil.
func (s *Saver) Stop() {
	if s != nil && s.pending != nil {
		s.pending.stop()
	}
}
