package wdl

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/data"
	"github.com/wdlrun/wdlrun/rank"
	"github.com/wdlrun/wdlrun/rank/chaos"
	"github.com/wdlrun/wdlrun/trace"
	"github.com/wdlrun/wdlrun/wdl/config"
)

// Options say what a training job does. Rank 0's count: it tells the others.
type Options struct {
	Config *config.Config    // nil: the checkpoint's when resuming, else config.Default
	Set    []string          // settings that replace the configuration's, "train.seed=7"
	Out    string            // where the run directory is made, default "runs"
	Resume string            // run directory or checkpoint to continue from
	Again  string            // run directory that an earlier generation of this job made: goes on from its last checkpoint, or begins anew in it
	Began  func()            // is called when Status first tells the run directory; nil: nobody asks
	Warn   func(line string) // tells the user of something that went wrong, one line; nil: silent
	Say    func(line string) // tells the user how training gets on, a line an epoch; nil: silent

	Replay    string     // run directory whose steps to repeat with the microbatches that counted then
	Tolerance Tolerance  // of slow ranks
	Chaos     chaos.Spec // faults on purpose; train.seed draws what it leaves open
	Kill      func()     // ends this process at once, for chaos; nil: kill is refused
	Failures  int        // of this job before, each by one of chaos' kills
}

// Result is what a finished job reports, and the JSON line of `wdlrun train
// --json`. Steps and Samples count from the very start of training, Seconds and
// SamplesPerSecond this job alone, the latter only the time in training steps.
type Result struct {
	WorldSize        int           `json:"world_size"`
	Steps            int64         `json:"steps"`
	Samples          int64         `json:"samples"`
	Seconds          float64       `json:"seconds"`
	SamplesPerSecond float64       `json:"samples_per_second"`
	InputWaitShare   float64       `json:"input_wait_share"` // of the time in steps, mean of the ranks
	TrainLogLoss     float64       `json:"train_logloss"`    // over the last epoch, while it was trained
	TestAUC          *float64      `json:"test_auc"`         // null without test data
	TestLogLoss      *float64      `json:"test_logloss"`
	TestAccuracy     *float64      `json:"test_accuracy"`
	ValidAUC         *float64      `json:"valid_auc,omitempty"` // of the epoch that the result is of
	ValidLogLoss     *float64      `json:"valid_logloss,omitempty"`
	BestEpoch        int           `json:"best_epoch,omitempty"` // that early stopping restored
	Tables           []TableReport `json:"tables"`
	SparseBytesSent  int64         `json:"sparse_bytes_sent"` // of all ranks: keys, rows and gradients
	RunDir           string        `json:"run_dir"`
	Checkpoint       string        `json:"checkpoint"`        // of the model; empty if it could not be written
	Stopped          bool          `json:"stopped,omitempty"` // on request, before the end; resume continues

	// Test values that the vocabulary of a feature does not hold.
	TestUnknown map[string]int64 `json:"test_unknown,omitempty"`
}

// Job is one rank's share of a training job. Run does the work; the other
// methods may be called from any goroutine meanwhile.
type Job struct {
	job
}

type job struct {
	comm *collective.Comm
	rec  *trace.Recorder
	opt  Options
	eval *EvalOptions // not nil: this is an evaluation and writes nothing

	config *config.Config
	runDir string
	inputs
	encoder *data.Encoder
	encoded []byte // the encoder as it is kept in checkpoints
	trainer *Trainer
	metrics *metricsLog
	faults  faults
	slack   *slack // nil: steps wait for all ranks

	cursor    cursor
	lastSaved int64    // step of the last good checkpoint
	pending   *pending // the one under way, nil for none
	draft     checkpoint.Draft
	large     bool      // this rank's part does not fit a draft
	savedAt   time.Time // when it was written
	began     time.Time // start of this job
	resumed   int64     // samples trained on before this job
	shownAt   time.Time // when show last told of a step
	unlock    func()    // gives the run directory back; rank 0
	shown     display

	wantSave, wantStop atomic.Bool // wishes of the outside
}

// display is what other goroutines may see of a job.
type display struct {
	reader   atomic.Pointer[data.Reader]
	progress atomic.Int64 // rows or bytes of a long phase
	status   atomic.Pointer[rank.Status]
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
	j := &Job{job{comm: comm, rec: rec, opt: opt, began: time.Now()}}
	j.shown.status.Store(&rank.Status{})
	return j
}

// RequestCheckpoint asks for a checkpoint at the end of the current step.
func (j *Job) RequestCheckpoint() { j.wantSave.Store(true) }

