package wdl

import (
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/wdl/layout"
	"github.com/wdlrun/wdlrun/internal/wdl/metrics"
	"github.com/wdlrun/wdlrun/internal/wdl/report"
	"github.com/wdlrun/wdlrun/internal/wdl/step"
	"github.com/wdlrun/wdlrun/sparse"
)

// measuredRows is the approximate number of rows measured per table.
const measuredRows = 1 << 14

// norms holds, by table, the number of rows over all ranks, the norms of a sample of them,
// and the norms of the gradients counted since the last call.
type norms struct {
	rows  []int64
	of    []*metrics.NormCounts
	grads []*metrics.NormCounts // all zero if gradients are not counted
}

// norms measures the tables. All ranks call it and get the same result.
func (r *run) norms() (n norms, err error) {
	store := r.trainer.Store()
	tables := len(store.Config().Tables)
	n.rows = make([]int64, tables)
	for i := range n.rows {
		n.rows[i] = int64(store.Rows(i))
	}
	if err := collective.AllReduce(r.comm, n.rows, collective.Sum); err != nil {
		return n, err
	}
	flat := make([]int64, 2*tables*metrics.NormBins)
	for i := range 2 * tables {
		c := (*metrics.NormCounts)(flat[i*metrics.NormBins:])
		if i >= tables {
			n.grads = append(n.grads, c)
			if r.gradients != nil {
				g := &r.gradients[i-tables]
				*c, *g = *g, metrics.NormCounts{}
			}
			continue
		}
		n.of = append(n.of, c)
		shards := int64(layout.Shards)
		if n.rows[i] > measuredRows {
			shards = (shards*measuredRows + n.rows[i] - 1) / n.rows[i]
		}
		if err := store.RowNorms(i, 0, int(shards), c.Add); err != nil {
			return n, err
		}
	}
	return n, collective.AllReduce(r.comm, flat, collective.Sum)
}

// gradientSteps is the number of steps between two whose gradients are counted. Computing
// their norms takes a few percent of an update.
const gradientSteps = 16

// countGradients counts the norms of gradients in every gradientSteps-th step from now on.
func (r *run) countGradients(store *sparse.Store) {
	r.gradients = make([]metrics.NormCounts, len(store.Config().Tables))
	store.ObserveGradients(gradientSteps, func(table int, norm float64) { r.gradients[table].Add(norm) })
}

// keepDistributions writes the distributions of an evaluation. All ranks call it after the
// evaluation.
func (r *run) keepDistributions(at int64) error {
	n, err := r.norms()
	if err != nil || r.comm.Rank() != 0 {
		return err
	}
	d := metrics.Distributions{Step: at, Time: time.Now().UTC(), Tables: []metrics.TableNorms{}, PR: step.ThresholdsOf(r.trainer)}
	for i, t := range r.trainer.Store().Config().Tables {
		d.Tables = append(d.Tables, metrics.TableNorms{Table: t.Name, Embeddings: metrics.HistogramOf(n.of[i]), Gradients: metrics.HistogramOf(n.grads[i])})
	}
	r.report.Keep(&d)
	return nil
}

// features returns the reports about the sparse columns of the evaluation m.
func (r *run) features(c *coverage, m *report.Evaluated) (all []metrics.Feature, err error) {
	columns := r.in.Encoder.Sparse()
	sums := make([]int64, 2*len(columns))
	copy(sums, c.covered)
	copy(sums[len(columns):], c.values)
	if err := collective.AllReduce(r.comm, sums, collective.Sum); err != nil {
		return nil, err
	}
	n, err := r.norms()
	if err != nil {
		return nil, err
	}
	table := map[string]int{}
	for i, t := range r.trainer.Store().Config().Tables {
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
