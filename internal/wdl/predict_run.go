package wdl

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/write"
	"github.com/wdlrun/wdlrun/internal/wdl/input"
	"github.com/wdlrun/wdlrun/internal/wdl/metrics"
	"github.com/wdlrun/wdlrun/internal/wdl/save"
)

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
	if err != nil {
		return ofOtherHosts(err)
	}
	return o.check(in.Config, in.Train)
}

// Run predicts. It returns the same result on all ranks. Rank 0 writes the output.
func (p Prediction) Run(ctx context.Context) (res PredictResult, err error) {
	o := p.options
	res.WorldSize = p.comm.Size()
	by, end, err := p.openScores(ctx, &res)
	if data.IsEmpty(err) {
		p.warn(fmt.Sprintf("%v; the output has no rows", err))
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
	m, err := p.evaluate(ctx, p.in.Train, data.All, pass{by: by, complete: s.complete, take: s.take})
	if err != nil {
		return res, err
	}
	if err := s.finish(); err != nil {
		return res, err
	}
	m.Metrics = metrics.Metrics{Samples: m.Samples} // metrics without labels have no meaning
	p.warnOfDoubts(&m, input.FirstFew(p.in.Train.Names()))
	res.Data, res.Unknown, res.Outside = p.in.Train.Names(), m.Unknown, m.Outside
	res.Bad, _ = p.in.Train.Bad()
	res.Rows = p.in.Train.Rows(data.All) + res.Bad
	res.Columns = names(o.columns(p.config))
	res.Seconds = math.Round(time.Since(p.began).Seconds()*1e3) / 1e3
	res.RowsPerSecond = math.Round(float64(res.Rows) / max(res.Seconds, 1e-3))
	return res, nil
}

// predictNothing writes an output without rows.
func (p Prediction) predictNothing(res *PredictResult) error {
	columns := p.options.columns(p.config)
	res.Columns, res.Data = names(columns), p.options.Eval.Data
	fault, err := save.First(p.comm, p.rec, func() error {
		out, err := p.options.Open(columns)
		if err != nil {
			return err
		}
		if err := out.Finish(); err != nil {
			out.Abandon()
			return err
		}
		return nil
	})
	if err == nil && fault != "" {
		err = errors.New(fault)
	}
	return err
}

// names returns the names of columns.
func names(columns []write.Column) (all []string) {
	for _, c := range columns {
		all = append(all, c.Name)
	}
	return slices.Clip(all)
}