// RequestStop asks for a checkpoint and the end of the job after the current
// step, on all ranks.
func (j *Job) RequestStop() { j.wantStop.Store(true) }

// Status says what the rank is doing, for heartbeats.
func (j *Job) Status() rank.Status {
	s := *j.shown.status.Load()
	step, phase, _ := j.rec.Now()
	s.Step, s.Phase, s.Waits = step, phase.String(), phase.Waits()
	if s.Steps > 0 {
		s.Step = min(step, s.Steps) // the wait for the end of an epoch's input is no step
	}
	s.Progress = j.shown.progress.Load()
	if r := j.shown.reader.Load(); r != nil {
		s.Position = r.Position()
	}
	return s
}

// Run trains, evaluates and leaves everything in the run directory. All ranks
// return the same result, or an error each.
func (j *Job) Run(ctx context.Context) (Result, error) {
	from, err := j.briefing(ctx)
	if j.unlock != nil {
		defer j.unlock()
	}
	if err != nil {
		return Result{}, err
	}
	j.shown.status.Store(&rank.Status{RunDir: j.runDir})
	j.opt.Began()
	if err := j.prepare(ctx, from); err != nil {
		return Result{}, err
	}
	defer j.trainer.Close()
	j.faults.hold(j.trainer)
	if err := j.tolerate(); err != nil {
		return Result{}, err
	}
	defer j.slack.close()
	defer j.abort()
	if j.comm.Rank() == 0 {
		j.metrics = openMetrics(j.runDir, j.cursor.Step, j.opt.Warn)
		defer j.metrics.close()
		j.advise()
	}
	j.resumed, j.savedAt = j.cursor.Samples, time.Now()
	stopped, err := j.loop(ctx)
	if err != nil {
		return Result{}, err
	}
	return j.finish(ctx, stopped)
}

// prepare reads the data once, fits the features or takes them from the
// checkpoint, builds the model and sets it where training begins.
func (j *job) prepare(ctx context.Context, from *checkpoint.Checkpoint) (err error) {
	if j.inputs, err = openInputs(j.config, j.eval != nil); err != nil {
		return err
	}
	var fit *data.Fit
	if from == nil {
		fit = data.NewFit(data.Schema{Label: j.config.Label, Features: j.config.Features, Crosses: j.config.Crosses})
	}
	if err := j.scan(ctx, j.train, fit); err != nil {
		return err
	}
	for _, d := range []*data.Dataset{j.valid, j.test} {
		if d != nil && d != j.train {
			if err := j.scan(ctx, d, nil); err != nil {
				return err
			}
		}
	}
	if j.encoder, j.encoded, err = encoder(fit, from); err != nil {
		return err
	}
	if j.trainer, err = NewTrainer(j.comm, j.rec, j.config, j.encoder.Sparse(), j.encoder.Dense()); err != nil {
		return err
	}
	j.cursor = cursor{Rows: j.train.Rows(data.Train), Lanes: j.config.Train.Lanes, Data: j.train.Fingerprint()}
	if j.cursor.Lanes == 0 {
		j.cursor.Lanes = data.DefaultLanes(j.comm.Size())
	}
	if j.cursor.Rows == 0 {
		return errors.New("wdl: no row of the training data is left beside those held out")
	}
	if from != nil {
		return j.load(from)
	}
	return nil
}

// encoder makes the encoder from the statistics of a new training, or reads
// that of a checkpoint.
func encoder(fit *data.Fit, from *checkpoint.Checkpoint) (e *data.Encoder, encoded []byte, err error) {
	if from == nil {
		if e, err = data.NewEncoder(fit); err != nil {
			return nil, nil, err
		}
		encoded, err = e.Marshal()
		return e, encoded, err
	}
	if encoded, err = readAll(from, sectionEncoder); err != nil {
		return nil, nil, err
	}
	e, err = data.LoadEncoder(encoded)
	return e, encoded, err
}

// advise warns of settings that are possible and hardly meant.
func (j *job) advise() {
	switch n := j.train.Rows(data.All); j.train.Positives() {
	case 0:
		j.opt.Warn(fmt.Sprintf("none of the %d training rows has the label 1: check the label section of the configuration", n))
	case n:
		j.opt.Warn(fmt.Sprintf("all of the %d training rows have the label 1: check the label section of the configuration", n))
	}
	if s := j.config.Train.Schedule; s.Warmup >= j.total() && !j.done() {
		j.opt.Warn(fmt.Sprintf("the learning rate never reaches its full height: train.schedule.warmup is %d steps, the training has %d", s.Warmup, j.total()))
	}
}
