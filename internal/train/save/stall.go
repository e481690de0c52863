package save

import (
	"runtime"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/trace"
)

// costs measures the time that checkpoints take from the steps of a training on this rank.
type costs struct {
	longest stopwatch     // longest delay of a step by a checkpoint
	awaited time.Duration // longest wait for a checkpoint because the next was due
	all     time.Duration // total delay of steps
	during  time.Duration // time of steps during a checkpoint
	steps   int64         // number of these steps
	under   bool          // a checkpoint continues during the next step
	until   time.Duration // time of all steps so far
	now     stopwatch     // current delay
}

// stopwatch measures the elapsed time of an activity, and for how much of it the
// goroutine's thread had a core. In the rest, the system ran other threads, including those
// of this job.
type stopwatch struct {
	wall, core time.Duration
	began      time.Time
	thread     int
	had        time.Duration
}

func (w *stopwatch) start() { w.began, w.thread, w.had = now() }

func (w *stopwatch) stop() {
	at, thread, had := now()
	d := at.Sub(w.began)
	if w.wall += d; thread == w.thread && thread != noThread {
		w.core += min(had-w.had, d)
	} else {
		w.core += d // the thread's time is not known
	}
}

func now() (at time.Time, thread int, had time.Duration) {
	thread, had = threadTime()
	return time.Now(), thread, had
}

// noThread is returned as the thread if its time is not available.
const noThread = -1

// delay calls f, which delays a step, on one thread, so that the thread's clock measures
// all of it.
func (s *Saver) delay(f func() error) error {
	s.Rec.Enter(trace.Checkpoint)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c := &s.costs
	c.now = stopwatch{}
	c.now.start()
	err := f()
	c.now.stop()
	if c.all += c.now.wall; c.now.wall > c.longest.wall {
		c.longest = c.now
	}
	return err
}

// callWithinDelay makes a collective call within delay. It excludes the wait for later ranks from the
// cost of the checkpoint: training would wait for them at the next exchange anyway.
func (s *Saver) callWithinDelay(f func() error) error {
	s.costs.now.stop()
	runtime.UnlockOSThread()
	s.Rec.Enter(trace.Wait)
	err := f()
	s.Rec.Enter(trace.Checkpoint)
	runtime.LockOSThread()
	s.costs.now.start()
	return err
}

// count adds a step to the costs if a checkpoint continued during it.
func (h *costs) count(soFar time.Duration) {
	if h.under {
		h.during, h.steps = h.during+soFar-h.until, h.steps+1
	}
	h.until = soFar
}

// Costs is the cost of the checkpoints of a training.
type Costs struct {
	Checkpoints               int     `json:"checkpoints"`
	CheckpointStallSeconds    float64 `json:"checkpoint_stall_seconds"`          // longest delay of a step on any rank
	CheckpointStallCPUSeconds float64 `json:"checkpoint_stall_cpu_seconds"`      // part of this delay in which the thread had a core
	CheckpointStepSeconds     float64 `json:"checkpoint_step_seconds,omitempty"` // mean time of a step during a checkpoint, with its delay, on this rank
	CheckpointWaitSeconds     float64 `json:"checkpoint_wait_seconds"`           // longest wait on any rank for a checkpoint because the next was due
}

// Costs returns the cost of checkpoints. All ranks call it.
func (s *Saver) Costs() (c Costs, err error) {
	h, comm := &s.costs, s.Comm
	most := []float64{h.longest.wall.Seconds(), h.awaited.Seconds()}
	if err := collective.AllReduce(comm, most, collective.Max); err != nil {
		return c, err
	}
	core := []float64{0}
	if h.longest.wall.Seconds() == most[0] {
		core[0] = h.longest.core.Seconds()
	}
	if err := collective.AllReduce(comm, core, collective.Max); err != nil {
		return c, err
	}
	c = Costs{Checkpoints: s.saved, CheckpointStallSeconds: most[0], CheckpointStallCPUSeconds: core[0], CheckpointWaitSeconds: most[1]}
	if h.steps > 0 {
		c.CheckpointStepSeconds = (h.during + h.all).Seconds() / float64(h.steps)
	}
	return c, nil
}
