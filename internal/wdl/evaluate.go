package wdl

import (
	"context"
	"errors"
	"io"

	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/wdl/metrics"
	"github.com/wdlrun/wdlrun/internal/wdl/report"
	"github.com/wdlrun/wdlrun/trace"
)

// evalBatch is how many samples a rank evaluates at once.
const evalBatch = 1024

// evaluator computes the logits of batches: a trainer, or the scorer of an exported model.
type evaluator interface {
	Evaluate(next func() (*encode.Batch, error)) (metrics.Metrics, error)
	LogitsOf(label int) []float32
	Unknown() []int64
}

// evaluate computes the metrics of the selected rows of a dataset, and by group if groups
// is not nil; predictions, if it is not nil, takes the logits.
func (j *job) evaluate(ctx context.Context, d *data.Dataset, rows data.Select, groups *metrics.Groups, predictions *predictions) (m report.Evaluated, err error) {
	j.rec.Enter(trace.Eval)
	m.Absent = d.Absent()
	probe, encoder, err := newProbe(j.in, groups)
	if err != nil {
		return m, err
	}
	r, err := data.NewReader(d, encoder, data.ReaderConfig{
		GlobalBatch: evalBatch * j.comm.Size(), Rank: j.comm.Rank(), Size: j.comm.Size(), Select: rows,
	})
	if err != nil {
		return m, err
	}
	defer r.Close()
	j.shown.Read(r)
	defer j.shown.Read(nil)
	var by evaluator = j.trainer
	if predictions != nil {
		by = predictions.by
	}
	var last *encode.Batch
	m.Metrics, err = by.Evaluate(func() (*encode.Batch, error) {
		if last != nil {
			probe.add(last, by.LogitsOf(0))
			if j.eval != nil && j.eval.Each != nil {
				if err := j.eval.Each(probe.without(last), by.LogitsOf(0)); err != nil {
					return nil, err
				}
			}
			if predictions != nil {
				if err := predictions.take(last); err != nil {
					return nil, err
				}
			}
			r.Recycle(last)
			j.shown.Advance(1)
		}
		b, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if last = b; err != nil {
			return nil, err
		}
		if predictions != nil {
			predictions.complete(b)
		}
		return probe.without(b), nil
	})
	if err != nil {
		return m, err
	}
	if m.Unknown, err = j.in.Unknown(probe.unknown(r.Unknown())); err != nil {
		return m, err
	}
	for i, n := range by.Unknown() {
		if name := j.in.Encoder.Sparse()[i].Name; n > m.Unknown[name] {
			m.Unknown[name] = n
		}
	}
	m.Outside, err = probe.outside(j.comm)
	return m, err
}
