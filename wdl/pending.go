package wdl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/trace"
)

// maxDraft is the largest part that is copied to be written beside training. The
// copy takes as much memory again; a rank with a larger part writes it in place,
// and training waits.
const maxDraft = 1 << 30

// pending is a checkpoint under way: copied at a step boundary, written by a
// goroutine while training goes on, committed by rank 0's when all parts are there,
// and settled by all ranks at the next boundary at which they save, or at the end.
type pending struct {
	root    string
	step    int64
	rank    int
	size    int
	keep    int
	protect []string // checkpoints that outlive keep
	best    int64    // the best epoch's before this one
	atBest  *Metrics

	file      checkpoint.File
	err       error         // of this rank's part
	written   chan struct{} // closed when both are set
	cancel    context.CancelCauseFunc
	done      chan struct{} // closed when the goroutine has ended
	committed bool          // rank 0: settled already, but for the others to know
	fault     string        // rank 0: of the commit
	warn      func(string)
}

// errSettled ends the wait of rank 0's goroutine for parts.
var errSettled = errors.New("the checkpoint is being settled")

// start writes a part, and on rank 0 the checkpoint, in the background.
func (p *pending) start(write func() (checkpoint.File, error)) {
	var ctx context.Context
	ctx, p.cancel = context.WithCancelCause(context.Background())
	p.written, p.done = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(p.done)
		p.file, p.err = write()
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
	if err := checkpoint.Commit(p.root, checkpoint.Manifest{Step: p.step, Files: files}); err != nil {
		p.fault = errors.Join(err, checkpoint.Abandon(p.root, p.step)).Error()
		return
	}
	if err := checkpoint.Prune(p.root, p.keep, p.protect...); err != nil {
		p.warn(fmt.Sprintf("old checkpoints could not be removed: %v", err))
	}
}

// stop waits until nothing of it runs any more.
func (p *pending) stop() {
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
	<-p.written
	var report partReport
	if report.File = p.file; p.err != nil {
		report.Fault = p.err.Error()
	}
	b, err := json.Marshal(report)
	if err != nil {
		return err
	}
	all, err := collective.AllGatherBytes(j.comm, b, maxReport)
	if err != nil {
		return err
	}
	p.stop()
	j.pending = nil
	if p.rank == 0 && !p.committed {
		if err := p.conclude(all); err != nil {
			return err
		}
	}
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

// reportSave notes how a checkpoint went, and tells the user once, from rank 0, if
// it went wrong.
func (j *job) reportSave(p *pending, fault string) {
	if fault == "" {
		j.lastSaved = p.step
		return
	}
	if j.cursor.Best == p.step {
		j.cursor.Best, j.cursor.AtBest = p.best, p.atBest // what cannot be restored is not the best
	}
	last := "no checkpoint has been written so far"
	if j.lastSaved > 0 {
		last = fmt.Sprintf("the last good one is that of step %d", j.lastSaved)
	}
	j.warn(fmt.Sprintf("checkpoint of step %d failed, training goes on, %s: %s", p.step, last, fault))
}

// abort lets the goroutine of a checkpoint under way end, in a job that has failed.
func (j *job) abort() {
	if j.pending != nil {
		j.pending.stop()
	}
}

// save begins a checkpoint of the current step with all ranks; training waits for
// the copy of its part, and for the checkpoint before if that is still being written.
func (j *job) save() error {
	j.rec.Enter(trace.Checkpoint)
	if err := j.settle(); err != nil {
		return err
	}
	p := &pending{
		root: filepath.Join(j.runDir, checkpoint.Folder), step: j.cursor.Step,
		rank: j.comm.Rank(), size: j.comm.Size(), keep: j.config.Train.Checkpoint.Keep, warn: j.opt.Warn,
	}
	if j.cursor.Best > 0 { // it may be this very one
		p.protect = append(p.protect, checkpoint.Dir(p.root, j.cursor.Best))
	}
	p.start(j.part(p))
	j.pending = p
	return nil
}

// part copies this rank's part of a checkpoint and returns what writes it. A part
// too large for a copy is written at once.
func (j *job) part(p *pending) func() (checkpoint.File, error) {
	if err := j.faults.diskFull(p.step); err != nil {
		return func() (checkpoint.File, error) { return checkpoint.File{}, err }
	}
	if !j.large {
		j.draft.Limit = maxDraft
		j.draft.Reset()
		err := j.write(&j.draft)
		switch {
		case err == nil:
			return func() (checkpoint.File, error) { return p.writePart(j.draft.Write) }
		case !errors.Is(err, checkpoint.ErrLarge):
			return func() (checkpoint.File, error) { return checkpoint.File{}, err }
		}
		j.large, j.draft = true, checkpoint.Draft{}
	}
	file, err := p.writePart(func(w *checkpoint.Writer) error { return j.write(w) })
	return func() (checkpoint.File, error) { return file, err }
}

// writePart writes and closes this rank's part.
func (p *pending) writePart(fill func(*checkpoint.Writer) error) (checkpoint.File, error) {
	w, err := checkpoint.Create(p.root, p.step, p.rank, p.size)
	if err != nil {
		return checkpoint.File{}, err
	}
	if err := fill(w); err != nil {
		w.Discard()
		return checkpoint.File{}, err
	}
	return w.Close()
}
