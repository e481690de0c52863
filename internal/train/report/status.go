package report

import (
	"sync/atomic"

	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/rank"
	"github.com/wdlrun/wdlrun/trace"
)

// Status is the state of a job that other goroutines may read. The zero value is empty.
type Status struct {
	reader   atomic.Pointer[data.Reader]
	stood    atomic.Pointer[string] // position of the reader of training steps when it was closed
	progress atomic.Int64           // rows, bytes or pieces of a long phase
	shown    atomic.Pointer[rank.Status]
	part     atomic.Pointer[Status] // shown in its place; nil: none
}

// Show sets the status.
func (s *Status) Show(x rank.Status) { s.shown.Store(&x) }

// Advance adds progress of a long phase, in rows, bytes or pieces.
func (s *Status) Advance(by int) { s.progress.Add(int64(by)) }

// Reached sets the progress of a long phase.
func (s *Status) Reached(n int64) { s.progress.Store(n) }

// During makes the progress and the reader of a part of the job visible; nil: those of the job.
func (s *Status) During(part *Status) { s.part.Store(part) }

// Read sets the reader whose position is shown; nil: none.
func (s *Status) Read(r *data.Reader) { s.reader.Store(r) }

// Unread keeps the position of the reader of training steps and releases the reader.
func (s *Status) Unread() {
	if r := s.reader.Swap(nil); r != nil {
		at := r.Position()
		s.stood.Store(&at)
	}
}

// Now returns the status with the current step, phase and input position.
func (s *Status) Now(rec *trace.Recorder) (x rank.Status) {
	if p := s.shown.Load(); p != nil {
		x = *p
	}
	step, phase, _ := rec.Now()
	x.Step, x.Phase, x.Waits = step, phase.String(), phase.Waits()
	if x.Steps > 0 {
		x.Step = min(step, x.Steps) // waiting for the end of an epoch's input is not a step
	}
	at := s
	if part := s.part.Load(); part != nil {
		at = part
	}
	x.Progress = at.progress.Load()
	if r := at.reader.Load(); r != nil {
		x.Position = r.Position()
	} else if at := s.stood.Load(); at != nil && phase >= trace.Input && phase <= trace.Update {
		x.Position = *at // position of a step that has failed
	}
	return x
}
