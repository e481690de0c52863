package train

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/inspect"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/train/evaluate"
	"github.com/wdlrun/wdlrun/internal/train/input"
	"github.com/wdlrun/wdlrun/internal/train/save"
	"github.com/wdlrun/wdlrun/rank"
	"github.com/wdlrun/wdlrun/trace"
)

// Model identifies the model that an evaluation or a prediction uses.
type Model struct {
	Checkpoint string `json:"checkpoint"`
	Step       int64  `json:"step"`                    // step of the parameters
	Best       int    `json:"best_epoch,omitempty"`    // epoch chosen by early stopping, if not the last
	Trained    int64  `json:"trained_steps,omitempty"` // steps of the run, if the best epoch ended before the last
}

// Loader loads a trained model, and opens the data that it is applied to, on one rank of a group.
type Loader struct {
	evaluate.Setup // without Config, In and Trainer until they are opened
	run            run
}

// NewLoader prepares the loading on a group. opt names the model in Resume.
func NewLoader(comm *collective.Comm, rec *trace.Recorder, opt Options, use input.Use) *Loader {
	l := &Loader{run: run{use: use}}
	l.run.init(comm, rec, opt)
	l.Setup = *l.run.evaluation()
	return l
}

// Status returns the activity of the rank for heartbeats. It may be called from any goroutine.
func (l *Loader) Status() rank.Status { return l.run.Status() }

// Close releases the model and the connections to other hosts.
func (l *Loader) Close() {
	if l.run.trainer != nil {
		l.run.trainer.Close()
	}
	l.run.volumes.Close()
}

// OpenData opens the data of a configuration without a model. All ranks call it.
func (l *Loader) OpenData(c *config.Config) (err error) {
	r := &l.run
	r.config = c
	defer func() { l.Setup = *r.evaluation() }()
	if err := r.openVolumes(); err != nil {
		return err
	}
	if r.in, err = input.Open(r.inputSetup()); err != nil {
		return permanent(err)
	}
	return permanentAtStart(r.in.Agree())
}

// Load opens the data and loads the model. adapt changes the configuration of the training for
// the data. If the run stopped early, Load loads its best epoch. After an error, Config may be
// set.
func (l *Loader) Load(ctx context.Context, adapt func(*config.Config) error) (m Model, err error) {
	r := &l.run
	defer func() { l.Setup = *r.evaluation() }()
	o, err := r.briefing(ctx, adapt)
	if err != nil {
		return m, err
	}
	from := o.from
	if err := r.openTrained(ctx, from, nil); err != nil {
		return m, r.withLayout(err)
	}
	r.warnOfOwn(from)
	m.Checkpoint, m.Step = from.Dir(), r.cursor.Step
	best := r.cursor.Best
	if r.opt.picked(from) || !r.done() || best == 0 || best == m.Step {
		return m, nil
	}
	r.runDir = filepath.Dir(filepath.Dir(from.Dir()))
	restored, err := r.restoreBest()
	if err == nil && restored {
		m.Checkpoint = checkpoint.Dir(filepath.Dir(from.Dir()), best)
		m.Step, m.Trained, m.Best = best, m.Step, r.cursor.Progress.BestEpoch
	}
	return m, err
}

// openTrained surveys the data, unless its counts are given. Unless the run has the model in memory, it
// makes it and loads the checkpoint.
func (r *run) openTrained(ctx context.Context, from *checkpoint.Checkpoint, counts [][]byte) (err error) {
	if counts != nil {
		err = r.recount(from, counts)
	} else if err = r.survey(ctx, from); err == nil {
		err = r.surveyOthers(ctx)
	}
	if err != nil {
		return err
	}
	if err := save.ReadJSON(from, save.SectionCursor, &r.cursor); err != nil {
		return err
	}
	if r.trainer != nil { // it has the model
		r.Rec.Enter(trace.Wait)
		return nil
	}
	if r.trainer, err = r.newTrainer(nil); err != nil {
		return err
	}
	r.Rec.Enter(trace.Restore)
	err = r.trainer.Load(from, nil, r.cursor.Refit.steps(), nil)
	r.Rec.Enter(trace.Wait)
	return err
}

// LayoutError is the error of a record in a file that seems to have another layout than the
// training data.
type LayoutError struct {
	Err      error
	What     string   // both layouts
	Settings []string // KEY=VALUE: the layout of the file
}

func (e *LayoutError) Error() string { return e.What + ": " + e.Err.Error() }

func (e *LayoutError) Unwrap() error { return e.Err }

// withLayout makes the error of a whole record a LayoutError if its file seems to have another
// layout.
func (r *run) withLayout(err error) error {
	f, ok := errors.AsType[*record.Fault](err)
	if !ok || f.Column != "" {
		return err
	}
	what, settings := inspect.Layout(r.config.Data, []string{f.File})
	if what == "" {
		return err
	}
	return &LayoutError{Err: err, What: what, Settings: settings}
}
