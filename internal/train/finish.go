package train

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/train/evaluate"
	"github.com/wdlrun/wdlrun/internal/train/input"
	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/trace"
)

// finish restores the best epoch, evaluates the test data and writes the result.
func (j *job) finish(ctx context.Context, stopped bool) (report.Result, error) {
	if err := j.saves.wait(); err != nil {
		return report.Result{}, err
	}
	if err := j.saves.saveAgain(); err != nil {
		return report.Result{}, err
	}
	if err := j.saves.publisher.Finish(j.cursor.Step); err != nil {
		return report.Result{}, err
	}
	res := report.Result{
		WorldSize: j.Comm.Size(), Addresses: j.opt.Addresses, Steps: j.cursor.Step, Began: j.cursor.source(), Samples: j.cursor.Samples,
		Inherited: report.Inherited{Kept: j.cursor.Kept, TrainNewer: j.cursor.Newer}, TrainLogLoss: j.cursor.LastLoss, RunDir: j.runDir, Stopped: stopped, Healed: j.healing.healed, Uncounted: j.healing.uncounted,
	}
	res.Rates, _ = report.Rates(j.config.Train, j.Comm.Size())
	if s := j.cursor.Stream; s != nil && j.stream != nil {
		res.Spans, res.Ended = s.Spans, s.Ended
	}
	if j.cursor.Enough {
		res.EarlyStopped = j.cursor.Progress.Waited
	}
	if err := j.chooseModel(&res); err != nil {
		return report.Result{}, err
	}
	if j.saves.publisher != nil && res.BestEpoch > 0 && j.Comm.Rank() == 0 {
		j.Warn(fmt.Sprintf("train.export publishes the model of the last step, %d; the best one, of step %d, is in %s: wdlrun export -resume %s writes a version of it", j.cursor.Step, j.cursor.Best, res.Checkpoint, j.runDir))
	}
	if !stopped {
		res.Gate = (gating{&j.run}).compare(res.Valid)
	}
	var err error
	if res.Costs, err = j.saves.saver.Costs(); err != nil {
		return report.Result{}, err
	}
	if err := j.times(&res); err != nil {
		return report.Result{}, err
	}
	if res.TrainWhy, err = j.in.TrainUnknown(res.TrainNewer); err != nil {
		return report.Result{}, err
	}
	res.TrainUnknown = metrics.Totals(res.TrainWhy)
	res.TrainUndated = input.TrainUndated(j.in)
	if !stopped && j.in.Test != nil {
		if err := j.evaluateTest(ctx, &res); err != nil {
			return report.Result{}, err
		}
	}
	j.Rec.Enter(trace.Wait)
	res.MovedShards = j.saves.moved
	if err := j.report.Tables(j.trainer, j.planned, j.cursor.Began, &res); err != nil {
		return report.Result{}, err
	}
	res.Seconds = math.Round(time.Since(j.began).Seconds()*1e3) / 1e3
	if !stopped { // a training that resumes may still reach the others
		if err := j.warnOfFaults(); err != nil {
			return report.Result{}, err
		}
	}
	if err := (dayByDay{&j.run}).end(&res); err != nil {
		return report.Result{}, err
	}
	res.Warnings = j.warned.all()
	if err := j.report.Finish(&res, j.volumes.RanksWithoutRunDir()); err != nil {
		return report.Result{}, err
	}
	(gating{&j.run}).markLatest(&res)
	return res, collective.Barrier(j.Comm)
}

// warnOfFaults warns of planned faults that the job did not reach.
func (j *job) warnOfFaults() error {
	if len(j.faults.plan) == 0 {
		return nil
	}
	s, err := readInjected(j.runDir)
	if err != nil {
		j.Warn(fmt.Sprintf("chaos: the list of injected faults cannot be read: %v", err))
	}
	all, fault := (hostVolumes{&j.run}).mergeFaults(s, true)
	if missed := j.faults.notInjected(all.Been, j.cursor.Step); missed != "" && err == nil {
		j.Warn(missed)
	}
	return fault
}

