package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/export"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/model/plan"
	"github.com/wdlrun/wdlrun/internal/train/publish"
	"github.com/wdlrun/wdlrun/internal/train/save"
)

// best identifies the best evaluation so far.
type best struct {
	step int64 // step of its checkpoint; 0: none
	at   *metrics.Metrics
}

// saves starts the checkpoints of a job, decides which ones are kept, and moves shards to
// other owners after one. Its Saver writes them.
type saves struct {
	*run
	saver     *save.Saver        // nil in an evaluation
	publisher *publish.Publisher // nil: the model is not published

	enough     int64         // see save.Setup.Enough
	every      time.Duration // see publish.Setup.Every, with Wait; 0: the configured interval
	moved      int64         // shards that have moved to other owners
	epoch      int64         // step at the end of the last epoch of this job
	at         time.Time     // when the last checkpoint began
	before     best          // the best evaluation before the one that is being saved
	failedBest bool          // the last checkpoint was for the best epoch, and failed
}

// open prepares the checkpoints of this job.
func (s *saves) open() {
	s.saver = save.Open(save.Setup{
		Rank: s.Rank, Volumes: s.volumes, Patience: s.opt.DiskPatience,
		Trainer: s.trainer, Config: s.written, Encoder: s.in.Encoded, RunDir: s.runDir, TurnName: s.turnName, Before: s.cursor.Refit.steps(),
		Strategies: s.planned.Strategies(), Enough: s.enough,
		Advance: s.shown.Advance, Fault: s.faults.diskFull,
		Reading: func() int64 { return s.publisher.Reading() },
	})
}

// publish starts publishing the model if the configuration requires it.
func (s *saves) publish(ctx context.Context) (err error) {
	every := cmp.Or(s.every, time.Duration(s.config.Train.Export.EverySeconds*float64(time.Second)))
	before := ""
	if s.source != nil && runOfCheckpoint(s.source.Dir()) != s.source.Dir() {
		before = runOfCheckpoint(s.source.Dir())
	}
	s.publisher, err = publish.Open(ctx, publish.Setup{
		Rank: s.Rank, Before: before,
		Trainer: s.trainer, Config: s.config, Encoder: s.in.Encoded, RunDir: s.runDir, Every: every, Wait: s.every > 0,
		Volumes: s.volumes, Count: s.opt.Board.Published, Guard: s.opt.Board.Guard, Offsets: s.offsets,
	}, s.cursor.Step)
	return permanent(err)
}

// offsets returns the positions in a stream before which all records have been trained on.
func (s *saves) offsets() (all []export.Offset) {
	if c := s.cursor.Stream; c != nil {
		for _, x := range c.Done {
			all = append(all, export.Offset{Topic: x.Topic, Partition: x.Number, Next: x.Next})
		}
	}
	return all
}

// wait waits for the checkpoint under way and records its outcome.
func (s *saves) wait() error { return s.record(s.saver.Wait()) }

// catchUp is like wait, but is called while training waits.
func (s *saves) catchUp() error { return s.record(s.saver.CatchUp()) }

func (s *saves) record(o save.Outcome, err error) error {
	if err == nil && o.Fault != "" {
		if s.failedBest = s.cursor.Best == o.Step; s.failedBest {
			s.cursor.Best, s.cursor.AtBest = s.before.step, s.before.at // a best epoch must be restorable
		}
	}
	return err
}

// save begins a checkpoint of the current step on all ranks, after the previous one has
// ended. A full checkpoint does not depend on others. If the checkpoint cannot be written,
// before becomes the best evaluation again.
func (s *saves) save(full bool, before best) error {
	if err := s.catchUp(); err != nil {
		return err
	}
	if s.before = before; full {
		s.epoch = s.cursor.Step
	}
	b := save.Boundary{
		Step: s.cursor.Step, Cursor: s.cursor, Full: full, Usual: s.report.Usual(s.cursor.Step),
		Announce: s.wants.save.Load() || s.wants.stop.Load(),
	}
	if c := s.cursor.Stream; c != nil {
		b.Then = s.stream.Commit(c.Done, s.opt.Warn)
	}
	if !s.opt.Tolerance.Off() && s.epoch > 0 { // fewer ranks can resume only at the end of an epoch
		b.Keep = append(b.Keep, s.epoch)
	}
	if s.cursor.Best > 0 { // possibly this checkpoint
		b.Keep = append(b.Keep, s.cursor.Best)
	}
	return s.saver.Begin(b)
}

