package wdl

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/chaos"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/live"
	"github.com/wdlrun/wdlrun/internal/wdl/config"
	"github.com/wdlrun/wdlrun/internal/wdl/input"
	"github.com/wdlrun/wdlrun/internal/wdl/layout"
	"github.com/wdlrun/wdlrun/internal/wdl/report"
	"github.com/wdlrun/wdlrun/internal/wdl/save"
	"github.com/wdlrun/wdlrun/internal/wdl/slots"
	"github.com/wdlrun/wdlrun/internal/wdl/step"
	"github.com/wdlrun/wdlrun/rank"
	"github.com/wdlrun/wdlrun/trace"
)

// Options are the options of a training job. Rank 0 sends its options to the other ranks.
type Options struct {
	Config *config.Config    // nil: the checkpoint's when resuming, else config.Default
	Set    []string          // settings that override the configuration's, "train.seed=7"
	Out    string            // folder in which the run directory is made, default "runs"
	Resume string            // run directory or checkpoint to resume from
	Read   bool              // Check has verified the checkpoint that Resume names
	Again  string            // run directory of an earlier generation of this job: the job resumes from its last checkpoint or restarts in it
	Job    string            // identity of the job, the same in all its generations, stored in a new run directory; "": unknown
	Began  func()            // called when Status has the run directory, once or more; may be nil
	Warn   func(line string) // prints a warning of one line; nil: silent
	Say    func(line string) // prints a line of progress; nil: silent

	Replay    string            // run directory whose steps are repeated with the microbatches that counted in them
	Tolerance step.Tolerance    // treatment of slow ranks
	Hosts     []string          // host of each rank, for messages and the placement of copies; nil: unknown
	Addresses map[string]string // address of the ranks of each host; nil if there is one host
	Chaos     chaos.Spec        // injected faults; train.seed is the seed of random ones
	Survey    string            // folder of surveys shared by trainings of the same data; "": none
	Here      int               // number of ranks on this machine, for Check
	Devices   Devices           // GPUs of this machine; nil: the build does not support GPUs
	OnGPU     []string          // given flags that only affect GPUs
	Kill      func()            // ends this process at once, for Chaos; nil: kill faults are rejected
	Board     *live.Board       // dashboard of the job, on rank 0; may be nil
	Events    bool              // rank 0 writes event files of TensorBoard into the run directory
	About     save.About        // written to the run directory, with Hosts, unless its version is empty

	Replicas int     // ranks that hold each shard; 0 and 1: only its owner. It must be the same on all ranks
	Memory   *Memory // memory of this process's job in the previous generation; nil: none
}

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

	rounds   rounds         // feeds the steps of an epoch
	slack    *slack         // nil: steps wait for all ranks
	script   []slots.Record // steps of the run that is repeated; nil: none
	surveyed bool           // the survey of another training was used
	changed  []string       // settings that affect steps and differ from the checkpoint's; on rank 0
}

// NewJob prepares a job on a group.
func NewJob(comm *collective.Comm, rec *trace.Recorder, opt Options) *Job {
	if opt.Out == "" {
		opt.Out = "runs"
	}
	if opt.Warn == nil {
		opt.Warn = func(string) {}
	}
	if opt.Began == nil {
		opt.Began = func() {}
	}
	if opt.Say == nil {
		opt.Say = func(string) {}
	}
	j := &Job{job{run: run{comm: comm, rec: rec, opt: opt, report: report.New(comm, rec, opt.Warn), began: time.Now()}}}
	j.faults.held = new(atomic.Int64)
	r := &j.run
	j.saves = saves{run: r, enough: save.EnoughKeys}
	j.validation = validation{run: r, saves: &j.saves}
	j.spans = spans{run: r, saves: &j.saves, validation: &j.validation}
	j.healing = healing{run: r, saves: &j.saves}
	j.report.Show(opt.Board)
	j.report.Follow(opt.Events)
	return j
}

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

// Status returns the activity of the rank for heartbeats.
func (j *Job) Status() rank.Status { return j.shown.Now(j.rec) }

// Starting reports whether the first step has not begun.
func (j *Job) Starting() bool {
	_, phase, _ := j.rec.Now()
	return phase < trace.Input
}

// Run trains, evaluates and writes all results to the run directory. All ranks return the
// same result or an error.
//
// With replicas, call Leave after an error.
func (j *Job) Run(ctx context.Context) (_ report.Result, err error) {
	defer func() {
		if err == nil || j.opt.Replicas < 2 {
			j.close()
		}
	}()
	defer func() { j.saves.saver.Stop() }()
	j.comm.Watch(j.rec.Exchange)
	left, err := j.healing.gather()
	if err != nil {
		return report.Result{}, err
	}
	if left.Leader < 0 {
		err = j.start(ctx)
	} else {
		err = j.healing.heal(left)
	}
	if err != nil {
		return report.Result{}, err
	}
	j.announce()
	j.faults.hold(j.trainer)
	if err := j.saves.saver.Warm(j.cursor); err != nil {
		return report.Result{}, err
	}
	if err := j.saves.publish(ctx); err != nil {
		return report.Result{}, err
	}
	defer func() { j.saves.publisher.Stop() }()
	if err := j.tolerate(); err != nil {
		return report.Result{}, err
	}
	defer j.slack.end()
	j.rounds = j.chooseRounds()
	defer func() { j.stream.Close() }()
	if j.comm.Rank() == 0 {
		j.advise()
	}
	j.report.Open(j.runDir, j.config.YAML(), j.opt.Hosts, j.cursor.Step, j.effort())
	defer j.report.Close()
	stopped, err := j.loop(ctx)
	if err != nil {
		return report.Result{}, err
	}
	j.leaveDevices()
	return j.finish(ctx, stopped)
}

