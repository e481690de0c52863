package wdl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/wdl/metrics"
	"github.com/wdlrun/wdlrun/internal/wdl/step"
	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/trace"
)

// pending is a checkpoint under way: the state at a step boundary, taken in turns
// between the steps that follow, or at once where a stream brings none, written by a
// goroutine while training goes on,
// committed by rank 0's when all parts are there, and settled by all ranks at the next
// boundary at which they save, or at the end.
type pending struct {
	root    string
	step    int64
	rank    int
	size    int
	keep    int
	keeper  *checkpoint.Keeper
	since   int64    // the step whose checkpoint this one builds upon, or Full
	protect []string // checkpoints that outlive keep
	place   placement
	owner   []int32 // of shards from this checkpoint on; nil: they stay
	best    int64   // the best epoch's before this one
	atBest  *metrics.Metrics

	part      *part
	file      checkpoint.File
	err       error         // of this rank's part
	written   chan struct{} // closed when both are set
	cancel    context.CancelCauseFunc
	done      chan struct{} // closed when the goroutine has ended
	committed bool          // rank 0: settled already, but for the others to know
	fault     string        // rank 0: of the commit
	warn      func(string)
	say       func(string) // nil: nobody has asked for this one
	then      func()       // rank 0: what follows a commit
}

// errSettled ends the wait of rank 0's goroutine for parts.
var errSettled = errors.New("the checkpoint is being settled")

// start writes a part, and on rank 0 the checkpoint, in the background.
func (p *pending) start() {
	var ctx context.Context
	ctx, p.cancel = context.WithCancelCause(context.Background())
	p.written, p.done = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(p.done)
		p.file, p.err = p.part.write(func() (*checkpoint.Writer, error) {
			return checkpoint.Create(p.root, p.step, p.rank, p.size)
		})
		close(p.written)
		if p.rank != 0 || p.err != nil {
			return
		}
		if files, err := checkpoint.Written(ctx, p.root, p.step, p.size); err == nil {
			p.commit(files)
		}
	}()
}

// commit makes the parts a checkpoint and removes old ones; rank 0 only.
func (p *pending) commit(files []checkpoint.File) {
	p.committed = true
	place, err := json.Marshal(p.place)
	run, err2 := checkpoint.RunID(p.root)
	if err := errors.Join(err, err2); err != nil {
		p.fault = errors.Join(err, checkpoint.Abandon(p.root, p.step)).Error()
		return
	}
	m := checkpoint.Manifest{Step: p.step, Files: files, Run: run, Meta: map[string]json.RawMessage{metaPlacement: place}}
	if p.since != step.Full {
		m.Base = &checkpoint.Link{Step: p.since}
	}
	if err := p.keeper.Commit(p.root, m); err != nil {
		p.fault = errors.Join(err, checkpoint.Abandon(p.root, p.step)).Error()
		return
	}
	if p.then(); p.say != nil {
		p.say(written(p.root, p.step))
	}
	if err := p.keeper.Prune(p.root, p.keep, p.protect...); err != nil {
		p.warn(fmt.Sprintf("old checkpoints could not be removed: %v", err))
	}
}

// written tells who has asked for a checkpoint where it is.
func written(root string, step int64) string {
	return fmt.Sprintf("checkpoint of step %d is written: %s", step, checkpoint.Dir(root, step))
}

// stop waits until nothing of it runs any more; what has not been taken is given up.
func (p *pending) stop() {
	p.part.end(errSettled)
	p.cancel(errSettled)
	<-p.done
}

// partReport is what each rank says of its part of a checkpoint.
type partReport struct {
	File  checkpoint.File
	Fault string
}

// maxReport bounds what ranks tell each other about a checkpoint's part.
const maxReport = 1 << 16

// settle waits for the checkpoint under way, if there is one, and has all ranks know
// what became of it. Where a rank could not write (a full disk), the checkpoint is
// given up, the earlier ones stay and the user is told. err is for the group.
func (j *job) settle() error {
	p := j.pending
	if p == nil {
		return nil
	}
	p.part.finish()
	<-p.written
	var report partReport
	if report.File = p.file; p.err != nil {
		report.Fault = p.err.Error()
	}
	b, err := json.Marshal(report)
	if err != nil {
		return err
	}
	j.rec.Enter(trace.Wait)
	all, err := collective.AllGatherBytes(j.comm, b, maxReport)
	if err != nil {
		return err
	}
	j.rec.Enter(trace.Checkpoint)
	p.stop()
	j.pending = nil
	if p.rank == 0 && !p.committed {
		if err := p.conclude(all); err != nil {
			return err
		}
	}
	j.rec.Enter(trace.Wait)
	verdict, err := collective.BroadcastBytes(j.comm, []byte(p.fault), 0, maxReport)
	if err != nil {
		return err
	}
	j.reportSave(p, string(verdict))
	return nil
}

