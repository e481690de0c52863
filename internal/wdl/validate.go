package wdl

import (
	"context"
	"fmt"

	"github.com/wdlrun/wdlrun/internal/wdl/config"
	"github.com/wdlrun/wdlrun/internal/wdl/metrics"
	"github.com/wdlrun/wdlrun/internal/wdl/report"
)

// endEpoch closes the books of an epoch, evaluates the validation data, and
// decides whether training is over.
func (j *job) endEpoch(ctx context.Context) error {
	closed := j.cursor // it replaces the cursor at once: where a rank is lost meanwhile, others close the epoch again
	c := &closed
	if field := j.config.Label.Weight; field != "" && c.Consumed > 0 && c.LossSum == 0 {
		return fmt.Errorf("wdl: train: every sample of the epoch has the weight 0, by label.weight: %s: nothing is learnt; correct the field or remove label.weight", field)
	}
	c.LastLoss = c.LossSum / float64(max(c.Consumed, 1))
	c.Epoch++
	c.Consumed, c.LossSum = 0, 0
	line := fmt.Sprintf("epoch %d of %d: train %s %.4f", c.Epoch, j.config.Train.Epochs, j.config.LossName(), c.LastLoss)
	if j.stream != nil {
		line = j.endSpan(c)
	}
	due := j.in.Valid != nil && (j.evaluatesAfter(c.Step) || j.evaluatesEpoch(c.Epoch))
	if due && !j.in.HasValid() {
		due = false
		line += fmt.Sprintf(", no validation: data.valid_fraction, %v, holds out none of %d rows", j.config.Data.ValidFraction, c.Rows)
	}
	if due {
		more, err := j.validate(ctx, c, c.Epoch)
		if err != nil {
			return err
		}
		line += ", " + more
	}
	j.cursor = closed
	j.say(line)
	return nil
}

// evaluatesEpoch reports whether the validation data is evaluated after an epoch, whatever
// its last step is.
func (j *job) evaluatesEpoch(epoch int64) bool {
	t := &j.config.Train
	return t.EvalSteps == 0 && epoch%int64(t.EvalEvery) == 0 || j.stream == nil && epoch >= int64(t.Epochs)
}

// evaluatesAfter reports whether the validation data is evaluated after a step because of
// train.eval_steps.
func (j *job) evaluatesAfter(step int64) bool {
	every := j.config.Train.EvalSteps
	return every > 0 && step%every == 0 && j.in.Valid != nil
}

// evaluateStep evaluates the validation data inside an epoch if that is due after the
// cursor's step and has not been done.
func (j *job) evaluateStep(ctx context.Context) error {
	c := j.cursor
	if !j.evaluatesAfter(c.Step) || c.Progress.Step == c.Step || c.Consumed == 0 || c.Consumed == c.Rows || !j.in.HasValid() {
		return nil
	}
	if err := j.catchUp(); err != nil { // what is the best so far is known then
		return err
	}
	before := j.cursor
	c = before
	line, err := j.validate(ctx, &c, c.Epoch+1)
	if err != nil {
		return err
	}
	if c.Enough {
		c.LastLoss = c.LossSum / float64(c.Consumed)
	}
	j.cursor = c
	j.say(fmt.Sprintf("step %d: train %s %.4f in this epoch so far, %s", c.Step, j.config.LossName(), c.LossSum/float64(c.Consumed), line))
	if c.Best != c.Step && !c.Enough {
		return nil
	}
	return j.saveEvaluated(&before, false)
}

// validate evaluates the validation data in or after an epoch, and notes in the cursor
// what follows from it.
func (j *job) validate(ctx context.Context, c *cursor, epoch int64) (line string, err error) {
	e, err := j.evaluate(ctx, j.in.Valid, j.in.ValidRows, nil, nil)
	if err != nil {
		return "", err
	}
	m := e.Metrics
	c.Valid, j.validOutside = &m, e.Outside
	j.report.Write(report.Line{Event: "valid", Step: c.Step, Epoch: epoch, Samples: c.Samples, LogLoss: m.LogLoss, Metrics: &m})
	metric, instead := judged(j.config.Train, &m)
	line = fmt.Sprintf("validation %s%s", m.Brief(), instead)
	progress, verdict := c.Progress.Observe(&j.config.Train, int(epoch), c.Step, metric)
	c.Progress, c.Enough = progress, verdict.Stop
	if verdict.Improved && j.config.Train.EarlyStop.Patience > 0 {
		c.Best, c.AtBest = c.Step, &m // the checkpoint that follows is the best so far
	}
	if verdict.Stop {
		line += fmt.Sprintf("; no better for %d evaluations: %s was the best", progress.Waited, j.bestText(progress))
	}
	return line, nil
}

// bestText names the evaluation that was the best, as the configuration counts them.
func (j *job) bestText(p config.Progress) string {
	if j.config.Train.EvalSteps > 0 {
		return fmt.Sprintf("step %d", p.BestStep)
	}
	return fmt.Sprintf("epoch %d", p.BestEpoch)
}

// judged is the metric by which one evaluation is better than another, as
// train.early_stop.metric has it. If that is the AUC and there is none, it is the
// log-loss, below any AUC and growing as it improves; instead then says so to those
// for whom it decides something.
func judged(t config.Train, m *metrics.Metrics) (metric float64, instead string) {
	switch {
	case t.EarlyStop.Metric == "logloss":
		return m.LogLoss, ""
	case m.AUC != nil:
		return *m.AUC, ""
	case t.EarlyStop.Patience > 0 || t.Schedule.Kind == "plateau":
		instead = ", which judges for lack of an AUC"
	}
	return -m.LogLoss, instead
}

// improving names the metric that was the best in the last evaluation of a training that
// train.epochs ended; "" if there is none.
func (j *job) improving() string {
	p := &j.cursor.Progress
	switch {
	case j.stream != nil || j.cursor.Enough || p.Evaluations < 2 || p.BestStep != j.cursor.Step:
		return ""
	case j.cursor.Valid.AUC != nil && *j.cursor.Valid.AUC == 1: // more epochs do not help; the label is an input
		return ""
	case j.config.Train.EarlyStop.Metric == "auc" && j.cursor.Valid.AUC != nil:
		return "AUC"
	}
	return j.config.LossName()
}
