package wdl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/data"
	"github.com/wdlrun/wdlrun/rank"
	"github.com/wdlrun/wdlrun/trace"
	"github.com/wdlrun/wdlrun/wdl/config"
)

// Options say what a training job does. Rank 0's count: it tells the others.
type Options struct {
	Config *config.Config    // nil: the checkpoint's when resuming, else config.Default
	Set    []string          // settings that replace the configuration's, "train.seed=7"
	Out    string            // where the run directory is made, default "runs"
	Resume string            // run directory or checkpoint to continue from
	Warn   func(line string) // tells the user something, one line; nil: silent
}

// Result is what a finished job reports, and the JSON line of `wdlrun train
// --json`. Steps and Samples count from the very start of training, Seconds and
// SamplesPerSecond this job alone, the latter only the time in training steps.
type Result struct {
	WorldSize        int      `json:"world_size"`
	Steps            int64    `json:"steps"`
	Samples          int64    `json:"samples"`
	Seconds          float64  `json:"seconds"`
	SamplesPerSecond float64  `json:"samples_per_second"`
	InputWaitShare   float64  `json:"input_wait_share"` // of the time in steps, mean of the ranks
	TrainLogLoss     float64  `json:"train_logloss"`    // over the last epoch, while it was trained
	TestAUC          *float64 `json:"test_auc"`         // null without test data
	TestLogLoss      *float64 `json:"test_logloss"`
	TestAccuracy     *float64 `json:"test_accuracy"`
	RunDir           string   `json:"run_dir"`
	Stopped          bool     `json:"stopped,omitempty"` // on request, before the end; resume continues
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

	cursor    cursor
	lastSaved int64     // step of the last good checkpoint
	savedAt   time.Time // when it was written
	began     time.Time // start of this job
	resumed   int64     // samples trained on before this job
	shown     display

	save_, stop_ atomic.Bool // wishes of the outside
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
	j := &Job{job{comm: comm, rec: rec, opt: opt, began: time.Now()}}
	j.shown.status.Store(&rank.Status{})
	return j
}

// RequestCheckpoint asks for a checkpoint at the end of the current step.
func (j *Job) RequestCheckpoint() { j.save_.Store(true) }

