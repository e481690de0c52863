package save

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/train/volumes"
	"github.com/wdlrun/wdlrun/trace"
)

// pending is a checkpoint being written. It holds the state after one step. The state is
// copied in turns between the following steps, or at once if a stream has no further step.
// A goroutine writes it while training continues. Rank 0 commits it when all parts are
// written. All ranks complete it at the next boundary at which they save, or at the end.
type pending struct {
	root    string // with the turn
	step    int64
	rank    int
	size    int
	keep    int
	keeper  *checkpoint.Keeper
	since   int64            // step of the checkpoint that this one extends, or Full
	protect func() []int64   // steps whose checkpoints are kept in addition to keep, now
	volumes *volumes.Volumes // nil: all ranks are on one host
	copies  int              // volumes that hold each part
	place   Placement
	owner   []int32 // rank by shard after this checkpoint; nil: unchanged

	rec       *trace.Recorder
	part      *part
	file      checkpoint.File
	err       error         // error of this rank's part
	written   chan struct{} // closed when file and err are set
	cancel    context.CancelCauseFunc
	done      chan struct{} // closed when the goroutine has ended
	committed bool          // rank 0: committed or failed; the other ranks do not know yet
	fault     string        // rank 0: error of the commit
	published bool          // the checkpoint has its name on this volume
	warn      func(string)
	say       func(string) // if not nil, prints the path; the user requested this checkpoint
	then      func()       // rank 0: if not nil, called after the commit
}

// errDecided ends the wait of rank 0's goroutine for parts.
var errDecided = errors.New("the outcome of the checkpoint is being decided")

// start writes this rank's part in the background; rank 0 also commits the checkpoint.
func (p *pending) start() {
	var ctx context.Context
	ctx, p.cancel = context.WithCancelCause(context.Background())
	p.written, p.done = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(p.done)
		defer func(from time.Time) { p.rec.Background(trace.Checkpoint, 1, 0, from, time.Now()) }(time.Now())
		p.file, p.err = p.part.write(func() (*checkpoint.Writer, error) {
			return checkpoint.Create(p.root, p.step, p.rank, p.size)
		})
		close(p.written)
		switch {
		case p.volumes.Several():
			p.completeOnVolumes(ctx)
			return
		case p.volumes != nil:
			p.gather(ctx)
			return
		case p.rank != 0 || p.err != nil:
			return
		}
		if files, err := checkpoint.Written(ctx, p.root, p.step, p.size); err == nil {
			p.commit(files)
		}
	}()
}

// commit makes the parts a checkpoint and, if all ranks share the run directory, removes old
// checkpoints. Only rank 0 calls it.
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
	p.published = true
	if !p.volumes.Several() {
		p.valid()
	}
}

// valid does what follows a valid checkpoint, on rank 0.
func (p *pending) valid() {
	if p.then != nil {
		p.then()
	}
	if p.say != nil {
		p.say(Written(filepath.Dir(filepath.Dir(checkpoint.Dir(p.root, p.step))), p.step))
	}
	if p.volumes.Several() {
		return // see endOnVolume
	}
	if err := p.prune(); err != nil {
		p.warn(fmt.Sprintf("old checkpoints could not be removed: %v", err))
	}
}

// Written returns the message with the path of a checkpoint that the user requested.
func Written(runDir string, step int64) string {
	return fmt.Sprintf("checkpoint of step %d is written: %s", step, checkpoint.Dir(filepath.Join(runDir, checkpoint.Folder), step))
}

// gather commits the checkpoint of hosts that share the run directory. Ranks note their parts as
// in completeOnVolumes. Rank 0 does not look for a part before that: a network file system shows names and
// sizes of some time ago, and for longer to a host that has looked too early.
func (p *pending) gather(ctx context.Context) {
	own := partNote{partReport: partReport{File: p.file}}
	if p.err != nil {
		own.Fault = p.err.Error()
	}
	p.note(notePart, own)
	if p.rank != 0 {
		return
	}
	if files, err := p.parts(ctx); err == nil { // Wait reports errors
		p.commit(files)
	}
}

// stop waits until the goroutine has ended. Tables that were not copied are given up.
func (p *pending) stop() {
	p.part.end(errDecided)
	p.cancel(errDecided)
	<-p.done
}

// partReport is the report of a rank about its part of a checkpoint.
type partReport struct {
	File  checkpoint.File
	Fault string
}

// maxReport is the largest size of a partReport, in bytes.
const maxReport = 1 << 16

// conclude commits the checkpoint if all ranks have written their parts, and abandons it
// otherwise.
func (p *pending) conclude(reports [][]byte) error {
	var files []checkpoint.File
	for rank, b := range reports {
		var r partReport
		if err := json.Unmarshal(b, &r); err != nil {
			return fmt.Errorf("checkpoint: report of rank %d: %w", rank, err)
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
