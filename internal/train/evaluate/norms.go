package evaluate

import (
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/model/step"
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

// norms measures the tables and moves the counts of gradients, by table, from gradients. All ranks
// call it and get the same result.
func (s *Setup) norms(gradients []metrics.NormCounts) (n norms, err error) {
	store := s.Trainer.Store()
	tables := len(store.Config().Tables)
	n.rows = make([]int64, tables)
	for i := range n.rows {
		n.rows[i] = int64(store.Rows(i))
	}
	if err := collective.AllReduce(s.Comm, n.rows, collective.Sum); err != nil {
		return n, err
	}
	flat := make([]int64, 2*tables*metrics.NormBins)
	for i := range 2 * tables {
		c := (*metrics.NormCounts)(flat[i*metrics.NormBins:])
		if i >= tables {
			n.grads = append(n.grads, c)
			if gradients != nil {
				g := &gradients[i-tables]
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
	return n, collective.AllReduce(s.Comm, flat, collective.Sum)
}

// Distributions returns the distributions of the tables after an evaluation of step at. gradients
// holds the norms of gradients, by table, since the last call, and is set to zero; nil: none are
// counted. All ranks call it.
func (s *Setup) Distributions(at int64, gradients []metrics.NormCounts) (d metrics.Distributions, err error) {
	n, err := s.norms(gradients)
	if err != nil {
		return d, err
	}
	d = metrics.Distributions{Step: at, Time: time.Now().UTC(), Tables: []metrics.TableNorms{}, PR: step.ThresholdsOf(s.Trainer)}
	for i, t := range s.Trainer.Store().Config().Tables {
		d.Tables = append(d.Tables, metrics.TableNorms{Table: t.Name, Embeddings: metrics.HistogramOf(n.of[i]), Gradients: metrics.HistogramOf(n.grads[i])})
	}
	return d, nil
}
