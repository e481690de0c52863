package evaluate

import (
	"slices"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/train/input"
	"github.com/wdlrun/wdlrun/internal/train/report"
)

// probe collects what an evaluation reports besides the metrics of all samples: numbers
// outside the range of training and the samples of a breakdown. It reads entries of
// Batch.Sparse that are added for it and hides them from the model.
type probe struct {
	ranges []encode.Range
	counts []int64      // two per range: values, values outside
	kept   *Breakdown   // nil: none
	first  int          // index of its first entry; the entries for kept are last
	end    int          // index after its last entry
	view   encode.Batch // the model's part of the last batch
}

// newProbe returns the probe of an evaluation and the encoder of its batches.
func newProbe(in *input.Input, kept *Breakdown) (p *probe, e *encode.Encoder, err error) {
	p = &probe{kept: kept}
	if e, p.ranges, p.first, err = in.Encoder.WithRanges(kept != nil && kept.tally != nil); err != nil {
		return nil, nil, err
	}
	p.counts, p.end = make([]int64, 2*len(p.ranges)), p.first+len(p.ranges)
	if kept != nil {
		for _, f := range kept.fields {
			if f.edges != nil {
				e, err = e.WithIntervals(f.name, f.edges)
			} else {
				e, _, err = e.WithGroup(f.name)
			}
			if err != nil {
				return nil, nil, err
			}
			p.end++
		}
	}
	return p, e, nil
}

// withoutProbed returns a batch without the entries of the probe.
func (p *probe) withoutProbed(b *encode.Batch) *encode.Batch {
	if p.first == p.end || b == nil {
		return b
	}
	sparse := append(p.view.Sparse[:0], b.Sparse[:p.first]...)
	p.view = *b
	p.view.Sparse = append(sparse, b.Sparse[p.end:]...)
	return &p.view
}

// unknown removes the counts of the probe's entries from n, the counts of all entries.
func (p *probe) unknown(n []int64) []int64 {
	return slices.Delete(n, encode.Reasons*p.first, encode.Reasons*p.end)
}

// add adds a batch and its logits.
func (p *probe) add(b *encode.Batch, logit []float32) {
	for i := range p.ranges {
		values, outside := encode.Outside(b.Sparse[p.first+i].Values)
		p.counts[2*i] += values
		p.counts[2*i+1] += outside
	}
	if p.kept != nil {
		p.kept.add(p.withoutProbed(b), b.Sparse[p.first+len(p.ranges):p.end], logit)
	}
}

// sumOutside sums the counts of all ranks, and returns the fields with numbers outside their
// range.
func (p *probe) sumOutside(c *collective.Comm) (fields []report.Outside, err error) {
	if err := collective.AllReduce(c, p.counts, collective.Sum); err != nil {
		return nil, err
	}
	for i, r := range p.ranges {
		if n := p.counts[2*i+1]; n > 0 && !r.Unknown {
			fields = append(fields, report.Outside{Field: r.Field, Values: p.counts[2*i], Outside: n, Min: r.Least, Max: r.Most})
		}
	}
	return fields, nil
}

// dense returns the reports about the dense inputs of an evaluation of the given number of
// samples, after outside.
func (p *probe) dense(features []schema.Feature, samples int64) (all []metrics.DenseInput) {
	for _, f := range features {
		if enc, _ := schema.EncodingOf(f.Encode); enc.Sparse() {
			continue
		}
		d := metrics.DenseInput{Input: f.Name, Field: f.Field}
		if i := slices.IndexFunc(p.ranges, func(r encode.Range) bool { return r.Field == f.Field }); i >= 0 {
			share := float64(p.counts[2*i]) / float64(max(1, samples))
			d.Coverage, d.Values = &share, p.counts[2*i]
			if r := p.ranges[i]; !r.Unknown {
				d.Outside, d.Min, d.Max = &p.counts[2*i+1], &r.Least, &r.Most
			}
		}
		all = append(all, d)
	}
	return all
}
