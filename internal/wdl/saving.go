package wdl

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/wdl/layout"
	"github.com/wdlrun/wdlrun/internal/wdl/metrics"
	"github.com/wdlrun/wdlrun/internal/wdl/plan"
	"github.com/wdlrun/wdlrun/internal/wdl/save"
	"github.com/wdlrun/wdlrun/trace"
)

// best is the evaluation that is the best so far.
type best struct {
	step int64 // of its checkpoint, 0 for none
	at   *metrics.Metrics
}

// saves is what a job knows of its checkpoints besides what its Saver does.
type saves struct {
	enough     int64     // save.Setup.Enough
	moved      int64     // shards that have changed hands
	epoch      int64     // step of the last epoch that this job ended
	at         time.Time // when the last checkpoint began
	before     best      // the best evaluation before the one that is being saved
	failedBest bool      // the last checkpoint was to be the best epoch's, and failed
}

// openSaver prepares the checkpoints of this job.
func (j *job) openSaver() {
	j.saver = save.Open(save.Setup{
		Comm: j.comm, Rec: j.rec, Trainer: j.trainer, Config: j.config, Encoder: j.in.Encoded, RunDir: j.runDir,
		Strategies: j.planned.Strategies(), Enough: j.saves.enough,
		Warn: j.opt.Warn, Say: j.opt.Say, Advance: j.shown.Advance, Fault: j.faults.diskFull,
	})
}

// settle waits for the checkpoint under way and keeps the books of it.
func (j *job) settle() error { return j.settled(j.saver.Settle()) }

// catchUp is settle while training waits.
func (j *job) catchUp() error { return j.settled(j.saver.CatchUp()) }

func (j *job) settled(o save.Outcome, err error) error {
	if err == nil && o.Fault != "" {
		if j.saves.failedBest = j.cursor.Best == o.Step; j.saves.failedBest {
			j.cursor.Best, j.cursor.AtBest = j.saves.before.step, j.saves.before.at // what cannot be restored is not the best
		}
	}
	return err
}

// save begins a checkpoint of the current step with all ranks, after the one before. A
// full one builds upon no other. before is the best evaluation if this checkpoint cannot
// be written.
func (j *job) save(full bool, before best) error {
	if err := j.catchUp(); err != nil {
		return err
	}
	if j.saves.before = before; full {
		j.saves.epoch = j.cursor.Step
	}
	b := save.Boundary{
		Step: j.cursor.Step, Cursor: j.cursor, Full: full, Usual: j.report.Usual(j.cursor.Step),
		Announce: j.wants.save.Load() || j.wants.stop.Load(),
	}
	if c := j.cursor.Stream; c != nil {
		b.Then = j.stream.Commit(c.Done, j.opt.Warn)
	}
	if j.slack != nil && j.saves.epoch > 0 { // fewer ranks can resume only there
		b.Keep = append(b.Keep, j.saves.epoch)
	}
	if j.cursor.Best > 0 { // it may be this very one
		b.Keep = append(b.Keep, j.cursor.Best)
	}
	return j.saver.Begin(b)
}

// saveEvaluated saves what was evaluated. before is the cursor from before the
// evaluation, whose best is the best again if this checkpoint cannot be written.
func (j *job) saveEvaluated(before *cursor, full bool) error {
	if err := j.save(full, best{before.Best, before.AtBest}); err != nil {
		return err
	}
	if err := j.move(); err != nil {
		return err
	}
	return j.keepBest()
}

// saveAgain tries once more to write the last checkpoint if that failed: the disk may
// have room again, and all that was trained since the one before would have to be
// trained again.
func (j *job) saveAgain() error {
	if j.saver.Last() == j.cursor.Step {
		return nil
	}
	before := best{j.cursor.Best, j.cursor.AtBest}
	if j.saves.failedBest {
		j.cursor.Best, j.cursor.AtBest = j.cursor.Step, j.cursor.Valid
	}
	if err := j.save(true, before); err != nil {
		return err
	}
	if err := j.settle(); err != nil {
		return err
	}
	if j.saver.Last() == j.cursor.Step {
		j.warn(fmt.Sprintf("the checkpoint of step %d could be written after all, nothing is lost", j.saver.Last()))
	}
	return nil
}

// saveNow writes a checkpoint while no step is under way; asked reports that a user
// wants to hear of it, on whichever rank.
func (j *job) saveNow(asked bool) error {
	if asked {
		j.wants.save.Store(true)
	}
	if err := j.save(false, best{}); err != nil {
		return err
	}
	if err := j.move(); err != nil {
		return err
	}
	return j.settle()
}

// keepBest settles the checkpoint of an epoch that is the best so far before the next
// step, in a job that replaces ranks from memory: after that step the ranks that are
// left could not write it again. (Others go back to a checkpoint before it.)
func (j *job) keepBest() error {
	if n, _ := j.saver.UnderWay(); !j.saver.Busy() || n != j.cursor.Best || j.opt.Replicas < 2 {
		return nil
	}
	return j.catchUp()
}

// move gives shards to other owners at a checkpoint that is due for it: they read it
// as soon as it is written. A job that resumes from it gives them to the same.
func (j *job) move() error {
	n, owner := j.saver.UnderWay()
	if owner == nil || j.done() {
		return nil
	}
	if err := j.settle(); err != nil || j.saver.Last() != n {
		return err // what could not be written stays where it is
	}
	was, moved := j.trainer.Store().Owner(), 0
	for i, r := range owner {
		if was[i] != r {
			moved++
		}
	}
	j.rec.Enter(trace.Restore)
	trains := j.losses.trains
	j.losses.trains = false // a group that is lost before copies are whole again goes back to this checkpoint
	c, err := checkpoint.Open(checkpoint.Dir(filepath.Join(j.runDir, checkpoint.Folder), n))
	if err == nil {
		c.Watch(j.shown.Advance)
		err = j.trainer.Load(c, owner)
	}
	if err != nil {
		return fmt.Errorf("wdl: step %d: shards change hands: %w", n, err)
	}
	j.planned.Owner, j.losses.trains = owner, trains
	j.saves.moved += int64(moved)
	j.say(fmt.Sprintf("after step %d %d of %d shards go to other ranks, as one was asked for more than %.0f %% above the mean", n, moved, layout.Shards, 100*(plan.Tolerated-1)))
	return nil
}
