package train

import (
	"context"
	"fmt"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/train/evaluate"
	"github.com/wdlrun/wdlrun/internal/train/progress"
	"github.com/wdlrun/wdlrun/internal/train/report"
)

// validation evaluates the validation data during a training and applies early stopping.
type validation struct {
	*run
	saves  *saves
	last   report.Evaluated // doubtful values in the last evaluation; its metrics are in the cursor
	noRows bool             // it has been reported that no row is held out
}

// evaluatesEpoch reports whether the validation data is evaluated after an epoch, independent
// of train.eval_steps.
func (v *validation) evaluatesEpoch(epoch int64) bool {
	t := &v.config.Train
	return t.EvalSteps == 0 && epoch%int64(t.EvalEvery) == 0 || v.stream == nil && epoch >= int64(t.Epochs)
}

// evaluateStep evaluates the validation data inside an epoch if an evaluation is due after
// the cursor's step and has not been done.
func (v *validation) evaluateStep(ctx context.Context) error {
	c := v.cursor
	if !v.evaluatesAfter(c.Step) || c.Progress.Step == c.Step || c.Consumed == 0 || c.Consumed == c.Rows || !v.in.HasValid() {
		return nil
	}
	if err := v.saves.catchUp(); err != nil { // determines the best evaluation so far
		return err
	}
	before := v.cursor
	c = before
	line, err := v.validate(ctx, &c, c.Epoch+1)
	if err != nil {
		return err
	}
	if c.Enough {
		c.LastLoss = c.meanLoss()
	}
	v.cursor = c
	v.Say(fmt.Sprintf("step %d: train %s %.4f in this epoch so far, %s", c.Step, v.config.LossName(), c.meanLoss(), line))
	if c.Best != c.Step && !c.Enough {
		return nil
	}
	return v.saves.saveEvaluated(&before, false)
}

// validate evaluates the validation data in or after an epoch and records the result and the
// decision of early stopping in the cursor.
func (v *validation) validate(ctx context.Context, c *cursor, epoch int64) (line string, err error) {
	e, err := v.evaluation().Over(ctx, v.in.Valid, v.in.ValidRows, evaluate.Pass{})
	if err != nil {
		return "", err
	}
	m := e.Metrics
	c.Valid, v.last = &m, report.Evaluated{Outside: e.Outside}
	if d := &v.config.Data; d.ValidFraction > 0 && d.ValidTime == "" && d.ValidGroup == "" {
		v.last.Held, v.last.Unknown = true, e.Unknown
	}
	v.report.Write(report.Line{Event: "valid", Step: c.Step, Epoch: epoch, Samples: c.Samples, LogLoss: m.LogLoss, Metrics: &m, Data: v.rows()})
	if err := v.keepDistributions(c.Step); err != nil {
		return "", err
	}
	metric, instead := judged(v.config.Train, &m)
	line = fmt.Sprintf("validation %s%s", m.Brief(), instead)
	observed, verdict := c.Progress.Observe(&v.config.Train, int(epoch), c.Step, metric)
	c.Progress, c.Enough = observed, verdict.Stop
	if verdict.Improved && v.config.Train.EarlyStop.Patience > 0 {
		c.Best, c.AtBest = c.Step, &m // the next checkpoint is the best so far
	}
	if verdict.Stop {
		line += fmt.Sprintf("; no better for %d evaluations: %s was the best", observed.Waited, v.bestText(observed))
	}
	return line, nil
}

// rows identifies the validation rows; "" if there are none. Rows held out at random count as the
// same for every train.seed.
func (v *validation) rows() string {
	d := &v.config.Data
	switch v.in.Valid {
	case nil:
		return ""
	case v.in.Train:
		return data.RowsOf(v.in.Valid, fmt.Sprint(d.ValidFraction, d.ValidTime, d.ValidGroup))
	}
	return data.RowsOf(v.in.Valid, "")
}

// bestText names the best evaluation: its step or its epoch, depending on train.eval_steps.
func (v *validation) bestText(p progress.State) string {
	if v.config.Train.EvalSteps > 0 {
		return fmt.Sprintf("step %d", p.BestStep)
	}
	return fmt.Sprintf("epoch %d", p.BestEpoch)
}

// judged returns the metric that early stopping compares, by train.early_stop.metric. If the
// AUC is configured but undefined, it returns the negative log-loss, which is below any AUC
// and grows as the model improves. In that case, instead explains this, provided that early
// stopping or the schedule depends on the metric.
func judged(t config.Train, m *metrics.Metrics) (metric float64, instead string) {
	switch {
	case t.EarlyStop.Metric == "logloss":
		return m.LogLoss, ""
	case m.AUC != nil:
		return *m.AUC, ""
	case t.EarlyStop.Patience > 0 || t.Schedule.Kind == "plateau":
		instead = ", which early stopping uses since there is no AUC"
	}
	return -m.LogLoss, instead
}

// improving returns the name of the early-stopping metric if its last value was the best of a
// training that train.epochs ended, else "".
func (v *validation) improving() string {
	p := &v.cursor.Progress
	switch {
	case v.stream != nil || v.cursor.Enough || p.Evaluations < 2 || p.BestStep != v.cursor.Step:
		return ""
	case v.cursor.Valid.AUC != nil && *v.cursor.Valid.AUC == 1: // more epochs do not help: the label is probably an input
		return ""
	case v.config.Train.EarlyStop.Metric == "auc" && v.cursor.Valid.AUC != nil:
		return "AUC"
	}
	return v.config.LossName()
}
