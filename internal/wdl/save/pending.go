package save

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/wdl/step"
)

// pending is a checkpoint under way: the state at a step boundary, taken in turns
// between the steps that follow, or at once where a stream brings none, written by a
// goroutine while training continues, committed by rank 0's when all parts are there, and settled by all ranks at the next
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
	place   Placement
	owner   []int32 // of shards from this checkpoint on; nil: they stay

	part      *part
	file      checkpoint.File
	err       error         // of this rank's part
	written   chan struct{} // closed when both are set
	cancel    context.CancelCauseFunc
	done      chan struct{} // closed when the goroutine has ended
	committed bool          // rank 0: settled already, but for the others to know
	fault     string        // rank 0: of the commit
	warn      func(string)
	say       func(string) // nil: the user has not asked for this one
	then      func()       // rank 0: what follows a commit; nil: nothing
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
	if p.then != nil {
		p.then()
	}
	if p.say != nil {
		p.say(Written(filepath.Dir(p.root), p.step))
	}
	if err := p.keeper.Prune(p.root, p.keep, p.protect...); err != nil {
		p.warn(fmt.Sprintf("old checkpoints could not be removed: %v", err))
	}
}

// Written tells the user who has asked for a checkpoint where it is.
func Written(runDir string, step int64) string {
	return fmt.Sprintf("checkpoint of step %d is written: %s", step, checkpoint.Dir(filepath.Join(runDir, checkpoint.Folder), step))
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

// maxReport bounds what ranks send each other about a checkpoint's part.
const maxReport = 1 << 16

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
