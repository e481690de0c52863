package save

import (
	"sync/atomic"
	"time"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/sparse"
)

const (
	// buffers is the number of pieces of a part in memory: one is filled while another is
	// written.
	buffers = 2
	// bufferBytes is the size at which a piece is written. A single section may be larger.
	bufferBytes = 256 << 10
	// turnShare limits a turn to 1/turnShare of a step, except for the section that it is
	// copying. Copies then take little of a step; a part whose copy takes as long as a step
	// needs eight steps.
	turnShare = 8
)

// part is this rank's part of a checkpoint while it is being written. State that the next
// step changes as a whole is copied at once. Tables are copied in turns between the
// following steps, shard by shard, each in its state at the step of the checkpoint.
type part struct {
	rest   *sparse.Snapshot        // tables still to copy; nil: none
	buffer *checkpoint.Buffer      // buffer being filled; nil: none is free
	full   chan *checkpoint.Buffer // to write; closed after the last
	free   chan *checkpoint.Buffer // buffers that were written
	ended  bool                    // full is closed
	fault  error                   // why the part is incomplete; set before full is closed
	failed atomic.Bool             // writing failed; nothing more is written
	turned time.Time               // end of the last turn
	usual  time.Duration           // usual time of a step; 0: not known

	advance func(by int) // if not nil, called after each piece was written
}

func newPart(memory *[buffers]checkpoint.Buffer, usual time.Duration) *part {
	x := &part{usual: usual, full: make(chan *checkpoint.Buffer, buffers), free: make(chan *checkpoint.Buffer, buffers)}
	for i := range memory {
		memory[i].Reset()
		x.free <- &memory[i]
	}
	return x
}

// begin copies the state that the next step changes as a whole.
func (x *part) begin(copy func(w *checkpoint.Buffer) (*sparse.Snapshot, error)) {
	x.buffer, x.turned = <-x.free, time.Now()
	rest, err := copy(x.buffer)
	if err != nil {
		x.end(err)
		return
	}
	x.rest = rest
	x.passBuffer()
}

// passBuffer sends the filled buffer to the goroutine that writes.
func (x *part) passBuffer() {
	x.full <- x.buffer
	x.buffer = nil
}

// copySlice copies more of the tables and reports whether any were left. It takes at most
// 1/turnShare of the time since the last turn. That time counts as one usual step at most,
// since an evaluation or the start of an epoch may have come between.
func (x *part) copySlice() bool {
	if x.rest == nil {
		return false
	}
	now := time.Now()
	since := now.Sub(x.turned)
	if x.usual > 0 {
		since = min(since, x.usual)
	}
	x.copySections(now.Add(since/turnShare), false)
	x.turned = time.Now()
	return true
}

// copyInBackground copies tables until stop is closed, while the caller does work that neither
// changes them nor takes turns.
func (x *part) copyInBackground(stop <-chan struct{}) {
	defer func() { x.turned = time.Now() }() // the next turn does not count the time until here
	for x.rest != nil {
		if x.buffer == nil && !x.failed.Load() {
			select {
			case <-stop:
				return
			case x.buffer = <-x.free:
			}
		}
		select {
		case <-stop:
			return
		default:
			x.copySections(time.Time{}, false) // one section
		}
	}
}

// finish copies all tables that are left.
func (x *part) finish() {
	if x.rest != nil {
		x.copySections(time.Time{}, true)
	}
}

// copySections copies sections until a point in time, or all of them. Only with all does it wait
// for the disk.
func (x *part) copySections(until time.Time, all bool) {
	for {
		if x.failed.Load() {
			x.end(nil)
			return
		}
		if x.buffer == nil && !x.next(all) {
			return
		}
		more, err := x.rest.Next(x.buffer.Section)
		if !more || err != nil {
			x.end(err)
			return
		}
		if x.buffer.Size() >= bufferBytes {
			x.passBuffer()
		}
		if !all && time.Now().After(until) {
			return
		}
	}
}

// next gets a buffer to fill, if one is free or after waiting for one.
func (x *part) next(wait bool) bool {
	select {
	case x.buffer = <-x.free:
		return true
	default:
	}
	if wait {
		x.buffer = <-x.free
	}
	return wait
}

// end ends the part. The file is then closed, or removed if there is a fault.
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
	if x.buffer != nil {
		x.passBuffer()
	}
	close(x.full)
}

// write writes the buffers to the file as they arrive, and closes it.
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
