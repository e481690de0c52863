package train

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/model/plan"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/train/evaluate"
	"github.com/wdlrun/wdlrun/internal/train/input"
	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/internal/train/save"
)

// gating compares the model of a training with its source on the validation rows, by train.gate.
type gating struct{ *run }

// judgeSource evaluates the source as it is, with its own features, before the new model is made:
// on the partition of train -by, and on the validation rows. The data is read once more.
func (g gating) judgeSource(ctx context.Context) error {
	if g.source == nil || g.config.Train.Gate.Metric == "" && g.opt.Day == nil {
		return nil
	}
	c, err := g.settings()
	if err != nil {
		return err
	}
	var old run
	opt := g.opt
	opt.Warn, opt.Say, opt.Survey, opt.Replicas = nil, nil, "", 0 // the data has been described
	old.init(g.Comm, g.Rec, opt)
	old.use.Judges = true
	old.config, old.runDir, old.volumes = c, g.runDir, g.volumes
	old.planned = &plan.Plan{Owner: g.planned.Owner} // so that the new model can take its tables
	g.shown.During(&old.shown)
	defer g.shown.During(nil)
	old.trainer = g.opt.Day.kept().take(g.source.Dir(), c)
	counts, err := g.counts(c)
	if err == nil {
		err = old.openTrained(ctx, g.source, counts)
	}
	defer func() { g.keepSource(&old) }()
	if err == nil && g.opt.Day != nil {
		err = (dayByDay{g.run}).judge(ctx, &old)
	}
	if err != nil {
		return permanentAtStart(fmt.Errorf("the model before it, %s, cannot be evaluated with its own features: %w", g.source.Dir(), err))
	}
	if g.config.Train.Gate.Metric == "" || !old.in.HasValid() {
		return nil // compare reports it
	}
	m, err := old.evaluation().Over(ctx, old.in.Valid, old.in.ValidRows, evaluate.Pass{})
	if err != nil {
		return permanentAtStart(fmt.Errorf("train.gate: %s cannot be evaluated on the validation data: %w", g.source.Dir(), err))
	}
	if now := g.in.Valid.Rows(g.in.ValidRows); m.Samples != now {
		return permanent(fmt.Errorf("train.gate: %s can be evaluated on %d of the %d validation rows, because its features read other fields: correct or leave out the other rows", g.source.Dir(), m.Samples, now))
	}
	g.warnOfTrained(&old, c)
	g.cursor.Gate = &report.Gate{From: g.source.Dir(), Source: &m.Metrics}
	g.Say(fmt.Sprintf("gate: %s has %s on the validation data", g.source.Dir(), m.Brief()))
	return nil
}

// counts returns the counts of the data, if they are those of the source too, because it reads the
// same fields in the same way; nil: the data must be read for it.
func (g gating) counts(of *config.Config) ([][]byte, error) {
	var was cursor
	if err := save.ReadJSON(g.source, save.SectionCursor, &was); err != nil {
		return nil, err
	}
	read := func(c *config.Config) schema.Schema {
		s := input.SchemaOf(c)
		s.Features = slices.Clone(s.Features)
		for i := range s.Features {
			s.Features[i].Was, s.Features[i].Init = "", ""
		}
		return s
	}
	if was.ByLabel != g.cursor.ByLabel || of.Data.ValidTime != "" || of.Data.ValidGroup != "" || !reflect.DeepEqual(read(of), read(g.config)) {
		return nil, nil
	}
	return g.in.Counts, nil
}

// keepSource keeps the evaluated source until its tables are taken. Tables with files of
// cold rows are not taken.
func (g gating) keepSource(old *run) {
	if old.trainer == nil {
		return
	}
	tiered := func(t config.Table) bool { return t.Tier != config.Tier{} }
	if slices.ContainsFunc(old.config.Tables, tiered) || slices.ContainsFunc(g.config.Tables, tiered) {
		old.trainer.Close()
		return
	}
	g.judged = old.trainer
}

