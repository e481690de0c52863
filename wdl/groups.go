package wdl

import (
	"slices"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/data/encode"
	"github.com/wdlrun/wdlrun/wdl/metrics"
)

// groupEvaluation computes metrics by group, beside those of all samples. The nil one
// computes none.
type groupEvaluation struct {
	*metrics.Groups
	place int          // of the group in Batch.Sparse
	view  encode.Batch // the model's part of the last batch
}

// encoder is the one that batches of the evaluation are made by.
func (g *groupEvaluation) encoder(j *job) (e *encode.Encoder, err error) {
	if g == nil {
		return j.encoder, nil
	}
	e, g.place, err = j.encoder.WithGroup(j.eval.Group)
	return e, err
}

// without is a batch as the model knows it.
func (g *groupEvaluation) without(b *encode.Batch) *encode.Batch {
	if g == nil || b == nil {
		return b
	}
	sparse := append(g.view.Sparse[:0], b.Sparse[:g.place]...)
	g.view = *b
	g.view.Sparse = append(sparse, b.Sparse[g.place+1:]...)
	return &g.view
}

// counts are those of the model's features.
func (g *groupEvaluation) counts(n []int64) []int64 {
	if g == nil {
		return n
	}
	return slices.Delete(n, g.place, g.place+1)
}

// add takes in the logits of a batch.
func (g *groupEvaluation) add(b *encode.Batch, logit []float32) {
	if g == nil {
		return
	}
	for i, group := range b.Sparse[g.place].Values {
		weight := float32(1)
		if b.Weight != nil {
			weight = b.Weight[i]
		}
		if group == encode.KeyMissing {
			g.Miss()
		} else {
			g.Add(group, logit[i], b.Label[i], weight)
		}
	}
}

func (g *groupEvaluation) reduce(c *collective.Comm, field string) (*metrics.GroupMetrics, error) {
	m, err := g.Reduce(c)
	m.Field = field
	return &m, err
}
