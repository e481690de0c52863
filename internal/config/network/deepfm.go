package network

// deepFM is the network of DeepFM (Guo et al. 2017, "DeepFM: A Factorization-Machine based Neural
// Network for CTR Prediction", §2): the factorization machine and the perceptron read the same
// embeddings e,
//
//	network = Σ_{f<g} ⟨e_f, e_g⟩ + MLP([e₁, …, e_F, d])
//
// and the first-order term of the machine is the wide logit that all models have. All embeddings
// have one width. Dense inputs d enter only the perceptron. A numeric field takes part in the
// products if it is divided into intervals (encode: quantile), as the paper allows.
func deepFM() Kind {
	return Kind{
		Name: "deepfm", Paper: "Guo et al. 2017", Formula: "MLP(x) + products of all pairs of embeddings",
		Build: func(b *Builder, _ Model) error {
			if len(b.Shape.Fields) == 0 {
				b.MLP(Input)
				return nil
			}
			pairs, err := b.FM("fm")
			b.Add(b.MLP(Input), pairs)
			return err
		},
	}
}
