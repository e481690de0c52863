// Package evaluate computes the metrics of a model on a data set in one pass. Each rank reads a
// part of the records, and all ranks get the same result. A training evaluates its validation and
// test data, and package apply evaluates other data.
package evaluate

import (
	"context"
	"errors"
	"io"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/train/input"
	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/internal/train/shared"
	"github.com/wdlrun/wdlrun/trace"
)

// Batch is the number of samples that a rank evaluates at a time.
const Batch = 1024

// Setup is what a rank evaluates with.
type Setup struct {
	shared.Rank
	Shown   *report.Status
	Config  *config.Config
	In      *input.Input
	Trainer *step.Trainer // has the tables, and computes the logits unless a pass has By
}

// Evaluator computes the logits of batches: a trainer, or the scorer of an exported model.
type Evaluator interface {
	Evaluate(next func() (*encode.Batch, error)) (metrics.Metrics, error)
	LogitsOf(label int) []float32
	Unknown() []int64
}

// Pass is a pass over the batches of a dataset.
type Pass struct {
	By       Evaluator                 // nil: the trainer
	Kept     *Breakdown                // gets the samples; nil: none
	Complete func(*encode.Batch)       // adds what the records of a prediction lack; may be nil
	Take     func(*encode.Batch) error // gets each batch once By has computed it; may be nil

	shown  *report.Status
	reader *data.Reader
	probe  *probe
	last   *encode.Batch // batch that By computes; nil before the first
}

// Over computes the metrics of the selected rows of a dataset.
func (s *Setup) Over(ctx context.Context, d *data.Dataset, rows data.Select, p Pass) (m report.Evaluated, err error) {
	s.Rec.Enter(trace.Eval)
	m.Absent = d.Absent()
	probe, encoder, err := newProbe(s.In, p.Kept)
	if err != nil {
		return m, err
	}
	reader, err := data.NewReader(d, encoder, data.ReaderConfig{
		GlobalBatch: Batch * s.Comm.Size(), Rank: s.Comm.Rank(), Size: s.Comm.Size(), Select: rows,
		Apart: p.Take == nil, // metrics do not depend on the order
	})
	if err != nil {
		return m, err
	}
	defer reader.Close()
	s.Shown.Read(reader)
	defer s.Shown.Read(nil)
	p.shown, p.reader, p.probe = s.Shown, reader, probe
	if p.By == nil {
		p.By = s.Trainer
	}
	if m.Metrics, err = p.By.Evaluate(func() (*encode.Batch, error) { return p.next(ctx) }); err != nil {
		return m, err
	}
	if m.Why, err = s.In.Unknown(probe.unknown(reader.Unknown())); err != nil {
		return m, err
	}
	for i, n := range p.By.Unknown() {
		name := s.In.Encoder.Sparse()[i].Name
		if u := m.Why[name]; n > u.Total() {
			u.Newer += n - u.Total()
			m.Why[name] = u
		}
	}
	m.Unknown = metrics.Totals(m.Why)
	if m.Outside, err = probe.sumOutside(s.Comm); err == nil && p.Kept != nil {
		p.Kept.dense = probe.dense(s.Config.Features, m.Samples)
	}
	return m, err
}

// next collects the logits of the last batch and returns the next batch, nil after the last.
func (p *Pass) next(ctx context.Context) (*encode.Batch, error) {
	if p.last != nil {
		b := p.probe.withoutProbed(p.last)
		p.probe.add(p.last, p.By.LogitsOf(0))
		if p.Take != nil {
			if err := p.Take(b); err != nil {
				return nil, err
			}
		}
		p.reader.Recycle(p.last)
		p.shown.Advance(1)
	}
	b, err := p.reader.Next(ctx)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if p.last = b; err != nil {
		return nil, err
	}
	if p.Complete != nil {
		p.Complete(b)
	}
	return p.probe.withoutProbed(b), nil
}

// WarnOfResult warns of results that no sound training has, and of data that differs from the
// training data.
func (s *Setup) WarnOfResult(m *report.Evaluated, what string) {
	for _, line := range m.Warnings(s.Config.Features, s.In.Encoder.Sparse(), what) {
		s.Warn(line)
	}
}
