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

// evalBatch is the number of samples that a rank evaluates at a time.
const evalBatch = 1024

// evaluator computes the logits of batches: a trainer, or the scorer of an exported model.
type evaluator interface {
	Evaluate(next func() (*encode.Batch, error)) (metrics.Metrics, error)
	LogitsOf(label int) []float32
	Unknown() []int64
}

// pass evaluates the batches of a dataset.
type pass struct {
	by       evaluator                 // nil: the trainer
	kept     *breakdown                // gets the samples; nil: none
	complete func(*encode.Batch)       // adds what the records of a prediction lack; may be nil
	take     func(*encode.Batch) error // gets each batch once by has computed it; may be nil

	run    *run
	reader *data.Reader
	probe  *probe
	last   *encode.Batch // batch that by computes; nil before the first
}

// evaluate computes the metrics of the selected rows of a dataset.
func (r *run) evaluate(ctx context.Context, d *data.Dataset, rows data.Select, p pass) (m report.Evaluated, err error) {
	r.rec.Enter(trace.Eval)
	m.Absent = d.Absent()
	probe, encoder, err := newProbe(r.in, p.kept)
	if err != nil {
		return m, err
	}
	reader, err := data.NewReader(d, encoder, data.ReaderConfig{
		GlobalBatch: evalBatch * r.comm.Size(), Rank: r.comm.Rank(), Size: r.comm.Size(), Select: rows,
	})
	if err != nil {
		return m, err
	}
	defer reader.Close()
	r.shown.Read(reader)
	defer r.shown.Read(nil)
	p.run, p.reader, p.probe = r, reader, probe
	if p.by == nil {
		p.by = r.trainer
	}
	if m.Metrics, err = p.by.Evaluate(func() (*encode.Batch, error) { return p.next(ctx) }); err != nil {
		return m, err
	}
	if m.Unknown, err = r.in.Unknown(probe.unknown(reader.Unknown())); err != nil {
		return m, err
	}
	for i, n := range p.by.Unknown() {
		if name := r.in.Encoder.Sparse()[i].Name; n > m.Unknown[name] {
			m.Unknown[name] = n
		}
	}
	if m.Outside, err = probe.outside(r.comm); err == nil && p.kept != nil {
		p.kept.dense = probe.dense(r.config.Features, m.Samples)
	}
	return m, err
}

// next collects the logits of the last batch and returns the next batch, nil after the last.
func (p *pass) next(ctx context.Context) (*encode.Batch, error) {
	if p.last != nil {
		b := p.probe.without(p.last)
		p.probe.add(p.last, p.by.LogitsOf(0))
		if p.take != nil {
			if err := p.take(b); err != nil {
				return nil, err
			}
		}
		p.reader.Recycle(p.last)
		p.run.shown.Advance(1)
	}
	b, err := p.reader.Next(ctx)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if p.last = b; err != nil {
		return nil, err
	}
	if p.complete != nil {
		p.complete(b)
	}
	return p.probe.without(b), nil
}

// warnOfDoubts warns of results that no sound training has, and of data that differs from the
// training data.
func (r *run) warnOfDoubts(m *report.Evaluated, what string) {
	for _, line := range m.Doubts(r.config.Features, r.in.Encoder.Sparse(), what) {
		r.warn(line)
	}
}
