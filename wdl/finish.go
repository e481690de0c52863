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
