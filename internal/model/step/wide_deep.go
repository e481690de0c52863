package step

import (
	"github.com/wdlrun/wdlrun/dense"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/model/layout"
)

// newWideDeep makes the network of Wide & Deep (Cheng et al. 2016, "Wide & Deep
// Learning for Recommender Systems", §3): in addition to the wide logit that all models
// have, a perceptron over the embeddings e of the features and the dense inputs
// d,
//
//	network = MLP([e₁, …, e_F, d])
func newWideDeep(a *dense.Arena, c *config.Config, l layout.Layout, reduce func([]float32) error) (network, error) {
	return newMLP(a, c, l.Width, reduce)
}