// conclude commits what the ranks report, or gives it up.
func (p *pending) conclude(reports [][]byte) error {
	var files []checkpoint.File
	for rank, b := range reports {
		var r partReport
		if err := json.Unmarshal(b, &r); err != nil {
			return fmt.Errorf("wdl: checkpoint: report of rank %d: %w", rank, err)
		}
		if r.Fault != "" && p.fault == "" {
			p.fault = fmt.Sprintf("rank %d: %s", rank, r.Fault)
		}
		files = append(files, r.File)
	}
	if p.fault == "" {
		p.commit(files)
	} else if err := checkpoint.Abandon(p.root, p.step); err != nil {
		p.warn(err.Error())
	}
	return nil
}

// reportSave notes how a checkpoint went, and tells the user, from rank 0, if it went
// wrong: once for a step, however often it is tried.
func (j *job) reportSave(p *pending, fault string) {
	if fault == "" {
		j.saved++
		j.lastSaved = p.step
		if j.links++; p.since == step.Full {
			j.links = 0
		}
		j.trainer.Store().Forget(p.step) // what comes builds upon this one
		return
	}
	j.whole = p.since != step.Full // it may be for what it builds upon
	if j.unsavedBest = j.cursor.Best == p.step; j.unsavedBest {
		j.cursor.Best, j.cursor.AtBest = p.best, p.atBest // what cannot be restored is not the best
	}
	if j.failedSave == p.step { // saveAgain has tried once more
		return
	}
	j.failedSave = p.step
	last := "none is written so far"
	if j.lastSaved > 0 {
		last = fmt.Sprintf("the last good one is of step %d", j.lastSaved)
	}
	j.warn(fmt.Sprintf("checkpoint of step %d failed, training continues, %s: %s", p.step, last, fault))
}

// abort lets the goroutine of a checkpoint under way end, in a job that has failed.
func (j *job) abort() {
	if j.pending != nil {
		j.pending.stop()
	}
}

// catchUp settles the checkpoint under way while training waits, and notes the longest.
func (j *job) catchUp() error {
	j.rec.Enter(trace.Checkpoint)
	start := time.Now()
	err := j.settle()
	j.held.awaited = max(j.held.awaited, time.Since(start))
	return err
}

// save begins a checkpoint of the current step with all ranks; training waits for
// the copy of what the next step changes as a whole, and for the checkpoint before if
// that is still being taken or written. A whole one is full; others build upon the one
// before, as long as they may.
func (j *job) save(whole bool) error {
	if err := j.catchUp(); err != nil {
		return err
	}
	err := j.hold(func() error { return j.cut(whole) })
	j.held.under = err == nil
	return err
}

// usual is how long a step takes, on average; 0 before the first.
func (j *job) usual() time.Duration {
	n := j.cursor.Step - j.resumedAt
	if n <= 0 {
		return 0
	}
	return time.Duration(j.stepSeconds() / float64(n) * float64(time.Second))
}

// warm prepares what the first checkpoint would else hold its step up for, by doing what
// a cut does for nothing: memory that is touched for the first time costs more than the
// copy that is put there, a round of the garbage collector that asking for it begins
// more still, and so does what a type takes that is written as JSON for the first time.
func (j *job) warm() error {
	if j.pending != nil { // after a heal: its writer has the drafts, and brings what is not there yet
		return nil
	}
	j.rec.Enter(trace.Build)
	defer j.rec.Enter(trace.Wait)
	for i := range j.drafts {
		j.drafts[i].Reserve(2 * draftBytes)
	}
	w := &j.drafts[0] // that is filled first
	rest, err := j.copy(w, step.Full)
	if err != nil {
		return err
	}
	w.Reset()
	store := j.trainer.Store()
	j.measured.own = store.Loads(nil)
	j.measured.resize(len(j.measured.own))
	return rest.Close()
}

// cut begins a checkpoint; none is under way.
func (j *job) cut(whole bool) error {
	p := &pending{
		root: filepath.Join(j.runDir, checkpoint.Folder), step: j.cursor.Step, since: j.lastSaved,
		rank: j.comm.Rank(), size: j.comm.Size(), keep: j.config.Train.Checkpoint.Keep, keeper: &j.keeper, warn: j.opt.Warn, then: j.commit(),
	}
	if j.wantSave.Load() || j.wantStop.Load() {
		p.say = j.opt.Say
	}
	if whole {
		j.ended = p.step
	}
	if j.slack != nil && j.ended > 0 { // fewer ranks can go on from there alone
		p.protect = append(p.protect, checkpoint.Dir(p.root, j.ended))
	}
	if whole || j.whole || j.lastSaved == 0 || j.lastSaved == p.step || j.links+1 >= j.config.Train.Checkpoint.FullEvery {
		p.since, j.whole = step.Full, false
	}
	var err error
	if p.place, p.owner, err = j.placement(); err != nil {
		return err
	}
	if j.cursor.Best > 0 { // it may be this very one
		p.protect = append(p.protect, checkpoint.Dir(p.root, j.cursor.Best))
	}
	p.part = newPart(&j.drafts, j.usual())
	p.part.advance = j.advance
	p.part.begin(func(w *checkpoint.Draft) (*sparse.Snapshot, error) {
		if err := j.faults.diskFull(p.step); err != nil {
			return nil, err
		}
		return j.copy(w, p.since)
	})
	p.start() // not before: files are made beside the next step
	j.pending = p
	return nil
}
