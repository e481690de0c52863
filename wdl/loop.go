package wdl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/wdlrun/wdlrun/data"
	"github.com/wdlrun/wdlrun/rank"
	"github.com/wdlrun/wdlrun/trace"
)

// loop trains the epochs that are left; stopped tells that somebody asked for
// the end.
func (j *job) loop(ctx context.Context) (stopped bool, err error) {
	for !j.done() {
		if stopped, err = j.epoch(ctx); stopped || err != nil {
			return stopped, err
		}
		if err := j.settle(); err != nil { // what is the best so far is known then
			return false, err
		}
		best, atBest := j.cursor.Best, j.cursor.AtBest
		if err := j.endEpoch(ctx); err != nil {
			return false, err
		}
		if err := j.save(); err != nil {
			return false, err
		}
		j.pending.best, j.pending.atBest = best, atBest
	}
	return false, nil
}

// epoch trains on what is left of the current epoch.
func (j *job) epoch(ctx context.Context) (stopped bool, err error) {
	if j.slack != nil {
		return j.slackEpoch(ctx)
	}
	r, err := j.reader(j.cursor.Consumed)
	if err != nil {
		return false, err
	}
	defer r.Close()
	j.shown.reader.Store(r)
	defer j.shown.reader.Store(nil)
	total := j.total()
	b, err := j.read(ctx, r)
	for b != nil {
		next, err := j.read(ctx, r)
		if err != nil {
			return false, err
		}
		stop, err := j.step(b, next, total)
		if stop || err != nil {
			return stop, err
		}
		r.Recycle(b)
		b = next
	}
	return false, err
}

// read returns the next batch, nil after the last. Every rank has as many.
func (j *job) read(ctx context.Context, r *data.Reader) (*data.Batch, error) {
	j.rec.Step(j.cursor.Step + 1)
	j.rec.Enter(trace.Input)
	b, err := r.Next(ctx)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	return b, err
}

// reader reads this rank's part of the current epoch from row start on.
func (j *job) reader(start int64) (*data.Reader, error) {
	return data.NewReader(j.train, j.encoder, data.ReaderConfig{
		Seed: j.config.Train.Seed, Epoch: j.cursor.Epoch, Start: start, GlobalBatch: j.config.Train.Global(j.comm.Size()),
		Lanes: j.cursor.Lanes, Rank: j.comm.Rank(), Size: j.comm.Size(),
		Shuffle: *j.config.Train.Shuffle, Window: j.config.Train.ShuffleWindow, Select: data.Train,
	})
}

// total is how many steps the training will have had at its end, if early
// stopping does not end it. Call it between steps.
func (j *job) total() int64 {
	c, batch := &j.cursor, j.config.Train.Global(j.comm.Size())
	if j.slack != nil {
		return j.slackTotal()
	}
	left := max(int64(j.config.Train.Epochs)-c.Epoch, 0)
	if left == 0 {
		return c.Step
	}
	return c.Step + data.Steps(c.Rows-c.Consumed, batch) + (left-1)*data.Steps(c.Rows, batch)
}

// step trains on one batch, which next will follow, and does what is due at its
// end.
func (j *job) step(b, next *data.Batch, total int64) (stop bool, err error) {
	c := &j.cursor
	rate := j.rate(total)
	j.faults.kill(c.Step + 1)
	out, err := j.trainer.Step(c.Step+1, rate, b, next, j.wish())
	if err != nil {
		return false, err
	}
	return j.stepped(out, rate, total)
}

// rate is the factor of the next step's learning rates.
func (j *job) rate(total int64) float64 {
	return j.config.Train.Schedule.Rate(j.cursor.Step+1, total) * j.cursor.Progress.RateFactor(j.config.Train.Schedule)
}

// stepped keeps the books of a step and does what is due after it.
func (j *job) stepped(out Outcome, rate float64, total int64) (stop bool, err error) {
	c := &j.cursor
	c.Step++
	c.Consumed += out.Rows
	c.Samples += out.Rows
	c.LossSum += out.Loss
	j.show(out, rate, total)
	if out.Stop || out.Save {
		if err := j.save(); err != nil {
			return false, err
		}
		j.savedAt = time.Now()
		j.wantSave.Store(false)
	}
	return out.Stop, nil
}

// wish says what this rank wants after the step. Intervals are rank 0's to keep,
// so that clocks need not agree.
func (j *job) wish() Wish {
	w := Wish{Save: j.wantSave.Load(), Stop: j.wantStop.Load()}
	if every := j.config.Train.Checkpoint; j.comm.Rank() == 0 {
		w.Save = w.Save || every.EverySteps > 0 && (j.cursor.Step+1)%every.EverySteps == 0 ||
			every.EverySeconds > 0 && time.Since(j.savedAt) >= time.Duration(every.EverySeconds)*time.Second
	}
	return w
}

const (
	showEvery = 20                     // steps between two lines of metrics.jsonl
	showPause = 200 * time.Millisecond // between two looks of people, on slow steps
)

// show tells the outside about a finished step.
func (j *job) show(out Outcome, rate float64, total int64) {
	c := &j.cursor
	due := c.Step%showEvery == 0 || c.Step == 1
	if !due && time.Since(j.shownAt) < showPause {
		return
	}
	j.shownAt = time.Now()
	loss := out.Loss / float64(max(out.Rows, 1))
	speed := float64(c.Samples-j.resumed) / j.stepSeconds()
	j.shown.status.Store(&rank.Status{
		Steps: total, Epoch: c.Epoch + 1, Epochs: int64(j.config.Train.Epochs),
		Samples: c.Samples, SamplesPerSecond: speed, Loss: loss, RunDir: j.runDir,
	})
	if !due {
		return
	}
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
	line := fmt.Sprintf("epoch %d of %d: train log-loss %.4f", c.Epoch, j.config.Train.Epochs, c.LastLoss)
	if due := c.Epoch%int64(j.config.Train.EvalEvery) == 0 || j.done(); j.valid == nil || !due {
		j.say(line)
		return nil
	}
	m, _, err := j.evaluate(ctx, j.valid, j.validRows)
	if err != nil {
		return err
	}
	c.Valid = &m
	j.metrics.write(metricLine{Event: "valid", Step: c.Step, Epoch: c.Epoch, Samples: c.Samples, LogLoss: m.LogLoss, Metrics: &m})
	line += fmt.Sprintf(", validation AUC %.4f, log-loss %.4f", m.AUC, m.LogLoss)
	metric := m.AUC
	if j.config.Train.EarlyStop.Metric == "logloss" {
		metric = m.LogLoss
	}
	progress, verdict := c.Progress.Observe(&j.config.Train, int(c.Epoch), metric)
	c.Progress, c.Enough = progress, verdict.Stop
	if verdict.Improved && j.config.Train.EarlyStop.Patience > 0 {
		c.Best, c.AtBest = c.Step, &m // the checkpoint that follows is the best so far
	}
	if verdict.Stop {
		line += fmt.Sprintf("; no better for %d evaluations: epoch %d was the best", progress.Waited, progress.BestEpoch)
	}
	j.say(line)
	return nil
}

// say tells the user something from one rank.
func (j *job) say(line string) {
	if j.comm.Rank() == 0 {
		j.opt.Say(line)
	}
}
