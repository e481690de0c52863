package step

import (
	"github.com/wdlrun/wdlrun/dense"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/kernel/f32"
	"github.com/wdlrun/wdlrun/internal/model/layout"
)

// dcn is the network of DCN-v2 (Wang et al. 2021, "DCN V2: Improved Deep & Cross
// Network and Practical Lessons for Web-scale Learning to Rank Systems", §3).
// With x₀ = [e₁, …, e_F, d] and cross layers x_{l+1} = x₀ ⊙ (W_l·x_l + b_l) + x_l
// it is one of the paper's two structures:
//
//	stacked:  network = MLP(cross(x₀))
//	parallel: network = w·cross(x₀) + MLP(x₀)
//
// The paper has no wide logit, and neither has this model unless model.wide asks
// for it.
type dcn struct {
	*dense.MLP
	cross *dense.Cross
	out   *dense.Linear // parallel: logit of the cross network; nil: stacked
}

func newDCN(a *dense.Arena, c *config.Config, l layout.Layout, reduce func([]float32) error) (network, error) {
	x := c.Model.Cross
	n := &dcn{cross: dense.NewCross(a, "cross", l.Width, x.Layers, x.Rank)}
	if x.Structure == "parallel" {
		n.out = dense.NewLinear(a, "cross/out", l.Width, 1, false)
	}
	var err error
	n.MLP, err = newMLP(a, c, l.Width, reduce)
	return n, err
}

// Forward implements network.
func (n *dcn) Forward(x []float32, rows int, train bool) ([]float32, error) {
	at := x
	if n.out == nil {
		var err error
		if at, err = n.cross.Forward(x, rows, train); err != nil {
			return nil, err
		}
	}
	deep, err := n.MLP.Forward(at, rows, train)
	if err != nil || n.out == nil {
		return deep, err
	}
	return n.join(deep, x, rows, train)
}

// perceptron and join implement joined. The perceptron of the stacked structure reads the
// output of the cross network.
func (n *dcn) perceptron() *dense.MLP {
	if n.out == nil {
		return nil
	}
	return n.MLP
}

func (n *dcn) join(deep, x []float32, rows int, train bool) ([]float32, error) {
	crossed, err := n.cross.Forward(x, rows, train)
	if err != nil {
		return nil, err
	}
	linear, err := n.out.Forward(crossed, rows, train)
	for i, y := range deep {
		linear[i] += y
	}
	return linear, err
}

// Backward implements network.
func (n *dcn) Backward(dlogit []float32, rows int) ([]float32, error) {
	dx, err := n.MLP.Backward(dlogit, rows)
	if err != nil {
		return nil, err
	}
	if n.out == nil {
		return n.cross.Backward(dx, rows)
	}
	crossed, err := n.out.Backward(dlogit, rows)
	if err != nil {
		return nil, err
	}
	if crossed, err = n.cross.Backward(crossed, rows); err != nil {
		return nil, err
	}
	f32.AddTo(dx, crossed)
	return dx, nil
}

// NonFinite implements network.
func (n *dcn) NonFinite() (place string, found bool) {
	if place, found = n.cross.NonFinite(); found {
		return place, found
	}
	return n.MLP.NonFinite()
}
