package step

import (
	"fmt"

	"github.com/wdlrun/wdlrun/dense"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/model/layout"
)

// deepFM is the network of DeepFM (Guo et al. 2017, "DeepFM: A
// Factorization-Machine based Neural Network for CTR Prediction", §2): the
// factorization machine and the perceptron read the same embeddings e,
//
//	network = Σ_{f<g} ⟨e_f, e_g⟩ + MLP([e₁, …, e_F, d])
//
// and the first-order term of the machine is the wide logit that all models
// have. All embeddings have one width E. Dense inputs d go to the perceptron
// only. A numeric field takes part in the products if it is divided into intervals
// (encode: quantile), as the paper allows.
type deepFM struct {
	*dense.MLP
	fm *dense.FM
}

func newDeepFM(a *dense.Arena, c *config.Config, l layout.Layout, reduce func([]float32) error) (network, error) {
	fields, embed, err := oneWidth(l, "deepfm: a factorization machine")
	if err != nil {
		return nil, err
	}
	mlp, err := newMLP(a, c, l.Width, reduce)
	if err != nil {
		return nil, err
	}
	return &deepFM{mlp, dense.NewFM("fm", fields, embed, l.Width)}, nil
}

// oneWidth returns the number of features in the network and the width of their embeddings.
// It fails if widths differ. what names the part of the model that requires one width.
func oneWidth(l layout.Layout, what string) (fields, embed int, err error) {
	for _, f := range l.Features {
		if f.DeepPart < 0 {
			continue
		}
		dim := l.Tables[f.Table].Parts[f.DeepPart].Dim
		if fields++; fields > 1 && dim != embed {
			return 0, 0, fmt.Errorf("%s needs embeddings of one width: feature %s has %d columns, others have %d", what, f.Name, dim, embed)
		}
		embed = dim
	}
	return fields, embed, nil
}

// parts implements byRows.
func (n *deepFM) parts() (*dense.MLP, *dense.FM) { return n.MLP, n.fm }

// Forward implements network.
func (n *deepFM) Forward(x []float32, rows int, train bool) ([]float32, error) {
	deep, err := n.MLP.Forward(x, rows, train)
	if err != nil {
		return nil, err
	}
	return n.join(deep, x, rows, train)
}

// perceptron and join implement joined.
func (n *deepFM) perceptron() *dense.MLP { return n.MLP }

func (n *deepFM) join(deep, x []float32, rows int, train bool) ([]float32, error) {
	pairs, err := n.fm.Forward(x, rows, train)
	for i, p := range pairs {
		deep[i] += p
	}
	return deep, err
}

// Backward implements network. The last layer of the MLP is linear and leaves
// dlogit as it is.
func (n *deepFM) Backward(dlogit []float32, rows int) ([]float32, error) {
	dx, err := n.MLP.Backward(dlogit, rows)
	if err == nil {
		n.fm.AddBackward(dx, dlogit, rows)
	}
	return dx, err
}
