package wdl

import (
	"runtime"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/trace"
)

// held is what checkpoints have cost the steps of this job on this rank.
type held struct {
	longest stopwatch     // that a step was held up by one
	awaited time.Duration // the longest that one was waited for as the next was due
	all     time.Duration // that steps were held up
	beside  time.Duration // of steps while one was taken or written
	steps   int64         // of them
	under   bool          // one is, while the next step is taken
	until   time.Duration // of all steps so far
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

// hold does what a checkpoint holds a step up for, on one thread, whose clock therefore
// tells all of it.
func (j *job) hold(f func() error) error {
	j.rec.Enter(trace.Checkpoint)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	j.watch = stopwatch{}
	j.watch.start()
	err := f()
	j.watch.stop()
	if j.held.all += j.watch.wall; j.watch.wall > j.held.longest.wall {
		j.held.longest = j.watch
	}
	return err
}

// meet is a call of all ranks within hold. The wait for those that come later is none
// for the checkpoint: what made them late would have been waited for at the next
// exchange.
func (j *job) meet(f func() error) error {
	j.watch.stop()
	runtime.UnlockOSThread()
	j.rec.Enter(trace.Wait)
	err := f()
	j.rec.Enter(trace.Checkpoint)
	runtime.LockOSThread()
	j.watch.start()
	return err
}

// count keeps the books of a step that has been taken beside a checkpoint, or not.
func (h *held) count(soFar time.Duration) {
	if h.under {
		h.beside, h.steps = h.beside+soFar-h.until, h.steps+1
	}
	h.until = soFar
}

// writing tells that a checkpoint is being taken or written.
func (j *job) writing() bool {
	if j.pending == nil {
		return false
	}
	select {
	case <-j.pending.done:
		return false
	default:
		return true
	}
}

// report puts into the result what checkpoints cost, on the rank that was held up most.
func (h *held) report(comm *collective.Comm, res *Result) error {
	most := []float64{h.longest.wall.Seconds(), h.awaited.Seconds()}
	if err := collective.AllReduce(comm, most, collective.Max); err != nil {
		return err
	}
	core := []float64{0}
	if h.longest.wall.Seconds() == most[0] {
		core[0] = h.longest.core.Seconds()
	}
	if err := collective.AllReduce(comm, core, collective.Max); err != nil {
		return err
	}
	res.CheckpointStallSeconds, res.CheckpointStallCPUSeconds, res.CheckpointWaitSeconds = most[0], core[0], most[1]
	if h.steps > 0 {
		res.CheckpointStepSeconds = (h.beside + h.all).Seconds() / float64(h.steps)
	}
	return nil
}