// chooseModel restores the best epoch if early stopping chose one. It sets the checkpoint and
// the validation metrics of the result.
func (j *job) chooseModel(res *report.Result) error {
	model, valid := j.cursor.Step, j.cursor.Valid
	if res.Stopped {
		valid = nil
		if j.cursor.Consumed > 0 {
			res.TrainLogLoss = j.cursor.meanLoss()
		}
	} else if f := j.cursor.Refit; f != nil {
		valid, res.BestEpoch, res.Refit = f.Valid, int(f.Epochs), f.describe(j.cursor.Rows)
		if f.Enough {
			res.EarlyStopped = f.Progress.Waited
		}
	} else if restored, err := j.restoreBest(); err != nil {
		return err
	} else if restored {
		model, valid, res.BestEpoch, res.TrainLogLoss = j.cursor.Best, j.cursor.AtBest, j.cursor.Progress.BestEpoch, j.cursor.LastLoss
		if j.config.Train.EvalSteps > 0 {
			res.BestStep = model
		}
	}
	if valid != nil {
		res.Improving = j.validation.improving()
		res.ValidData = j.validation.rows()
		if f := j.cursor.Refit; f != nil {
			res.Improving, res.ValidData = f.Improves, f.Data
		}
		last := &j.validation.last
		res.ValidOutside = last.Outside
		last.Metrics = *valid
		j.evaluation().WarnOfResult(last, "the validation data")
		res.Valid, res.ValidAUC, res.ValidLogLoss = valid, valid.AUC, &valid.LogLoss
	}
	if model != j.cursor.Step || j.saves.saver.Last() == model {
		res.Checkpoint = checkpoint.Dir(filepath.Join(j.runDir, checkpoint.Folder), model)
	} else if j.saves.saver.Last() > 0 {
		res.LastCheckpoint = checkpoint.Dir(filepath.Join(j.runDir, checkpoint.Folder), j.saves.saver.Last())
	}
	return nil
}

// evaluateTest puts the results of the test data into res.
func (j *job) evaluateTest(ctx context.Context, res *report.Result) error {
	m, err := j.evaluation().Over(ctx, j.in.Test, data.All, evaluate.Pass{})
	if err != nil {
		return err
	}
	j.report.Write(report.Line{Event: "test", Step: j.cursor.Step, Epoch: j.cursor.Epoch, Samples: j.cursor.Samples, LogLoss: m.LogLoss, Metrics: &m.Metrics, Data: data.RowsOf(j.in.Test, "")})
	res.Test, res.TestAUC, res.TestLogLoss, res.TestAccuracy = &m.Metrics, m.AUC, &m.LogLoss, &m.Accuracy
	res.TestData = data.RowsOf(j.in.Test, "")
	res.TestUnknown, res.TestWhy, res.TestOutside = m.Unknown, m.Why, m.Outside
	res.TestUndated = j.in.Undated[j.in.Test]
	j.evaluation().WarnOfResult(&m, "the test data")
	return nil
}

// times adds the time that each phase took on all ranks to the result.
func (j *job) times(res *report.Result) error {
	pace := j.in.Pace()
	res.Input = report.InputReport{Depth: pace.Depth, Threads: pace.Threads, Bad: j.in.Bad()}
	if j.stream != nil {
		res.Input.Bad += j.cursor.Stream.Bad
		res.Input.Lost, res.Input.BadFiles = j.cursor.Stream.Lost, j.cursor.Stream.Files
	}
	if err := j.report.Times(res, pace.Work, j.in.Waited()); err != nil {
		return err
	}
	if s := j.tolerant; s != nil {
		res.Mode, res.Backup, res.LateSlots = j.opt.Tolerance.Mode.String(), s.steps.Backup(), j.cursor.Late
		res.EffectiveBatch = float64(res.NewSamples) / float64(max(res.Steps-res.Since, 1))
	}
	return nil
}