// start starts a training or resumes it from a checkpoint.
func (j *job) start(ctx context.Context) error {
	from, err := j.briefing(ctx)
	if err != nil {
		return permanentAtStart(err)
	}
	j.announce()
	if err := j.prepare(ctx, from); err != nil {
		return permanentAtStart(err)
	}
	j.saves.at = time.Now()
	j.report.Begin(report.Since{Samples: j.cursor.Samples, Step: j.cursor.Step, Totals: j.rec.Totals()})
	j.trains = j.opt.Replicas > 1
	if from == nil || j.done() {
		return nil
	}
	j.say("training resumes " + j.at())
	if j.comm.Rank() == 0 {
		return keepConfig(j.runDir, j.config)
	}
	return nil
}

// close releases the resources of the job.
func (j *job) close() {
	j.in.CloseFeed()
	if j.trainer != nil {
		j.trainer.Close()
	}
	if j.unlock != nil {
		j.unlock()
	}
}

// survey reads the training data once and fits the features, or restores them from a
// checkpoint or another training.
func (j *job) survey(ctx context.Context, from *checkpoint.Checkpoint) (err error) {
	j.rec.Enter(trace.Scan)
	if j.in, err = input.Open(j.inputSetup()); err != nil {
		return err
	}
	if err := j.in.Agree(); err != nil {
		return err
	}
	var encoded []byte
	if from != nil {
		if encoded, err = save.Read(from, save.SectionEncoder); err != nil {
			return err
		}
	}
	if j.surveyed, err = j.recall(encoded); err != nil || j.surveyed {
		return err
	}
	return j.in.Survey(ctx, encoded)
}

// recall loads the survey that another training of the same data has saved.
func (j *job) recall(encoded []byte) (found bool, err error) {
	if j.opt.Survey == "" || !input.Shareable(j.config) {
		return false, nil
	}
	return j.in.Recall(filepath.Join(j.opt.Survey, input.SurveyName(j.config)), encoded)
}

// keepSurvey saves the survey for other trainings. If that fails, it warns.
func (j *job) keepSurvey() {
	if j.opt.Survey == "" || j.surveyed || j.comm.Rank() != 0 || !input.Shareable(j.config) {
		return
	}
	if err := j.in.SaveSurvey(filepath.Join(j.opt.Survey, input.SurveyName(j.config))); err != nil {
		j.warn(fmt.Sprintf("other trainings must scan the data again: %v", err))
	}
}

// prepare surveys the data, makes the model and loads the checkpoint.
func (j *job) prepare(ctx context.Context, from *checkpoint.Checkpoint) (err error) {
	if err := j.survey(ctx, from); err != nil {
		return err
	}
	if err := j.startCursor(); err != nil {
		return err
	}
	if from == nil && j.eval == nil && j.in.Train != nil && j.opt.Tolerance.Off() {
		if _, err := j.in.Feed(j.cursor.in()); err != nil { // reads ahead while other data is counted and the model is made
			return err
		}
	}
	if !j.surveyed {
		if err := j.in.SurveyOthers(ctx); err != nil {
			return err
		}
		j.keepSurvey()
	}
	if j.eval == nil {
		if err := j.plan(ctx, from); err != nil {
			return err
		}
	}
	if j.trainer, err = j.newTrainer(nil); err != nil {
		return err
	}
	if j.opt.Replicas > 1 {
		err = j.trainer.Replicate(j.healing.ring)
	}
	if j.eval == nil {
		j.saves.open()
	}
	if from != nil && err == nil {
		err = j.load(from)
	}
	if err == nil {
		err = j.spans.open()
	}
	j.rec.Enter(trace.Wait)
	return err
}

// startCursor sets the cursor of a new training.
func (j *job) startCursor() error {
	j.cursor = cursor{Order: data.Order}
	if j.in.Train == nil {
		return nil // a stream
	}
	j.cursor.Rows, j.cursor.Data = j.in.Train.Rows(data.Train), j.in.Train.Fingerprint()
	if j.cursor.Rows == 0 {
		return errors.New("all rows of the training data are held out; none is left to train on")
	}
	n, ones := j.cursor.Rows, j.in.Train.TrainPositives()
	switch {
	case j.eval != nil || j.config.Label.IsNumber():
	case ones == 0:
		return fmt.Errorf("none of the %d training rows has the label 1, %s; the values that are there: wdlrun data show FILE", n, input.LabelRule(&j.config.Label))
	case ones == n:
		return fmt.Errorf("all %d training rows have the label 1, %s; the values that are there: wdlrun data show FILE", n, input.LabelRule(&j.config.Label))
	}
	return nil
}

// advise warns of settings that are valid but probably not intended.
func (j *job) advise() {
	if _, line := report.Rates(j.config.Train, j.comm.Size()); !j.done() {
		j.opt.Say(line)
	}
	for i, t := range j.config.Tables {
		if n := t.Evict.MaxRows; n > 0 && n < layout.Shards {
			j.opt.Warn(fmt.Sprintf("tables[%d].evict.max_rows: %d counts as %d for table %s, one row in each of its shards: give at least as many", i, n, layout.Shards, t.Name))
		}
	}
	for i, t := range j.planned.Tables {
		j.report.Crowded(j.config, i, t.Name, t.TierLeast)
	}
	if j.stream != nil {
		return
	}
	if s := j.config.Train.Schedule; s.Warmup >= j.total() && !j.done() {
		j.opt.Warn(fmt.Sprintf("the learning rate never reaches its full value: train.schedule.warmup is %d steps, the training has %d", s.Warmup, j.total()))
	}
}
