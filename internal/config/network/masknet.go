package network

import (
	"fmt"
	"reflect"
)

// Mask is the own key of masknet.
type Mask struct {
	Blocks int `yaml:"blocks"`
	Width  int `yaml:"width"`  // of a block's output
	Hidden int `yaml:"hidden"` // width of a mask's hidden layer
}

// maskNet is the parallel network of MaskNet (Wang et al. 2021, "MaskNet: Introducing Feature-Wise
// Multiplication to CTR Ranking Models by Instance-Guided Mask", §3). With x = [e₁, …, e_F, d],
// each block multiplies the input by a mask that a perceptron computes from the whole input:
//
//	mask_i = W_i2·relu(W_i1·x + b_i1) + b_i2
//	block_i = relu(LN(W_i·(mask_i ⊙ LN(x)) + b_i))
//	network = MLP([block_1, …, block_n])
//
// LN normalises each embedding of the input by itself, and the hidden columns of a block together.
// Dense inputs d are not embedded, as in all kinds, so LN leaves them as they are.
func maskNet() Kind {
	return Kind{
		Name: "masknet", Paper: "Wang et al. 2021", Formula: "MLP(blocks of masked x)",
		Own:   &Key{Name: "mask", About: "masknet: the mask blocks"},
		Terms: "mask blocks",
		Parts: &Section{reflect.TypeFor[Mask](), "Mask blocks of masknet, which the MLP reads together: relu(LN(W (mask * LN(x)) + b)), element by element;\n" +
			"a mask is the output of a layer of relu and a linear layer over x. A GPU cannot compute them.\n" +
			"On small data other kinds may be better: of MovieLens (100,836 ratings) the test AUC was .774 to .778 with three seeds, with dcn_v2 .788 to .790.", []Key{
			{Name: "blocks", Default: "3", About: "number of blocks", Range: "[1, 16]"},
			{Name: "width", Default: "64", About: "width of the output of a block", Range: "[1, 65536]"},
			{Name: "hidden", Default: "128", About: "width of the hidden layer of a mask; the paper gives it as a multiple of the width of x, its reduction ratio", Range: "[1, 65536]"},
		}},
		Fill: func(m *Model) {
			// Does not depend on the input, so that a training with more features can begin with the model.
			m.Mask = Mask{Blocks: 3, Width: 64, Hidden: 128}
		},
		Build: func(b *Builder, m Model) error {
			var groups, blocks []int
			for _, f := range b.Shape.Fields {
				groups = append(groups, f.Cols)
			}
			width := b.Shape.Width()
			x := b.LayerNorm("mask/norm", Input, groups)
			for i := range m.Mask.Blocks {
				name := fmt.Sprintf("mask/block%d", i)
				mask := b.Gate(name+"/mask", Input, m.Mask.Hidden, width)
				y := b.Linear(name+"/linear", b.Multiply(name+"/product", mask, x), m.Mask.Width)
				y = b.LayerNorm(name+"/norm", y, []int{m.Mask.Width})
				blocks = append(blocks, b.Activation(name+"/relu", "relu", y))
			}
			b.MLP(b.Concat("mask/concat", blocks...))
			return nil
		},
	}
}
