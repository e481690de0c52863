package step

import (
	"errors"

	"github.com/wdlrun/wdlrun/dense"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/kernel/f32"
	"github.com/wdlrun/wdlrun/internal/model/layout"
)

// xDeepFM is the network of xDeepFM (Lian et al. 2018, "xDeepFM: Combining Explicit
// and Implicit Feature Interactions for Recommender Systems", §3.3): a compressed
// interaction network and the perceptron read the same embeddings e,
//
//	network = w·CIN([e₁, …, e_F]) + MLP([e₁, …, e_F, d])
//
// and the paper's linear part is the wide logit that all models have. All embeddings
// have one width. Dense inputs d enter only the perceptron.
type xDeepFM struct {
	*dense.MLP
	cin *dense.CIN
	out *dense.Linear // w
}

func newXDeepFM(a *dense.Arena, c *config.Config, l layout.Layout, reduce func([]float32) error) (network, error) {
	fields, embed, err := oneWidth(l, "xdeepfm: the interaction network")
	if err != nil {
		return nil, err
	}
	if fields == 0 {
		return nil, errors.New("xdeepfm: no feature has embeddings, and the interaction network needs at least one: use wide_deep")
	}
	n := &xDeepFM{cin: dense.NewCIN(a, "cin", fields, embed, l.Width, c.Model.CIN)}
	n.out = dense.NewLinear(a, "cin/out", n.cin.Out(), 1, false)
	n.MLP, err = newMLP(a, c, l.Width, reduce)
	return n, err
}

// Forward implements network.
func (n *xDeepFM) Forward(x []float32, rows int, train bool) ([]float32, error) {
	implicit, err := n.MLP.Forward(x, rows, train)
	if err != nil {
		return nil, err
	}
	return n.join(implicit, x, rows, train)
}

// perceptron and join implement joined.
func (n *xDeepFM) perceptron() *dense.MLP { return n.MLP }

func (n *xDeepFM) join(implicit, x []float32, rows int, train bool) ([]float32, error) {
	explicit, err := n.out.Forward(n.cin.Forward(x, rows), rows, train)
	if err == nil {
		f32.AddTo(explicit, implicit)
	}
	return explicit, err
}

// Backward implements network.
func (n *xDeepFM) Backward(dlogit []float32, rows int) ([]float32, error) {
	dx, err := n.MLP.Backward(dlogit, rows)
	if err != nil {
		return nil, err
	}
	explicit, err := n.out.Backward(dlogit, rows)
	if err == nil {
		n.cin.AddBackward(dx, explicit, rows)
	}
	return dx, err
}

// NonFinite implements network.
func (n *xDeepFM) NonFinite() (place string, found bool) {
	if place, found = n.cin.NonFinite(); found {
		return place, found
	}
	return n.MLP.NonFinite()
}
