package train

import (
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/train/save"
	"github.com/wdlrun/wdlrun/trace"
)

// Job is a training job on one rank of a group. Run trains; the other methods may be called
// from any goroutine while Run is running.
type Job struct {
	job
}

type job struct {
	run
	saves      saves
	validation validation
	spans      spans
	healing    healing

	batches  batchSource      // feeds the steps of an epoch
	tolerant *tolerantBatches // nil: steps wait for all ranks
	orders   orders

	renewed bool // evaluations of the checkpoint do not count, because data or metric have changed
}

// NewJob prepares a job on a group.
func NewJob(comm *collective.Comm, rec *trace.Recorder, opt Options) *Job {
	j := &Job{}
	r := &j.run
	r.init(comm, rec, opt)
	j.saves = saves{run: r, enough: save.EnoughKeys}
	j.validation = validation{run: r, saves: &j.saves}
	j.spans = spans{run: r, saves: &j.saves, validation: &j.validation}
	j.healing = healing{run: r, saves: &j.saves}
	j.report.Show(opt.Board)
	j.report.Follow(opt.Events)
	return j
}

// UseMemory makes Run resume from the memory of this process's job in the previous generation of
// the group; nil: none.
func (j *Job) UseMemory(m *Memory) { j.healing.memory = m }

// RequestCheckpoint requests a checkpoint at the end of the current step.
func (j *Job) RequestCheckpoint() { j.wants.save.Store(true) }

// RequestStop requests a checkpoint and the end of the job on all ranks after the current
// step.
func (j *Job) RequestStop() { j.wants.stop.Store(true) }

// RequestTimeline requests that this rank write its timeline so far after the current step.
func (j *Job) RequestTimeline() { j.wants.timeline.Store(true) }

// LastSteps writes the last steps of this rank's timeline after Run has failed.
func (j *Job) LastSteps() error { return j.report.WriteTimeline(lastSpans) }

// lastSpans is the number of spans that LastSteps writes: about a thousand steps.
const lastSpans = 10_000

// Starting reports whether the first step has not begun.
func (j *Job) Starting() bool {
	_, phase, _ := j.Rec.Now()
	return phase < trace.Input
}

// TakeMemory returns the state that the next job needs from a job whose Run has failed. It ends
// calls in which other goroutines may still wait. The job must not be used afterwards.
func (j *Job) TakeMemory(cause error) *Memory {
	j.Comm.Abort(cause)
	j.closeJudged()
	m, t := &Memory{was: &j.healing}, j.trainer
	if before := j.healing.memory; !j.trains && before != nil && before.left != nil {
		if t != nil {
			t.Leave()
		}
		return before // another rank was lost before this job held the whole state
	}
	if !j.trains {
		j.close()
		return m
	}
	m.left = t.Leave()
	return m
}

// close releases the resources of the job.
func (j *job) close() {
	j.in.CloseFeed()
	if j.trainer != nil {
		j.trainer.Close()
	}
	j.closeJudged()
	j.turn.Close()
}

// closeJudged frees the model of the source.
func (j *job) closeJudged() {
	if j.judged != nil {
		j.judged.Close()
		j.judged = nil
	}
}
