package apply

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/export"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/train/evaluate"
	"github.com/wdlrun/wdlrun/rank"
	"github.com/wdlrun/wdlrun/trace"
)

// openScores opens the data and the model, and returns the evaluator of scores. end releases
// the exported model.
func (p Prediction) openScores(ctx context.Context, res *PredictResult) (by evaluate.Evaluator, end func(), err error) {
	if dir := p.options.Model; dir != "" {
		return p.openExported(ctx, dir, res)
	}
	res.Model, err = p.Load(ctx, p.options.Eval.evaluating)
	return p.Trainer, func() {}, err
}

// openExported opens the data and an exported model. Every rank has the whole model; the
// ranks of a host share its pages.
func (p Prediction) openExported(ctx context.Context, dir string, res *PredictResult) (by evaluate.Evaluator, end func(), err error) {
	p.Rec.Enter(trace.Restore)
	if dir, err = newestVersion(dir); err != nil {
		return nil, nil, err
	}
	m, err := export.Open(dir)
	if err != nil {
		return nil, nil, &rank.PermanentError{Err: err}
	}
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	res.Checkpoint, res.Version = dir, m.Version()
	c := m.Config().Clone()
	if err := p.options.Eval.evaluating(c); err != nil {
		return nil, nil, &rank.PermanentError{Err: err}
	}
	if err := p.OpenData(c); err != nil {
		return nil, nil, err
	}
	if err := p.options.check(c, p.In.Train); err != nil {
		return nil, nil, &rank.PermanentError{Err: err}
	}
	s := p.options.Eval.use().Schema(c)
	p.In.Encoder = m.Encoder().WithLabels(s.Label, s.Labels)
	if err := p.In.Scan(ctx, p.In.Train, nil); err != nil {
		return nil, nil, err
	}
	scorer, err := m.NewScorer()
	if err != nil {
		return nil, nil, err
	}
	return &scoring{Setup: &p.Setup, scorer: scorer, unknown: make([]int64, len(scorer.Unknown()))}, func() { m.Close() }, nil
}

// checkModel returns an error if the directory of the model cannot be read. The ranks verify
// the model itself when they open it.
func (o *PredictOptions) checkModel() error {
	if o.Eval.Resume != "" {
		return errors.New("predict: -resume and -model each name a model; leave one of them out")
	}
	_, err := newestVersion(o.Model)
	return err
}

// newestVersion returns the highest version in dir if dir holds versions of a model, else
// dir.
func newestVersion(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", fmt.Errorf("predict: -model: %w", err)
	}
	newest := int64(-1)
	for _, e := range entries {
		if n, err := strconv.ParseInt(e.Name(), 10, 64); err == nil && e.IsDir() {
			newest = max(newest, n)
		}
	}
	if newest < 0 {
		return dir, noModel(dir)
	}
	return filepath.Join(dir, strconv.FormatInt(newest, 10)), nil
}

// scoring evaluates batches with the scorer of an exported model.
type scoring struct {
	*evaluate.Setup
	scorer  *step.Scorer
	logit   []float32 // logits of the last batch: by label, then by row
	rows    int
	unknown []int64 // unknown values by feature, over all batches and ranks
}

// Evaluate scores the batches that next returns until it returns nil. Samples is the only
// metric that it computes.
func (s *scoring) Evaluate(next func() (*encode.Batch, error)) (m metrics.Metrics, err error) {
	for {
		b, err := next()
		if err != nil {
			return m, err
		}
		if b == nil {
			break
		}
		s.Rec.Enter(trace.Eval)
		if s.logit, err = s.scorer.Score(b); err != nil {
			return m, err
		}
		s.rows = b.Rows
		m.Samples += int64(b.Rows)
		for f, n := range s.scorer.Unknown() {
			s.unknown[f] += n
		}
		for i, z := range s.logit {
			if x := float64(z); math.IsNaN(x) || math.IsInf(x, 0) {
				return m, fmt.Errorf("predict: the logit of record %d is %v; train again with lower learning rates or train.clip_norm", b.RowID[i%b.Rows], z)
			}
		}
	}
	s.Rec.Enter(trace.Wait)
	if err := collective.AllReduce(s.Comm, s.unknown, collective.Sum); err != nil {
		return m, err
	}
	samples := []int64{m.Samples}
	err = collective.AllReduce(s.Comm, samples, collective.Sum)
	m.Samples = samples[0]
	return m, err
}

// LogitsOf returns the logits of the last batch for a label.
func (s *scoring) LogitsOf(label int) []float32 { return s.logit[label*s.rows : (label+1)*s.rows] }

// Unknown returns the number of values whose keys have no row, by feature.
func (s *scoring) Unknown() []int64 { return s.unknown }

// noModel returns an error if a folder without versions is not an exported model.
func noModel(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "MANIFEST.json")); err == nil {
		return nil
	}
	if _, err := os.Stat(filepath.Join(dir, checkpoint.Folder)); err == nil {
		return fmt.Errorf("predict: -model %s: this is a run directory: give it as -resume", dir)
	}
	if below, err := filepath.Glob(filepath.Join(dir, "*", "*", "MANIFEST.json")); err == nil && len(below) > 0 {
		return fmt.Errorf("predict: -model %s: this folder holds models: give the folder of one, such as %s", dir, filepath.Dir(filepath.Dir(below[0])))
	}
	return fmt.Errorf("predict: -model %s: this is neither an exported model nor a folder of its versions: wdlrun export writes one", dir)
}
