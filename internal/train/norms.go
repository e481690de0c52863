package train

import (
	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/sparse"
)

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
	d, err := r.evaluation().Distributions(at, r.gradients)
	if err == nil && r.Comm.Rank() == 0 {
		r.report.AppendDistributions(&d)
	}
	return err
}