// settings returns the configuration of the source, with the data of this training.
func (g gating) settings() (*config.Config, error) {
	c, err := save.ReadConfig(g.source)
	if err != nil {
		return nil, err
	}
	now := g.config.Clone()
	c.Data, c.Train.Seed, c.Train.Threads = now.Data, now.Train.Seed, now.Train.Threads
	c.Train.Precision, c.Train.Device = "fp32", "cpu" // as in an evaluation
	c.Fill()
	return c, nil
}

// warnOfTrained warns if the source has trained on validation rows.
func (g gating) warnOfTrained(old *run, c *config.Config) {
	was, err := save.ReadConfig(g.source)
	if err != nil || g.Comm.Rank() != 0 {
		return
	}
	heldOut := g.in.Valid == g.in.Train
	same := old.cursor.TrainData != "" && old.cursor.TrainData == data.IdentityOf(g.in.Valid)
	if heldOut && same && old.cursor.Refit == nil && old.cursor.ByLabel == g.cursor.ByLabel && was.Data.ValidFraction == c.Data.ValidFraction && was.Data.ValidTime == c.Data.ValidTime && was.Data.ValidGroup == c.Data.ValidGroup && was.Train.Seed == c.Train.Seed {
		return // the same rows were held out
	}
	of := trainedOn(runOfCheckpoint(g.source.Dir()), was, g.in.Valid.Names())
	if same && len(of) == 0 {
		of = g.in.Valid.Names()[:1]
	}
	if len(of) > 0 {
		names := of[0]
		if len(of) > 1 {
			names = input.FirstFew(of)
		}
		g.Warn(fmt.Sprintf("train.gate: the model of %s was trained on validation rows, of %s: its metrics are too good; validate on data that is newer than its training", g.source.Dir(), names))
	}
}

// compare returns the verdict about the model of a finished training, with its metrics on the
// validation data; nil if there is no gate.
func (g gating) compare(valid *metrics.Metrics) *report.Gate {
	if g.cursor.Gate == nil {
		if g.source != nil && g.config.Train.Gate.Metric != "" {
			return &report.Gate{From: g.source.Dir(), Rejected: "there are no validation rows on which it can be compared with its source"}
		}
		return nil
	}
	v, by := *g.cursor.Gate, g.config.Train.Gate
	v.Metric, v.Tolerance = by.Metric, by.Tolerance
	switch {
	case v.Metric == "":
		return nil // it was turned off when the training resumed
	case v.Source == nil:
		v.Rejected = "the data has changed since " + v.From + " was evaluated, so they cannot be compared: evaluate both with wdlrun eval"
	case valid == nil:
		v.Rejected = "it has not been evaluated on the validation data"
	default:
		v.Rejected = worse(by, v.Source, valid)
	}
	return &v
}

// worse returns why a model is worse than its source, "" if it is not. Without an AUC, because
// all labels are the same, log-losses are compared.
func worse(by config.Gate, was, now *metrics.Metrics) string {
	name, a, b := "log-loss", was.LogLoss, now.LogLoss
	bad := !(b <= a+by.Tolerance)
	if by.Metric == "auc" && was.AUC != nil && now.AUC != nil {
		name, a, b = "AUC", *was.AUC, *now.AUC
		bad = !(b >= a-by.Tolerance)
	}
	if !bad {
		return ""
	}
	return fmt.Sprintf("its validation %s is %.4f, that of the model before it is %.4f, and train.gate.tolerance is %v", name, b, a, by.Tolerance)
}

// markLatest makes the link latest lead to a finished training. Trials of a sweep, repetitions of
// other trainings and rejected models do not move it.
func (g gating) markLatest(res *report.Result) {
	if g.Comm.Rank() != 0 || res.Stopped || res.Checkpoint == "" || g.opt.Survey != "" || g.opt.Replay != "" || res.Gate.Closed() {
		return
	}
	err := rundir.MarkLatest(g.runDir)
	if err != nil && !errors.Is(err, rundir.ErrNotALink) {
		res.NotLatest = err.Error()
	} else if err != nil {
		g.Warn(fmt.Sprintf("the link %s to this run is not made: %v", filepath.Join(filepath.Dir(g.runDir), rundir.Latest), err))
	}
}
