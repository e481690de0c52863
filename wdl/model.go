package wdl

import (
	"fmt"

	"github.com/wdlrun/wdlrun/data"
	"github.com/wdlrun/wdlrun/dense"
	"github.com/wdlrun/wdlrun/internal/f32"
	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/wdl/config"
)

// The scalars that ride behind the dense gradients in their allreduce.
const (
	tailRows  = iota // samples of the step
	tailLoss         // sum of their log-losses
	tailSave         // > 0: some rank was asked for a checkpoint
	tailStop         // > 0: some rank was asked to stop
	tailWidth = iota
)

// model is the Wide & Deep network (Cheng et al. 2016) of one rank:
//
//	logit = bias + Σ wide weights of the sample's keys + MLP([pooled embeddings, dense inputs])
//
// It keeps the activations of one batch between forward and backward.
type model struct {
	layout layout
	store  *sparse.Store
	lookup *sparse.Lookup
	arena  *dense.Arena
	mlp    *dense.MLP   // nil: wide model only
	bias   *dense.Param // of the wide model; nil: deep model only

	bags   []sparse.Bags // F of the current batch
	x      []float32     // B × width: the MLP's input
	logit  []float32     // B
	dlogit []float32     // B: gradient of the summed loss by the logit
}

// newModel builds the model. memory makes the buffer of the dense gradients, and
// reduce sums the statistics of batch normalisation over the ranks.
func newModel(c *config.Config, l layout, store *sparse.Store, memory func(n int) []float32, reduce func([]float32) error) (*model, error) {
	m := &model{layout: l, store: store, lookup: store.NewLookup(), arena: new(dense.Arena), bags: make([]sparse.Bags, len(l.features))}
	if *c.Model.Wide {
		m.bias = m.arena.Add(dense.Param{Name: "wide/bias", Rows: 1, Cols: 1})
	}
	if *c.Model.Deep {
		mlp, err := dense.NewMLP(m.arena, "deep", dense.Spec{
			In: l.width, Hidden: c.Model.Hidden, Out: 1, Activation: c.Model.Activation,
			BatchNorm: c.Model.BatchNorm, Dropout: c.Model.Dropout,
		})
		if err != nil {
			return nil, err
		}
		mlp.Synchronise(reduce)
		m.mlp = mlp
	}
	o := c.Train.Optimizer
	return m, m.arena.Build(dense.Config{Seed: c.Train.Seed, Tail: tailWidth, Memory: memory, Groups: []dense.Group{
		{Prefix: "wide/", Rule: o.Wide},
		{Prefix: "deep/", Rule: o.Dense, L2: c.Train.L2.Dense},
	}})
}

// pull brings the rows of the batch's keys.
func (m *model) pull(b *data.Batch, train bool) error {
	for f, ft := range m.layout.features {
		j := b.Sparse[f]
		m.bags[f] = sparse.Bags{
			Table: ft.table, Values: j.Values, Offsets: j.Offsets, Weights: j.Weights, Pooling: ft.pooling,
		}
	}
	return m.store.Pull(m.lookup, m.bags, train)
}

// forward computes the logits of the pulled batch and returns the sum of the
// samples' log-losses; dlogit holds its gradient.
func (m *model) forward(b *data.Batch, train bool) (float64, error) {
	m.grow(b.Rows)
	if m.mlp != nil {
		m.input(b)
		y, err := m.mlp.Forward(m.x, b.Rows, train)
		if err != nil {
			return 0, err
		}
		copy(m.logit, y)
	} else {
		clear(m.logit)
	}
	if m.bias != nil {
		for i := range m.logit {
			m.logit[i] += m.bias.Value[0]
		}
		for f, ft := range m.layout.features {
			if ft.widePart >= 0 {
				m.lookup.Pool(f, ft.widePart, m.logit, 1, true)
			}
		}
	}
	return dense.LogLoss(m.dlogit, m.logit, b.Label), nil
}

// input fills the MLP's input: the pooled embeddings of each feature, then the
// dense inputs.
func (m *model) input(b *data.Batch) {
	w, d := m.layout.width, m.layout.dense
	for f, ft := range m.layout.features {
		if ft.deepPart >= 0 {
			m.lookup.Pool(f, ft.deepPart, from(m.x, ft.deepCol), w, false)
		}
	}
	for i := range b.Rows {
		copy(m.x[i*w+w-d:(i+1)*w], b.Dense[i*d:(i+1)*d])
	}
}

// backward leaves the gradients of the summed loss in the arena and the lookup.
func (m *model) backward(b *data.Batch) error {
	m.arena.ZeroGrad()
	if m.bias != nil {
		for _, g := range m.dlogit {
			m.bias.Grad[0] += g
		}
		for f, ft := range m.layout.features {
			if ft.widePart >= 0 {
				m.lookup.PoolGrad(f, ft.widePart, m.dlogit, 1)
			}
		}
	}
	if m.mlp == nil {
		return nil
	}
	dx, err := m.mlp.Backward(m.dlogit, b.Rows)
	if err != nil {
		return err
	}
	for f, ft := range m.layout.features {
		if ft.deepPart >= 0 {
			m.lookup.PoolGrad(f, ft.deepPart, from(dx, ft.deepCol), m.layout.width)
		}
	}
	return nil
}

// from is x[i:], and empty for an empty batch.
func from(x []float32, i int) []float32 { return x[min(i, len(x)):] }

func (m *model) grow(rows int) {
	if cap(m.logit) < rows {
		m.logit = make([]float32, rows)
		m.dlogit = make([]float32, rows)
		m.x = make([]float32, rows*m.layout.width)
	}
	m.logit, m.dlogit, m.x = m.logit[:rows], m.dlogit[:rows], m.x[:rows*m.layout.width]
}

// nonFinite explains a loss that is no number: the first place, in the order of
// the computation, that holds a NaN or an infinity.
func (m *model) nonFinite(b *data.Batch, dense []string) error {
	if i := f32.FirstNonFinite(b.Dense); i >= 0 {
		return fmt.Errorf("dense input %s of row %d is %v", dense[i%m.layout.dense], b.RowID[i/m.layout.dense], b.Dense[i])
	}
	if table, key, ok := m.lookup.NonFinite(); ok {
		return fmt.Errorf("the row of key %d in table %s holds a value that is no finite number; a smaller learning rate or clip_norm may prevent it", key, table)
	}
	if m.mlp != nil {
		if place, ok := m.mlp.NonFinite(); ok {
			return fmt.Errorf("%s is no finite number; a smaller learning rate or clip_norm may prevent it", place)
		}
	}
	if m.bias != nil && f32.FirstNonFinite(m.bias.Value) >= 0 {
		return fmt.Errorf("the wide bias is no finite number; a smaller learning rate or clip_norm may prevent it")
	}
	return fmt.Errorf("no parameter or activation is non-finite, but the sum of the losses is")
}
