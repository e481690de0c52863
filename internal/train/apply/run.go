package apply

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/train"
	"github.com/wdlrun/wdlrun/internal/train/evaluate"
	"github.com/wdlrun/wdlrun/internal/train/input"
)

// Run evaluates the model. It returns the same result on all ranks and writes no files.
func (e Evaluation) Run(ctx context.Context) (res EvalResult, err error) {
	defer e.Close()
	if res.Model, err = e.Load(ctx, e.eval.evaluating); err != nil {
		return res, err
	}
	if err := e.eval.checkBy(e.In.Train); err != nil {
		return res, err
	}
	kept := evaluate.NewBreakdown(e.eval.Group, e.eval.Report, e.eval.By, e.In.Train.Rows(data.All), e.In.Encoder)
	p := evaluate.Pass{Kept: kept}
	if e.eval.Each != nil {
		p.Take = func(b *encode.Batch) error { return e.eval.Each(b, e.Trainer.LogitsOf(0)) }
	}
	m, err := e.Over(ctx, e.In.Train, data.All, p)
	if err == nil {
		err = e.reduce(ctx, kept, &m, &res)
	}
	if err == nil && e.eval.Importance {
		res.Importance, err = e.importance(ctx, e.In.Train, data.All)
	}
	if err != nil {
		return res, err
	}
	e.WarnOfResult(&m, input.FirstFew(e.In.Train.Names()))
	res.WorldSize, res.Data, res.Metrics, res.Unknown = e.Comm.Size(), e.In.Train.Names(), m.Metrics, m.Unknown
	res.Why, res.Undated, res.Outside = m.Why, e.In.Undated[e.In.Train], m.Outside
	res.Warnings = *e.warned
	res.Seconds = math.Round(time.Since(e.began).Seconds()*1e3) / 1e3
	return res, nil
}

// Run predicts. It returns the same result on all ranks. Rank 0 writes the output.
func (p Prediction) Run(ctx context.Context) (res PredictResult, err error) {
	o := p.options
	res.WorldSize = p.Comm.Size()
	defer p.Close()
	by, end, err := p.openScores(ctx, &res)
	if data.IsEmpty(err) {
		p.Warn(fmt.Sprintf("%v; the output has no rows", err))
		return res, p.predictNothing(&res)
	}
	if err != nil {
		return res, err
	}
	defer end()
	s, err := p.newPredictions(ctx, by)
	if err != nil {
		return res, err
	}
	defer s.abandon()
	m, err := p.Over(ctx, p.In.Train, data.All, evaluate.Pass{By: by, Complete: s.complete, Take: s.gather})
	if err != nil {
		return res, err
	}
	if err := s.finish(); err != nil {
		return res, err
	}
	m.Metrics = metrics.Metrics{Samples: m.Samples} // metrics without labels have no meaning
	p.WarnOfResult(&m, input.FirstFew(p.In.Train.Names()))
	res.Data, res.Unknown, res.Why, res.Outside = p.In.Train.Names(), m.Unknown, m.Why, m.Outside
	res.Undated = p.In.Undated[p.In.Train]
	res.Bad, _ = p.In.Train.Bad()
	res.Rows = p.In.Train.Rows(data.All) + res.Bad
	res.Columns = names(o.columns(p.Config))
	res.Seconds = math.Round(time.Since(p.began).Seconds()*1e3) / 1e3
	res.RowsPerSecond = math.Round(float64(res.Rows) / max(res.Seconds, 1e-3))
	return res, nil
}

// CheckPredict finds the faults of a prediction that one process can find before any rank
// starts.
func CheckPredict(ctx context.Context, o PredictOptions) error {
	o.predict()
	if len(o.Eval.Data) == 0 {
		return errors.New("predict: -data FILE names the records to predict")
	}
	if o.Model != "" {
		return o.checkModel()
	}
	in, err := o.Eval.check(ctx)
	if errors.Is(err, train.ErrElsewhere) {
		return nil
	}
	if err != nil {
		return err
	}
	return o.check(in.Config, in.Train)
}
