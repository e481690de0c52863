package evaluate

import (
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/train/report"
)

// Reduce sums the breakdowns of all ranks after the evaluation m. groups and q are nil if the
// breakdown does not have them, or is nil.
func (b *Breakdown) Reduce(s *Setup, m *report.Evaluated) (groups *metrics.GroupMetrics, q *metrics.Quality, err error) {
	if b == nil {
		return nil, nil, nil
	}
	if b.group != nil {
		all, err := b.group.groups.Reduce(s.Comm)
		if err != nil {
			return nil, nil, err
		}
		all.Field, groups = b.fields[b.group.entry].name, &all
	}
	if b.tally == nil {
		return groups, nil, nil
	}
	if _, err := b.tally.Reduce(s.Comm); err != nil {
		return nil, nil, err
	}
	all := b.tally.Quality()
	for _, f := range b.slices {
		list, err := f.slices(s.Comm)
		if err != nil {
			return nil, nil, err
		}
		list.Field = b.fields[f.entry].name
		all.Slices = append(all.Slices, list)
	}
	all.DenseInputs = b.dense
	all.Features, err = s.features(&b.covers, m)
	return groups, &all, err
}

// features returns the reports about the sparse columns of the evaluation m.
func (s *Setup) features(c *coverage, m *report.Evaluated) (all []metrics.Feature, err error) {
	columns := s.In.Encoder.Sparse()
	sums := make([]int64, 2*len(columns))
	copy(sums, c.covered)
	copy(sums[len(columns):], c.values)
	if err := collective.AllReduce(s.Comm, sums, collective.Sum); err != nil {
		return nil, err
	}
	n, err := s.norms(nil)
	if err != nil {
		return nil, err
	}
	table := map[string]int{}
	for i, t := range s.Trainer.Store().Config().Tables {
		table[t.Name] = i
	}
	for i, col := range columns {
		at := table[col.Table]
		f := metrics.Feature{Feature: col.Name, Table: col.Table, Values: sums[len(columns)+i], Unknown: m.Unknown[col.Name], Rows: n.rows[at]}
		if !col.Cross {
			share := float64(sums[i]) / float64(max(1, m.Samples))
			f.Coverage = &share
		}
		if h := metrics.HistogramOf(n.of[at]); len(h.Counts) > 0 {
			f.Norms = []float64{h.Quantile(0.1), h.Quantile(0.5), h.Quantile(0.9)}
		}
		all = append(all, f)
	}
	return all, nil
}
