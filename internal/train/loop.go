package train

import (
	"context"
	"fmt"
	"time"

	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/train/progress"
	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/rank"
	"github.com/wdlrun/wdlrun/trace"
)

// loop trains the remaining epochs. stopped reports that the user requested a stop.
func (j *job) loop(ctx context.Context) (stopped bool, err error) {
	defer j.in.CloseFeed()
	for !j.done() {
		if j.stream != nil {
			if stopped, err = j.spans.next(ctx); stopped || err != nil {
				return stopped, err
			}
			if j.done() {
				break
			}
		}
		if stopped, err = j.epoch(ctx); err != nil || stopped && !j.done() {
			return stopped, err
		}
		if j.done() {
			break // inside a span
		}
		if err := j.saves.catchUp(); err != nil { // determines the best evaluation so far
			return false, err
		}
		before := j.cursor
		if err := j.endEpoch(ctx); err != nil {
			return false, err
		}
		if err := j.saves.saveEvaluated(&before, j.stream == nil); err != nil { // spans may be short, so their checkpoints are incremental
			return false, err
		}
	}
	if err := j.diverged(true); err != nil {
		return false, err
	}
	if j.stream != nil {
		return false, j.spans.endStream(ctx)
	}
	return false, nil
}

// epoch trains on the rest of the current epoch.
func (j *job) epoch(ctx context.Context) (stopped bool, err error) {
	if err := j.batches.open(ctx); err != nil {
		return false, err
	}
	defer j.batches.close()
	(pretrained{&j.run}).freeze()
	if err := j.validation.evaluateStep(ctx); err != nil || j.done() {
		return false, err
	}
	for total := j.total(); ; {
		c := step.Input{N: j.cursor.modelSteps() + 1, Rate: j.rate(total)}
		more, err := j.batches.next(ctx, &c)
		if err != nil || !more {
			return false, err
		}
		if err := j.faults.inject(j.cursor.Step + 1); err != nil {
			return false, err
		}
		c.Requests = j.requests()
		if j.evaluatesAfter(j.cursor.Step + 1) { // do not pull the rows of the next batch before the evaluation
			c.Next = nil
		}
		out, err := j.trainer.Step(c)
		if err != nil {
			return false, err
		}
		if n := len(c.Batches); n > 0 && j.Comm.Rank() == 0 { // the logits are the last batch's
			j.saves.publisher.Observe(j.trainer.Logits(), c.Batches[n-1])
		}
		j.batches.stepped(out)
		if stop, err := j.stepped(ctx, out, c.Rate, total); stop || err != nil {
			return stop, err
		}
	}
}

// total returns the number of steps at the end of the training unless early stopping ends it;
// 0 for a stream. Call it between steps.
func (j *job) total() int64 {
	c, batch := &j.cursor, j.config.Train.Global(j.Comm.Size())
	if j.tolerant != nil {
		return j.tolerant.total(&j.config.Train)
	}
	if j.stream != nil {
		return 0 // unknown
	}
	left := max(int64(j.config.Train.Epochs)-c.Epoch, 0)
	if left == 0 {
		return c.Step
	}
	return c.Step + j.config.Train.Growth().Steps(c.before(), c.Consumed, c.Rows, left, batch)
}

// rate returns the factor of the next step's learning rates.
func (j *job) rate(total int64) float64 {
	s, began := j.config.Train.Schedule, j.cursor.Began
	return progress.Rate(s, j.cursor.Step+1-began, max(total-began, 0)) * j.cursor.Progress.RateFactor(s)
}

// stepped updates the cursor after a step and does what is due: messages, evaluation,
// checkpoint, publication.
func (j *job) stepped(ctx context.Context, out step.Outcome, rate float64, total int64) (stop bool, err error) {
	c := &j.cursor
	j.saves.saver.Stepped(j.report.Spent())
	c.Step++
	c.Consumed += out.Rows
	c.Samples += out.Rows
	c.LossSum += out.Loss
	c.WeightSum += out.Weight
	j.show(out, rate, total)
	c.Divergence.Observe(out)
	if err := j.diverged(false); err != nil {
		return false, err
	}
	if out.Compare {
		lines, err := j.report.Compare(c.Step, report.Own{Effort: j.effort(), Store: j.trainer.Store(), Plan: j.planned, LeftOut: leftOut(&j.run), Resent: j.opt.Resent})
		if err != nil {
			return false, err
		}
		for _, line := range lines {
			j.Say(line)
		}
	}
	if out.Stop {
		j.wants.stop.Store(true) // on all ranks, whichever requested it
	}
	if j.wants.timeline.Load() && j.wants.timeline.Swap(false) {
		if err := j.report.WriteTimeline(0); err != nil {
			j.opt.Warn(fmt.Sprintf("the timeline of rank %d is not written: %v", j.Comm.Rank(), err))
		} else {
			j.Say(fmt.Sprintf("timelines up to step %d are written; next: wdlrun trace %s", c.Step, j.runDir))
		}
	}
	if err := j.validation.evaluateStep(ctx); err != nil {
		return false, err
	}
	if out.Stop || out.Save {
		if err := j.saves.save(false, best{}); err != nil {
			return false, err
		}
		if err := j.saves.move(); err != nil {
			return false, err
		}
		j.saves.at = time.Now()
		j.wants.save.Store(false)
	} else {
		j.saves.saver.CopySlice()
	}
	if err := j.publish(out.Publish); err != nil {
		return false, err
	}
	if j.stream != nil && j.outOfSteps() {
		return true, nil
	}
	return out.Stop || j.cursor.Enough, nil
}

