package wdl

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/data"
	"github.com/wdlrun/wdlrun/trace"
)

// finish restores the best epoch, evaluates the test data and writes the
// result.
func (j *job) finish(ctx context.Context, stopped bool) (Result, error) {
	if err := j.settle(); err != nil {
		return Result{}, err
	}
	res := Result{
		WorldSize: j.comm.Size(), Steps: j.cursor.Step, Samples: j.cursor.Samples,
		TrainLogLoss: j.cursor.LastLoss, RunDir: j.runDir, Stopped: stopped,
	}
	model, valid := j.cursor.Step, j.cursor.Valid
	if stopped {
		res.TrainLogLoss, valid = j.cursor.LossSum/float64(max(j.cursor.Consumed, 1)), nil
	} else if restored, err := j.restoreBest(); err != nil {
		return Result{}, err
	} else if restored {
		model, valid, res.BestEpoch = j.cursor.Best, j.cursor.AtBest, j.cursor.Progress.BestEpoch
	}
	if valid != nil {
		res.ValidAUC, res.ValidLogLoss = &valid.AUC, &valid.LogLoss
	}
	if model != j.cursor.Step || j.lastSaved == model {
		res.Checkpoint = checkpoint.Dir(filepath.Join(j.runDir, checkpoint.Folder), model)
	}
	speed := float64(j.cursor.Samples-j.resumed) / j.stepSeconds()
	wait := []float64{j.rec.Totals()[trace.Input].Seconds() / j.stepSeconds()}
	if err := collective.AllReduce(j.comm, wait, collective.Sum); err != nil {
		return Result{}, err
	}
	res.SamplesPerSecond, res.InputWaitShare = speed, wait[0]/float64(j.comm.Size())
	if !stopped && j.test != nil {
		m, unknown, err := j.evaluate(ctx, j.test, data.All)
		if err != nil {
			return Result{}, err
		}
		j.metrics.write(metricLine{Event: "test", Step: j.cursor.Step, Epoch: j.cursor.Epoch, Samples: j.cursor.Samples, LogLoss: m.LogLoss, Metrics: &m})
		res.TestAUC, res.TestLogLoss, res.TestAccuracy, res.TestUnknown = &m.AUC, &m.LogLoss, &m.Accuracy, unknown
	}
	j.rec.Enter(trace.Wait)
	var err error
	if res.Tables, res.SparseBytesSent, err = j.trainer.report(); err != nil {
		return Result{}, err
	}
	res.Seconds = math.Round(time.Since(j.began).Seconds()*1e3) / 1e3
	j.keep(res)
	j.writeTrace()
	return res, collective.Barrier(j.comm)
}

// keep writes the result to the run directory, from rank 0.
func (j *job) keep(res Result) {
	if j.comm.Rank() != 0 {
		return
	}
	b, err := json.MarshalIndent(res, "", "  ")
	if err == nil {
		err = writeFile(j.runDir, fileResult, append(b, '\n'))
	}
	if err != nil {
		j.opt.Warn(fmt.Sprintf("the result is not kept: %v", err))
	}
}

// restoreBest goes back to the best epoch where early stopping is on and the
// last epoch was not the best. If its checkpoint is gone or damaged, the last
// epoch stays, and the user is told.
func (j *job) restoreBest() (restored bool, err error) {
	best := j.cursor.Best
	if best == 0 || best == j.cursor.Step {
		return best > 0, nil
	}
	j.rec.Enter(trace.Checkpoint)
	dir := checkpoint.Dir(filepath.Join(j.runDir, checkpoint.Folder), best)
	fault, err := j.first(func() error {
		c, err := checkpoint.Open(dir)
		if err == nil {
			err = c.Verify(context.Background())
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
	c, err := checkpoint.Open(dir)
	if err != nil {
		return false, err
	}
	return true, j.trainer.load(c)
}

// first does something on rank 0 and tells all ranks how it went: "" for well.
func (j *job) first(do func() error) (fault string, err error) {
	var b []byte
	if j.comm.Rank() == 0 {
		if err := do(); err != nil {
			b = []byte(err.Error())
			b = b[:min(len(b), maxReport)]
		}
	}
	j.rec.Enter(trace.Wait)
	b, err = collective.BroadcastBytes(j.comm, b, 0, maxReport)
	return string(b), err
}

// warn tells the user from one rank that something went wrong.
func (j *job) warn(line string) {
	if j.comm.Rank() == 0 {
		j.opt.Warn(line)
	}
}
