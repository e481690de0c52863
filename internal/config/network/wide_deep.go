package network

// wideDeep is the network of Wide & Deep (Cheng et al. 2016, "Wide & Deep Learning for Recommender
// Systems", §3): in addition to the wide logit that all models have, a perceptron over the
// embeddings e of the features and the dense inputs d,
//
//	network = MLP([e₁, …, e_F, d])
func wideDeep() Kind {
	return Kind{
		Name: Default, Paper: "Cheng et al. 2016", Formula: "MLP(x)",
		Build: func(b *Builder, _ Model) error {
			b.MLP(Input)
			return nil
		},
	}
}