// publish begins a version if one is due; otherwise it continues the one under way.
func (j *job) publish(due bool) error {
	if due {
		return j.saves.publisher.Boundary(j.cursor.Step)
	}
	j.saves.publisher.CopySlice(j.report.Usual(j.cursor.Step))
	return nil
}

// requests returns the requests of this rank for the coming step. Only rank 0 measures
// intervals, so clocks need not agree.
func (j *job) requests() step.Requests {
	w := step.Requests{Save: j.wants.save.Load(), Stop: j.wants.stop.Load() || j.tolerant.last()}
	if every := j.config.Train.Checkpoint; j.Comm.Rank() == 0 {
		w.Save = w.Save || every.EverySteps > 0 && (j.cursor.Step+1)%every.EverySteps == 0 || j.saves.overdue()
		w.Compare = j.report.CompareDue(j.cursor.Step + 1)
		w.Publish = j.saves.publisher.Due(j.cursor.Step + 1)
	}
	return w
}

// endEpoch moves the cursor to the next epoch, evaluates the validation data and applies
// early stopping.
func (j *job) endEpoch(ctx context.Context) error {
	closed := j.cursor // replaces the cursor at the end: if a rank is lost before, the others end the epoch again
	c := &closed
	if field := j.config.Label.Weight; field != "" && c.Consumed > 0 && c.WeightSum == 0 {
		return fmt.Errorf("train: every sample of the epoch has the weight 0, by label.weight: %s: nothing is learnt; correct the field or remove label.weight", field)
	}
	c.LastLoss = c.meanLoss()
	c.Epoch++
	c.Consumed, c.losses = 0, losses{}
	line := fmt.Sprintf("epoch %d of %d: train %s %.4f", c.Epoch, j.config.Train.Epochs, j.config.LossName(), c.LastLoss)
	if j.stream != nil {
		line = j.spans.endSpan(c)
	}
	due := j.in.Valid != nil && (j.evaluatesAfter(c.Step) || j.validation.evaluatesEpoch(c.Epoch))
	if due && !j.in.HasValid() {
		due = false
		if !j.validation.noRows {
			line += fmt.Sprintf(", no validation: data.valid_fraction, %v, holds out none of %d rows", j.config.Data.ValidFraction, c.Rows)
		}
		j.validation.noRows = true
	}
	if due {
		more, err := j.validation.validate(ctx, c, c.Epoch)
		if err != nil {
			return err
		}
		line += ", " + more
	}
	j.cursor = closed
	j.Say(line)
	return nil
}

// show publishes the state after a step for Status and the log.
func (j *job) show(out step.Outcome, rate float64, total int64) {
	c := &j.cursor
	due, line := j.report.Due(c.Step, out.Rows)
	if !due {
		return
	}
	loss, speed := out.Mean(), j.report.Speed(c.Samples)
	s := rank.Status{Steps: total, Samples: c.Samples, SamplesPerSecond: speed, Loss: loss, RunDir: j.runDir, MayEnd: j.config.Train.EarlyStop.Patience > 0}
	if j.stream != nil {
		s.Span = c.Stream.Spans
	} else {
		s.Epoch, s.Epochs = c.Epoch+1, int64(j.config.Train.Epochs)
	}
	j.shown.Show(s)
	if !line || j.Comm.Rank() != 0 {
		return
	}
	for i, t := range j.planned.Tables {
		j.report.WarnTierLimit(j.config, i, t.Name, j.trainer.Store().Files().MinMemory(i))
	}
	j.report.Write(report.Line{
		Event: "train", Step: c.Step, Epoch: c.Epoch + 1, Samples: c.Samples, Rate: rate, Speed: speed, LogLoss: loss,
	})
}

// effort returns the time that this rank has spent so far.
func (j *job) effort() (e report.Effort) {
	totals := j.Rec.Totals()
	e.Input, e.Compute, e.Batches = totals[trace.Input], totals[trace.Compute], time.Duration(j.cursor.Step)*time.Second
	if j.tolerant != nil { // the goroutine that makes collective calls does not compute
		e.Input = j.in.Waited()
		e.Compute, e.Batches = j.tolerant.steps.Spent()
	}
	e.CPU = report.ProcessTime() + time.Duration(j.faults.held.Load())
	return e
}

// diverged returns an error if the training diverges. ended reports that it has ended.
func (j *job) diverged(ended bool) error {
	return permanent(j.cursor.Divergence.Err(j.cursor.Step, ended))
}