// saveEvaluated saves the state after an evaluation. before is the cursor before the
// evaluation; its best is restored if this checkpoint cannot be written.
func (s *saves) saveEvaluated(before *cursor, full bool) error {
	if err := s.save(full, best{before.Best, before.AtBest}); err != nil {
		return err
	}
	if err := s.move(); err != nil {
		return err
	}
	return s.keepBest()
}

// saveAgain retries the last checkpoint if it failed. The disk may have space again, and
// otherwise all steps since the previous checkpoint would be lost.
func (s *saves) saveAgain() error {
	if s.saver.Last() == s.cursor.Step {
		return nil
	}
	before := best{s.cursor.Best, s.cursor.AtBest}
	if s.failedBest {
		s.cursor.Best, s.cursor.AtBest = s.cursor.Step, s.cursor.Valid
	}
	if err := s.save(true, before); err != nil {
		return err
	}
	if err := s.wait(); err != nil {
		return err
	}
	if s.saver.Last() == s.cursor.Step {
		s.Warn(fmt.Sprintf("the checkpoint of step %d could be written after all, nothing is lost", s.saver.Last()))
	}
	return nil
}

// saveNow writes a checkpoint while no step is under way. asked reports that a user of some
// rank requested it and wants a message.
func (s *saves) saveNow(asked bool) error {
	if asked {
		s.wants.save.Store(true)
	}
	if err := s.save(false, best{}); err != nil {
		return err
	}
	if err := s.move(); err != nil {
		return err
	}
	return s.wait()
}

// keepBest completes the checkpoint of the best epoch before the next step if the job
// replaces ranks from memory: after that step, the remaining ranks could not write it again.
// Jobs without replicas resume from an earlier checkpoint instead.
func (s *saves) keepBest() error {
	if n, _ := s.saver.UnderWay(); !s.saver.Busy() || n != s.cursor.Best || s.opt.Replicas < 2 {
		return nil
	}
	return s.catchUp()
}

// move transfers shards to other owners if that is due with this checkpoint. The new owners
// read them once the checkpoint is written. A job that resumes from it uses the same owners.
func (s *saves) move() error {
	n, owner := s.saver.UnderWay()
	if owner == nil || s.done() {
		return nil
	}
	if err := s.wait(); err != nil || s.saver.Last() != n {
		return err // if the checkpoint failed, shards keep their owners
	}
	was, moved := s.trainer.Store().Shards().Owner(), 0
	for i, r := range owner {
		if was[i] != r {
			moved++
		}
	}
	trains := s.trains
	s.trains = false // a group that is lost before the copies are complete resumes from this checkpoint
	c, fault, err := s.restorable(context.Background(), checkpoint.Dir(filepath.Join(s.runDir, checkpoint.Folder), n), false)
	if err == nil && fault != "" {
		err = errors.New(fault)
	}
	if err == nil {
		c.Watch(s.shown.Advance)
		err = s.trainer.Load(c, owner, s.cursor.Refit.steps(), save.FilledConfig)
	}
	if err != nil {
		return fmt.Errorf("step %d: move shards: %w", n, err)
	}
	s.planned.Owner, s.trains = owner, trains
	s.moved += int64(moved)
	s.Say(fmt.Sprintf("after step %d, %d of %d shards go to other ranks: one rank got more than %.0f %% more requests than the mean", n, moved, layout.Shards, 100*(plan.Tolerated-1)))
	return nil
}

// overdue reports on rank 0 that the last checkpoint is older than the configured interval, or that
// no version can be published before the next one.
func (s *saves) overdue() bool {
	if s.publisher.NeedsCheckpoint() {
		return true
	}
	every := time.Duration(s.config.Train.Checkpoint.EverySeconds * float64(time.Second))
	return s.Comm.Rank() == 0 && every > 0 && time.Since(s.at) >= every
}
