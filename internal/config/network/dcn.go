package network

import "reflect"

// Cross is the own key of dcn_v2.
type Cross struct {
	Layers    int    `yaml:"layers"`
	Rank      int    `yaml:"rank"`      // 0: full
	Structure string `yaml:"structure"` // stacked or parallel
}

// dcnV2 is the network of DCN-v2 (Wang et al. 2021, "DCN V2: Improved Deep & Cross Network and
// Practical Lessons for Web-scale Learning to Rank Systems", §3). With x₀ = [e₁, …, e_F, d] and
// cross layers x_{l+1} = x₀ ⊙ (W_l·x_l + b_l) + x_l it is one of the paper's two structures:
//
//	stacked:  network = MLP(cross(x₀))
//	parallel: network = w·cross(x₀) + MLP(x₀)
//
// The paper has no wide logit.
func dcnV2() Kind {
	return Kind{
		Name: "dcn_v2", Paper: "Wang et al. 2021", Formula: "MLP(cross(x)) or MLP(x) + w cross(x)", NoWide: true,
		Own:   &Key{Name: "cross", About: "dcn_v2: the cross layers"},
		Terms: "cross layers",
		Parts: &Section{reflect.TypeFor[Cross](), "Cross layers of dcn_v2: x' = x0 * (W x + b) + x, element by element, from x = x0, the input.", []Key{
			{Name: "layers", Default: "3", About: "number of cross layers", Range: "[1, 16]"},
			{Name: "rank", Default: "0, full", About: "make W a product of two matrices of this inner width", Range: "[0, 65536]"},
			{Name: "structure", Default: "stacked", About: "stacked: the MLP reads the output of the cross layers; parallel: both read the input", Choices: []string{"stacked", "parallel"}},
		}},
		Fill: func(m *Model) {
			m.Cross.Layers = 3            // the paper finds two or three best
			m.Cross.Structure = "stacked" // better than parallel on Criteo in the paper
		},
		Build: func(b *Builder, m Model) error {
			crossed := b.Cross("cross", Input, m.Cross.Layers, m.Cross.Rank)
			if m.Cross.Structure != "parallel" {
				b.MLP(crossed)
				return nil
			}
			linear := b.Linear("cross/out", crossed, 1)
			b.Add(linear, b.MLP(Input))
			return nil
		},
	}
}
