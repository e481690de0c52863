package network

import (
	"errors"
	"fmt"
)

// xDeepFM is the network of xDeepFM (Lian et al. 2018, "xDeepFM: Combining Explicit and Implicit
// Feature Interactions for Recommender Systems", §3.3): a compressed interaction network and the
// perceptron read the same embeddings e,
//
//	network = w·CIN([e₁, …, e_F]) + MLP([e₁, …, e_F, d])
//
// and the paper's linear part is the wide logit that all models have. All embeddings have one
// width. Dense inputs d enter only the perceptron.
func xDeepFM() Kind {
	return Kind{
		Name: "xdeepfm", Paper: "Lian et al. 2018", Formula: "MLP(x) + w CIN(embeddings)",
		Own:   &Key{Name: "cin", About: "xdeepfm: feature maps of each layer of its interaction network, [32, 32] by default, up to 16 layers; the cost grows with the product of two layers' maps", Range: "[1, 4096]", Filled: true},
		Terms: "an interaction network",
		Fill: func(m *Model) {
			// The paper uses 100 to 200 maps and finds a depth of 2 or 3 best. A layer of 200 over 200
			// maps costs 40 times as much as one of 32 over 32.
			m.CIN = []int{32, 32}
		},
		Check: func(m *Model) string {
			if most := 16; len(m.CIN) > most {
				return fmt.Sprintf("has %d layers, at most %d are possible", len(m.CIN), most)
			}
			return ""
		},
		Build: func(b *Builder, m Model) error {
			if len(b.Shape.Fields) == 0 {
				return errors.New("no feature has embeddings, and the interaction network needs at least one: use wide_deep")
			}
			maps, err := b.CIN("cin", m.CIN)
			explicit := b.Linear("cin/out", maps, 1)
			b.Add(explicit, b.MLP(Input))
			return err
		},
	}
}