// RequestStop asks for a checkpoint and the end of the job after the current
// step, on all ranks.
func (j *Job) RequestStop() { j.stop_.Store(true) }

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
	if err != nil {
		return Result{}, err
	}
	if err := j.prepare(ctx, from); err != nil {
		return Result{}, err
	}
	if j.comm.Rank() == 0 {
		j.metrics = openMetrics(j.runDir, j.opt.Warn)
		defer j.metrics.close()
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
	if j.inputs, err = openInputs(j.config); err != nil {
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

// loop trains the epochs that are left; stopped tells that somebody asked for
// the end.
func (j *job) loop(ctx context.Context) (stopped bool, err error) {
	for !j.done() {
		if stopped, err = j.epoch(ctx); stopped || err != nil {
			return stopped, err
		}
		best := j.cursor.Best
		if err := j.endEpoch(ctx); err != nil {
			return false, err
		}
		saved, err := j.save()
		if err != nil {
			return false, err
		}
		if !saved {
			j.cursor.Best = best // what cannot be restored is not the best
		}
	}
	return false, nil
}

// epoch trains on what is left of the current epoch.
func (j *job) epoch(ctx context.Context) (stopped bool, err error) {
	batch := j.config.Train.Global(j.comm.Size())
	r, err := data.NewReader(j.train, j.encoder, data.ReaderConfig{
		Seed: j.config.Train.Seed, Epoch: j.cursor.Epoch, Start: j.cursor.Consumed, GlobalBatch: batch,
		Lanes: j.cursor.Lanes, Rank: j.comm.Rank(), Size: j.comm.Size(),
		Shuffle: *j.config.Train.Shuffle, Window: j.config.Train.ShuffleWindow, Select: data.Train,
	})
	if err != nil {
		return false, err
	}
	defer r.Close()
	j.shown.reader.Store(r)
	defer j.shown.reader.Store(nil)
	total := int64(j.config.Train.Epochs) * data.Steps(j.cursor.Rows, batch)
	for {
		j.rec.Step(j.cursor.Step + 1)
		j.rec.Enter(trace.Input)
		b, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		stop, err := j.step(b, total)
		if stop || err != nil {
			return stop, err
		}
		r.Recycle(b)
	}
}

// step trains on one batch and does what is due at its end.
func (j *job) step(b *data.Batch, total int64) (stop bool, err error) {
	c := &j.cursor
	rate := j.config.Train.Schedule.Rate(c.Step+1, total) * c.Progress.RateFactor(j.config.Train.Schedule)
	out, err := j.trainer.Step(c.Step+1, rate, b, j.wish())
	if err != nil {
		return false, err
	}
	c.Step++
	c.Consumed += out.Rows
	c.Samples += out.Rows
	c.LossSum += out.Loss
	j.show(out, rate, total)
	if out.Stop || out.Save {
		if _, err := j.save(); err != nil {
			return false, err
		}
		j.savedAt = time.Now()
		j.save_.Store(false)
	}
	return out.Stop, nil
}

// wish says what this rank wants after the step. Intervals are rank 0's to keep,
// so that clocks need not agree.
func (j *job) wish() Wish {
	w := Wish{Save: j.save_.Load(), Stop: j.stop_.Load()}
	if every := j.config.Train.Checkpoint; j.comm.Rank() == 0 {
		w.Save = w.Save || every.EverySteps > 0 && (j.cursor.Step+1)%every.EverySteps == 0 ||
			every.EverySeconds > 0 && time.Since(j.savedAt) >= time.Duration(every.EverySeconds)*time.Second
	}
	return w
}

// showEvery is how many steps lie between two lines of metrics.jsonl.
const showEvery = 20

// show tells the outside about a finished step.
func (j *job) show(out Outcome, rate float64, total int64) {
	c := &j.cursor
	if c.Step%showEvery != 0 && c.Step != 1 {
		return
	}
	loss := out.Loss / float64(max(out.Rows, 1))
	speed := float64(c.Samples-j.resumed) / j.stepSeconds()
	j.shown.status.Store(&rank.Status{
		Steps: total, Epoch: c.Epoch + 1, Epochs: int64(j.config.Train.Epochs),
		Samples: c.Samples, SamplesPerSecond: speed, Loss: loss, RunDir: j.runDir,
	})
	j.metrics.write(metricLine{
		Event: "train", Step: c.Step, Epoch: c.Epoch + 1, Samples: c.Samples, Rate: rate, Speed: speed, LogLoss: loss,
	})
}

// stepSeconds is the time this rank has spent in training steps.
func (j *job) stepSeconds() float64 {
	totals, sum := j.rec.Totals(), time.Duration(0)
	for _, p := range []trace.Phase{trace.Input, trace.Pull, trace.Compute, trace.Push, trace.Sync, trace.Update} {
		sum += totals[p]
	}
	return max(sum.Seconds(), 1e-9)
}

// endEpoch closes the books of an epoch, evaluates the validation data, and
// decides whether training is over.
func (j *job) endEpoch(ctx context.Context) error {
	c := &j.cursor
	c.LastLoss = c.LossSum / float64(max(c.Consumed, 1))
	c.Epoch++
	c.Consumed, c.LossSum = 0, 0
	due := c.Epoch%int64(j.config.Train.EvalEvery) == 0 || j.done()
	if j.valid == nil || !due {
		return nil
	}
	m, err := j.evaluate(ctx, j.valid, j.validRows)
	if err != nil {
		return err
	}
	j.metrics.write(metricLine{Event: "valid", Step: c.Step, Epoch: c.Epoch, Samples: c.Samples, LogLoss: m.LogLoss, Metrics: &m})
	metric := m.AUC
	if j.config.Train.EarlyStop.Metric == "logloss" {
		metric = m.LogLoss
	}
	progress, verdict := c.Progress.Observe(&j.config.Train, int(c.Epoch), metric)
	c.Progress = progress
	if verdict.Improved && j.config.Train.EarlyStop.Patience > 0 {
		c.Best = c.Step // the checkpoint that follows is the best so far
	}
	c.Enough = verdict.Stop
	return nil
}

// finish restores the best epoch, evaluates the test data and writes the
// result.
func (j *job) finish(ctx context.Context, stopped bool) (Result, error) {
	res := Result{
		WorldSize: j.comm.Size(), Steps: j.cursor.Step, Samples: j.cursor.Samples,
		TrainLogLoss: j.cursor.LastLoss, RunDir: j.runDir, Stopped: stopped,
	}
	if stopped {
		res.TrainLogLoss = j.cursor.LossSum / float64(max(j.cursor.Consumed, 1))
	} else if err := j.restoreBest(); err != nil {
		return Result{}, err
	}
	speed := float64(j.cursor.Samples-j.resumed) / j.stepSeconds()
	wait := []float64{j.rec.Totals()[trace.Input].Seconds() / j.stepSeconds()}
	if err := collective.AllReduce(j.comm, wait, collective.Sum); err != nil {
		return Result{}, err
	}
	res.SamplesPerSecond, res.InputWaitShare = speed, wait[0]/float64(j.comm.Size())
	if !stopped && j.test != nil {
		m, err := j.evaluate(ctx, j.test, data.All)
		if err != nil {
			return Result{}, err
		}
		j.metrics.write(metricLine{Event: "test", Step: j.cursor.Step, Epoch: j.cursor.Epoch, Samples: j.cursor.Samples, LogLoss: m.LogLoss, Metrics: &m})
		res.TestAUC, res.TestLogLoss, res.TestAccuracy = &m.AUC, &m.LogLoss, &m.Accuracy
	}
	j.rec.Enter(trace.Wait)
	res.Seconds = math.Round(time.Since(j.began).Seconds()*1e3) / 1e3
	if j.comm.Rank() == 0 {
		b, err := json.MarshalIndent(res, "", "  ")
		if err == nil {
			err = writeFile(j.runDir, fileResult, append(b, '\n'))
		}
		if err != nil {
			j.opt.Warn(fmt.Sprintf("the result is not kept: %v", err))
		}
	}
	j.writeTrace()
	return res, collective.Barrier(j.comm)
}

// restoreBest goes back to the best epoch where early stopping is on and the
// last epoch was not the best.
func (j *job) restoreBest() error {
	best := j.cursor.Best
	if best == 0 || best == j.cursor.Step {
		return nil
	}
	dir := checkpoint.Dir(filepath.Join(j.runDir, checkpoint.Folder), best)
	c, err := checkpoint.Open(dir)
	if err != nil {
		return fmt.Errorf("wdl: the best epoch (step %d) cannot be restored: %w", best, err)
	}
	j.rec.Enter(trace.Checkpoint)
	return j.trainer.load(c)
}
