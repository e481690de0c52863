package wdl

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"time"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/inspect"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/wdl/config"
	"github.com/wdlrun/wdlrun/internal/wdl/input"
	"github.com/wdlrun/wdlrun/internal/wdl/save"
	"github.com/wdlrun/wdlrun/trace"
)

// Run evaluates the model. It returns the same result on all ranks and writes no files.
func (e Evaluation) Run(ctx context.Context) (res EvalResult, err error) {
	defer func() { e.volumes.Close() }()
	if res.Model, err = e.openModel(ctx, e.eval.evaluating); err != nil {
		return res, err
	}
	defer e.trainer.Close()
	if err := e.eval.checkBy(e.in.Train); err != nil {
		return res, err
	}
	kept := newBreakdown(e.eval.Group, e.eval.Report, e.eval.By, e.in.Train.Rows(data.All), e.in.Encoder)
	p := pass{kept: kept}
	if e.eval.Each != nil {
		p.take = func(b *encode.Batch) error { return e.eval.Each(b, e.trainer.LogitsOf(0)) }
	}
	m, err := e.evaluate(ctx, e.in.Train, data.All, p)
	if err == nil {
		err = e.reduce(ctx, kept, &m, &res)
	}
	if err == nil && e.eval.Importance {
		res.Importance, err = e.importance(ctx, e.in.Train, data.All)
	}
	if err != nil {
		return res, err
	}
	e.warnOfDoubts(&m, input.FirstFew(e.in.Train.Names()))
	res.WorldSize, res.Data, res.Metrics, res.Unknown = e.comm.Size(), e.in.Train.Names(), m.Metrics, m.Unknown
	res.Outside = m.Outside
	res.Seconds = math.Round(time.Since(e.began).Seconds()*1e3) / 1e3
	return res, nil
}

// openModel opens the data of an evaluation and loads the model. evaluating
// changes the configuration for the evaluation. If the run stopped early, openModel loads its
// best epoch. After an error the trainer is closed.
func (r *run) openModel(ctx context.Context, evaluating func(*config.Config) error) (m Model, err error) {
	o, err := r.briefing(ctx, evaluating)
	if err != nil {
		return m, err
	}
	from := o.from
	if err := r.openTrained(ctx, from); err != nil {
		if r.trainer != nil {
			r.trainer.Close()
		}
		return m, r.withLayout(err)
	}
	m.Checkpoint, m.Step = from.Dir(), r.cursor.Step
	best := r.cursor.Best
	if r.opt.picked(from) || !r.done() || best == 0 || best == m.Step {
		return m, nil
	}
	r.runDir = filepath.Dir(filepath.Dir(from.Dir()))
	restored, err := r.restoreBest()
	if err != nil {
		r.trainer.Close()
		return m, err
	}
	if restored {
		m.Checkpoint = checkpoint.Dir(filepath.Dir(from.Dir()), best)
		m.Step, m.Trained, m.Best = best, m.Step, r.cursor.Progress.BestEpoch
	}
	return m, nil
}

// openTrained surveys the data, makes the model and loads the checkpoint.
func (r *run) openTrained(ctx context.Context, from *checkpoint.Checkpoint) (err error) {
	if err := r.survey(ctx, from); err != nil {
		return err
	}
	if err := r.surveyOthers(ctx); err != nil {
		return err
	}
	if r.trainer, err = r.newTrainer(nil); err != nil {
		return err
	}
	r.rec.Enter(trace.Restore)
	if err := save.ReadJSON(from, save.SectionCursor, &r.cursor); err != nil {
		return err
	}
	err = r.trainer.Load(from, nil)
	r.rec.Enter(trace.Wait)
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
