package train

import (
	"fmt"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/train/save"
)

// refitting decides whether a job trains again on all rows.
type refitting struct{ *run }

// noEffect returns why train.refit has no effect in this job, "" if it has one or is off.
func (r refitting) noEffect() string {
	c := r.config
	switch {
	case !c.Train.Refit || r.cursor.Refit != nil:
		return ""
	case c.Data.Follow.On:
		return "the training data is a stream, which has no end"
	case r.in.Valid == nil || r.in.Valid != r.in.Train:
		return "no rows of data.train are held out (data.valid_fraction)"
	case c.Train.EvalSteps > 0:
		return "train.eval_steps may choose a part of an epoch; use train.eval_every"
	case c.Train.Schedule.Kind == "plateau":
		return "a plateau schedule depends on validation rows"
	case c.Train.Export.Dir != "":
		return "train.export publishes the model while it is trained"
	case !r.opt.Tolerance.Off():
		return "steps do not wait for slow ranks (-backup, -mode)"
	case r.opt.Replicas > 1:
		return "the ranks hold copies of each other (-replicas)"
	case r.opt.Survey != "":
		return "trials of a sweep are compared by their validation; train the best settings with wdlrun train"
	case r.cursor.Newer || r.cursor.Began > 0 && r.cursor.Source == "":
		return "the training has resumed on other data; begin with its model: train -from"
	}
	return ""
}

// due reports whether the first training has ended and the second follows.
func (r refitting) due() bool {
	c := &r.cursor
	return r.config.Train.Refit && c.Refit == nil && r.noEffect() == "" && r.done() && c.Valid != nil && c.Progress.BestEpoch > 0
}

// keep returns what the second training keeps of the first one, which has ended. improves is
// validation.improving.
func (r refitting) keep(rows, improves string) *firstTraining {
	c := &r.cursor
	f := &firstTraining{
		Epochs: c.Epoch, Steps: c.Step - c.Began, Samples: c.Epoch * c.Rows, Rows: c.Rows, Source: c.Source,
		InTime: r.config.Data.ValidTime != "" && data.InTimeOrder(r.in.Train), Progress: c.Progress, Enough: c.Enough, Valid: c.Valid, Data: rows, Improves: improves,
	}
	if r.config.Train.EarlyStop.Patience > 0 {
		f.Epochs = int64(c.Progress.BestEpoch)
		if c.AtBest != nil {
			f.Valid = c.AtBest
		}
	}
	return f
}

// reopen opens the model that the first training began with, unless it is open. If that is no longer
// possible, it warns and returns false.
func (r refitting) reopen() (ok bool, err error) {
	if r.source != nil || r.cursor.Source == "" {
		return true, nil
	}
	fault, err := save.First(r.Comm, r.Rec, func() error {
		_, err := openSource(r.cursor.Source)
		return err
	})
	if err != nil || fault != "" {
		r.Warn(fmt.Sprintf("train.refit: the model that the training began with is no longer there, so the model is that of the best epoch: %s", fault))
		return false, err
	}
	r.source, err = openSource(r.cursor.Source)
	return err == nil, err
}

// resume reads from a checkpoint which of the two trainings of a job it is of.
func (r refitting) resume(from *checkpoint.Checkpoint) error {
	var was cursor
	if err := save.ReadJSON(from, save.SectionCursor, &was); err != nil {
		return err
	}
	r.cursor.Refit = was.Refit
	r.config = was.Refit.effective(r.written)
	return nil
}
