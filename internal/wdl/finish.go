package wdl

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/wdl/report"
	"github.com/wdlrun/wdlrun/internal/wdl/save"
	"github.com/wdlrun/wdlrun/trace"
)

// finish restores the best epoch, evaluates the test data and writes the
// result.
func (j *job) finish(ctx context.Context, stopped bool) (report.Result, error) {
	if err := j.settle(); err != nil {
		return report.Result{}, err
	}
	if err := j.saveAgain(); err != nil {
		return report.Result{}, err
	}
	res := report.Result{
		WorldSize: j.comm.Size(), Addresses: j.opt.Addresses, Steps: j.cursor.Step, Samples: j.cursor.Samples,
		TrainLogLoss: j.cursor.LastLoss, RunDir: j.runDir, Stopped: stopped, Healed: j.losses.healed, Uncounted: j.losses.uncounted,
	}
	res.Rates, _ = report.Rates(j.config.Train, j.comm.Size())
	if s := j.cursor.Stream; s != nil && j.stream != nil {
		res.Spans, res.Ended = s.Spans, s.Ended
	}
	if j.cursor.Enough {
		res.EarlyStopped = j.cursor.Progress.Waited
	}
	if err := j.chooseModel(&res); err != nil {
		return report.Result{}, err
	}
	var err error
	if res.Costs, err = j.saver.Costs(); err != nil {
		return report.Result{}, err
	}
	if err := j.times(&res); err != nil {
		return report.Result{}, err
	}
	if res.TrainUnknown, err = j.in.TrainUnknown(); err != nil {
		return report.Result{}, err
	}
	if !stopped && j.in.Test != nil {
		if err := j.evaluateTest(ctx, &res); err != nil {
			return report.Result{}, err
		}
	}
	j.rec.Enter(trace.Wait)
	res.MovedShards = j.saves.moved
	if err := j.report.Tables(j.trainer, j.planned, &res); err != nil {
		return report.Result{}, err
	}
	res.Seconds = math.Round(time.Since(j.began).Seconds()*1e3) / 1e3
	j.warnOfMissed()
	if err := j.report.Leave(&res); err != nil {
		return report.Result{}, err
	}
	return res, collective.Barrier(j.comm)
}

// chooseModel restores the best epoch if early stopping chose one, and puts into res which
// checkpoint the result is of, with its validation.
func (j *job) chooseModel(res *report.Result) error {
	model, valid := j.cursor.Step, j.cursor.Valid
	if res.Stopped {
		valid = nil
		if j.cursor.Consumed > 0 {
			res.TrainLogLoss = j.cursor.LossSum / float64(j.cursor.Consumed)
		}
	} else if restored, err := j.restoreBest(); err != nil {
		return err
	} else if restored {
		model, valid, res.BestEpoch = j.cursor.Best, j.cursor.AtBest, j.cursor.Progress.BestEpoch
		if j.config.Train.EvalSteps > 0 {
			res.BestStep = model
		}
	}
	if valid != nil {
		res.Improving = j.improving()
		res.ValidOutside = j.validOutside
		j.warnOfDoubts(&report.Evaluated{Metrics: *valid, Outside: j.validOutside}, "the validation data")
		res.Valid, res.ValidAUC, res.ValidLogLoss = valid, valid.AUC, &valid.LogLoss
	}
	if model != j.cursor.Step || j.saver.Last() == model {
		res.Checkpoint = checkpoint.Dir(filepath.Join(j.runDir, checkpoint.Folder), model)
	} else if j.saver.Last() > 0 {
		res.LastCheckpoint = checkpoint.Dir(filepath.Join(j.runDir, checkpoint.Folder), j.saver.Last())
	}
	return nil
}

// evaluateTest puts the results of the test data into res.
func (j *job) evaluateTest(ctx context.Context, res *report.Result) error {
	m, err := j.evaluate(ctx, j.in.Test, data.All, nil, nil)
	if err != nil {
		return err
	}
	j.report.Write(report.Line{Event: "test", Step: j.cursor.Step, Epoch: j.cursor.Epoch, Samples: j.cursor.Samples, LogLoss: m.LogLoss, Metrics: &m.Metrics})
	res.Test, res.TestAUC, res.TestLogLoss, res.TestAccuracy = &m.Metrics, m.AUC, &m.LogLoss, &m.Accuracy
	res.TestUnknown, res.TestOutside = m.Unknown, m.Outside
	j.warnOfDoubts(&m, "the test data")
	return nil
}

// restoreBest goes back to the best epoch where early stopping is on and the
// last epoch was not the best. If its checkpoint is gone or damaged, the last
// epoch stays, and the user is warned.
func (j *job) restoreBest() (restored bool, err error) {
	best := j.cursor.Best
	if best == 0 || best == j.cursor.Step {
		return best > 0, nil
	}
	j.rec.Enter(trace.Restore)
	dir := checkpoint.Dir(filepath.Join(j.runDir, checkpoint.Folder), best)
	fault, err := save.First(j.comm, j.rec, func() error {
		c, err := checkpoint.Open(dir)
		if err == nil {
			err = verify(context.Background(), c, j.shown.Advance)
		}
		return err
	})
	if err != nil {
		return false, err
	}
	if fault != "" {
		j.warn(fmt.Sprintf("the best epoch (step %d) cannot be restored, the result is that of the last epoch: %s", best, fault))
		return false, nil
	}
	j.rec.Enter(trace.Restore)
	c, err := checkpoint.Open(dir)
	if err != nil {
		return false, err
	}
	c.Watch(j.shown.Advance)
	return true, j.trainer.Load(c, nil)
}

// warn warns the user, from one rank.
func (j *job) warn(line string) {
	if j.comm.Rank() == 0 {
		j.opt.Warn(line)
	}
}

// times puts into the result where time went, on all ranks.
func (j *job) times(res *report.Result) error {
	pace := j.in.Pace()
	res.Input = report.InputReport{Depth: pace.Depth, Threads: pace.Threads, Bad: j.in.Bad()}
	if j.stream != nil {
		res.Input.Bad += j.cursor.Stream.Bad
	}
	if err := j.report.Times(res, pace.Work, j.in.Waited()); err != nil {
		return err
	}
	if s := j.slack; s != nil {
		res.Mode, res.Backup, res.LateSlots = j.opt.Tolerance.Mode.String(), s.steps.Backup(), j.cursor.Late
		res.EffectiveBatch = float64(res.NewSamples) / float64(max(res.Steps-res.Since, 1))
	}
	return nil
}

// warnOfDoubts warns of results that no sound training has, and of data unlike that of training.
func (j *job) warnOfDoubts(m *report.Evaluated, what string) {
	for _, line := range m.Doubts(j.config.Features, j.in.Encoder.Sparse(), what) {
		j.warn(line)
	}
}
