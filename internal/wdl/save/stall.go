package save

import (
	"runtime"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/trace"
)

// costs is what checkpoints have cost the steps of a training on this rank.
type costs struct {
	longest stopwatch     // that a step was held up by one
	awaited time.Duration // the longest that one was waited for as the next was due
	all     time.Duration // that steps were held up
	during  time.Duration // of steps while one was taken or written
	steps   int64         // of them
	under   bool          // one is, while the next step is taken
	until   time.Duration // of all steps so far
	now     stopwatch     // of what is held up now
}

// stopwatch takes the time of what a goroutine does, and for how much of it its thread
// had a core: what is missing there the system has given to others, the job's own
// goroutines among them.
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
		w.core += d // nothing is known
	}
}

func now() (at time.Time, thread int, had time.Duration) {
	thread, had = threadTime()
	return time.Now(), thread, had
}

// noThread says that the time of threads is not known here.
const noThread = -1

// delay does what a checkpoint delays a step for, on one thread, whose clock therefore
// shows all of it.
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

// meet is a call of all ranks within delay. The wait for those that come later is none
// for the checkpoint: what made them late would have been waited for at the next
// exchange.
func (s *Saver) meet(f func() error) error {
	s.costs.now.stop()
	runtime.UnlockOSThread()
	s.Rec.Enter(trace.Wait)
	err := f()
	s.Rec.Enter(trace.Checkpoint)
	runtime.LockOSThread()
	s.costs.now.start()
	return err
}

// count keeps the books of a step that has been taken during a checkpoint, or not.
func (h *costs) count(soFar time.Duration) {
	if h.under {
		h.during, h.steps = h.during+soFar-h.until, h.steps+1
	}
	h.until = soFar
}

// Costs are the checkpoints written, for how long a step was held up by one of them at
// most, on any rank, and for how much of that its thread had a core; the mean time of the
// steps during which one was taken or written, with their delay; and for how
// long training waited for one because the next was due.
type Costs struct {
	Checkpoints               int     `json:"checkpoints"`
	CheckpointStallSeconds    float64 `json:"checkpoint_stall_seconds"`
	CheckpointStallCPUSeconds float64 `json:"checkpoint_stall_cpu_seconds"`
	CheckpointStepSeconds     float64 `json:"checkpoint_step_seconds,omitempty"`
	CheckpointWaitSeconds     float64 `json:"checkpoint_wait_seconds"`
}

// Costs returns what checkpoints cost, on the rank that was held up most.
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
