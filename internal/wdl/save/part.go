package save

import (
	"sync/atomic"
	"time"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/sparse"
)

const (
	// drafts is how many pieces of a part are in memory: while one is written another
	// is filled.
	drafts = 2
	// draftBytes is how large a piece is before it is written, but for what comes in
	// one section.
	draftBytes = 256 << 10
	// turnShare is which share of a step a turn takes at most, but for the section at
	// which it ends: little compared with the step, and a part that takes as long as a step
	// to copy is taken in eight.
	turnShare = 8
)

// part is this rank's part of a checkpoint on its way to its file. What the next step
// changes as a whole is copied at once; tables are taken in turns between the steps
// that follow, shard by shard, each as it was at the step of the checkpoint.
type part struct {
	rest   *sparse.Snapshot       // nil: all is taken
	draft  *checkpoint.Draft      // that is filled, nil: none is free
	full   chan *checkpoint.Draft // to write; closed after the last
	free   chan *checkpoint.Draft // written
	ended  bool                   // full is closed
	fault  error                  // why not all of it came, set before full is closed
	failed atomic.Bool            // nothing more is written
	turned time.Time              // end of the last turn
	usual  time.Duration          // of a step; 0: not known

	advance func(by int) // called for each piece that was written; nil: not
}

func newPart(memory *[drafts]checkpoint.Draft, usual time.Duration) *part {
	x := &part{usual: usual, full: make(chan *checkpoint.Draft, drafts), free: make(chan *checkpoint.Draft, drafts)}
	for i := range memory {
		memory[i].Reset()
		x.free <- &memory[i]
	}
	return x
}

// begin copies what cannot wait.
func (x *part) begin(copy func(w *checkpoint.Draft) (*sparse.Snapshot, error)) {
	x.draft, x.turned = <-x.free, time.Now()
	rest, err := copy(x.draft)
	if err != nil {
		x.end(err)
		return
	}
	x.rest = rest
	x.pass()
}

// pass gives what is filled to the goroutine that writes.
func (x *part) pass() {
	x.full <- x.draft
	x.draft = nil
}

// turn takes some of what is left, in a share of the time since the turn before, but
// of no more than a usual step (an epoch may have begun meanwhile, or been evaluated),
// and reports whether there was any.
func (x *part) turn() bool {
	if x.rest == nil {
		return false
	}
	now := time.Now()
	since := now.Sub(x.turned)
	if x.usual > 0 {
		since = min(since, x.usual)
	}
	x.take(now.Add(since/turnShare), false)
	x.turned = time.Now()
	return true
}

// meanwhile takes what is left until stop is closed, during work that changes nothing of
// it, and that takes no turns.
func (x *part) meanwhile(stop <-chan struct{}) {
	defer func() { x.turned = time.Now() }() // no turn counts the time until here as its own
	for x.rest != nil {
		if x.draft == nil && !x.failed.Load() {
			select {
			case <-stop:
				return
			case x.draft = <-x.free:
			}
		}
		select {
		case <-stop:
			return
		default:
			x.take(time.Time{}, false) // one section
		}
	}
}

// finish takes all that is left.
func (x *part) finish() {
	if x.rest != nil {
		x.take(time.Time{}, true)
	}
}

// take takes sections until a time, or all; a turn does not wait for the disk.
func (x *part) take(until time.Time, all bool) {
	for {
		if x.failed.Load() {
			x.end(nil)
			return
		}
		if x.draft == nil && !x.next(all) {
			return
		}
		more, err := x.rest.Next(x.draft.Section)
		if !more || err != nil {
			x.end(err)
			return
		}
		if x.draft.Size() >= draftBytes {
			x.pass()
		}
		if !all && time.Now().After(until) {
			return
		}
	}
}

// next finds a draft to fill.
func (x *part) next(wait bool) bool {
	select {
	case x.draft = <-x.free:
		return true
	default:
	}
	if wait {
		x.draft = <-x.free
	}
	return wait
}

// end lets the file be closed, or be given up for a fault.
func (x *part) end(fault error) {
	if x.ended {
		return
	}
	x.ended, x.fault = true, fault
	if x.rest != nil {
		if err := x.rest.Close(); fault == nil {
			x.fault = err
		}
		x.rest = nil
	}
	if x.draft != nil {
		x.pass()
	}
	close(x.full)
}

// write writes and closes the file, as it comes.
func (x *part) write(create func() (*checkpoint.Writer, error)) (checkpoint.File, error) {
	w, err := create()
	for d := range x.full {
		if err == nil {
			err = d.Write(w)
		}
		if err != nil {
			x.failed.Store(true)
		} else if x.advance != nil {
			x.advance(1)
		}
		d.Reset()
		x.free <- d
	}
	if err == nil {
		err = x.fault
	}
	switch {
	case err == nil:
		return w.Close()
	case w != nil:
		w.Discard()
	}
	return checkpoint.File{}, err
}
