package report

import (
	"sync/atomic"

	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/rank"
	"github.com/wdlrun/wdlrun/trace"
)

// Status is what other goroutines may see of a job. The zero value shows nothing.
type Status struct {
	reader   atomic.Pointer[data.Reader]
	stood    atomic.Pointer[string] // where the reader of training steps was when it was closed
	progress atomic.Int64           // rows, bytes or pieces of a long phase
	shown    atomic.Pointer[rank.Status]
}

// Show shows what a job says of itself.
func (s *Status) Show(x rank.Status) { s.shown.Store(&x) }

// Advance shows that a long phase gets on, by so much of whatever it counts.
func (s *Status) Advance(by int) { s.progress.Add(int64(by)) }

// Reached shows how far a long phase is.
func (s *Status) Reached(n int64) { s.progress.Store(n) }

// Read shows where a reader is; nil: there is none.
func (s *Status) Read(r *data.Reader) { s.reader.Store(r) }

// Unread shows the reader of training steps no more, but where it was.
func (s *Status) Unread() {
	if r := s.reader.Swap(nil); r != nil {
		at := r.Position()
		s.stood.Store(&at)
	}
}

// Now is the status with the step, phase and input position of this moment.
func (s *Status) Now(rec *trace.Recorder) (x rank.Status) {
	if p := s.shown.Load(); p != nil {
		x = *p
	}
	step, phase, _ := rec.Now()
	x.Step, x.Phase, x.Waits = step, phase.String(), phase.Waits()
	if x.Steps > 0 {
		x.Step = min(step, x.Steps) // the wait for the end of an epoch's input is no step
	}
	x.Progress = s.progress.Load()
	if r := s.reader.Load(); r != nil {
		x.Position = r.Position()
	} else if at := s.stood.Load(); at != nil && phase >= trace.Input && phase <= trace.Update {
		x.Position = *at // of a step that has failed
	}
	return x
}
