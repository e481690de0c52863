package network

import "fmt"

// Builder adds operations to a network. Its methods return the number of the operation whose value
// is the result.
type Builder struct {
	Network
	model Model
}

func (b *Builder) add(o Op) int {
	b.Ops = append(b.Ops, o)
	return len(b.Ops) - 1
}

// weights returns the parameters of a linear layer.
func weights(name string, in, out int, biased bool) []Param {
	all := []Param{{name + "/weight", in, out}}
	if biased {
		all = append(all, Param{name + "/bias", 1, out})
	}
	return all
}

// Linear adds x·W + b.
func (b *Builder) Linear(name string, x, out int) int {
	return b.add(Op{Kind: Linear, Name: name, In: []int{x}, Cols: out, Params: weights(name, b.Cols(x), out, true)})
}

// MLP adds the perceptron of model.hidden, deep/…, with one output.
func (b *Builder) MLP(x int) int {
	m := b.model
	return b.perceptron("deep", x, m.Hidden, 1, m)
}

// Gate adds a perceptron with one hidden layer, which has relu and no other setting of the model.
func (b *Builder) Gate(name string, x, hidden, out int) int {
	return b.perceptron(name, x, []int{hidden}, out, Model{Activation: "relu", Weights: b.model.Weights})
}

func (b *Builder) perceptron(name string, x int, hidden []int, out int, m Model) int {
	layer := func(o Op, kind string, i int) {
		o.Part, o.In = name, []int{x}
		if o.Name = name + "/" + kind; i >= 0 {
			o.Name += fmt.Sprint(i)
		}
		switch o.Kind {
		case Linear:
			o.Params = weights(o.Name, b.Cols(x), o.Cols, true)
		case BatchNorm:
			o.Params = scaleShift(o.Name, o.Cols)
		}
		x = b.add(o)
	}
	for i, h := range hidden {
		layer(Op{Kind: Linear, Cols: h}, "linear", i)
		if m.BatchNorm {
			layer(Op{Kind: BatchNorm, Cols: h, Setting: "model.batch_norm"}, "norm", i)
		}
		layer(Op{Kind: Activation, Cols: h, Act: m.Activation, Setting: "model.activation"}, m.Activation, i)
		if m.Dropout > 0 {
			layer(Op{Kind: Dropout, Cols: h, Rate: m.Dropout, Setting: "model.dropout"}, "dropout", i)
		}
	}
	layer(Op{Kind: Linear, Cols: out}, "out", -1)
	return x
}

func scaleShift(name string, cols int) []Param {
	return []Param{{name + "/scale", 1, cols}, {name + "/shift", 1, cols}}
}

// LayerNorm adds the normalisation of groups of columns with these widths (Ba et al. 2016, "Layer
// Normalization"). Columns after the last group are copied.
func (b *Builder) LayerNorm(name string, x int, groups []int) int {
	sum := 0
	for _, n := range groups {
		sum += n
	}
	return b.add(Op{Kind: LayerNorm, Name: name, In: []int{x}, Cols: b.Cols(x), Groups: groups, Params: scaleShift(name, sum)})
}

// Activation adds a function of each element.
func (b *Builder) Activation(name, act string, x int) int {
	return b.add(Op{Kind: Activation, Name: name, In: []int{x}, Cols: b.Cols(x), Act: act})
}

// Cross adds layers cross layers over x.
func (b *Builder) Cross(name string, x, layers, rank int) int {
	x0, width := x, b.Cols(x)
	for i := range layers {
		o := Op{Kind: CrossLayer, Name: fmt.Sprintf("%s/cross%d", name, i), In: []int{x0, x}, Cols: width, Rank: rank}
		in := width
		if rank > 0 {
			o.Params = weights(fmt.Sprintf("%s/narrow%d", name, i), width, rank, false)
			in = rank
		}
		o.Params = append(o.Params, weights(o.Name, in, width, true)...)
		x = b.add(o)
	}
	return x
}

// oneWidth returns an error unless the embeddings have one width. what names the part of the model
// that requires it.
func (b *Builder) oneWidth(what string) error {
	for _, f := range b.Shape.Fields {
		if first := b.Shape.Fields[0].Cols; f.Cols != first {
			return fmt.Errorf("%s needs embeddings of one width: feature %s has %d columns, others have %d", what, f.Name, f.Cols, first)
		}
	}
	return nil
}

// FM adds the factorization machine of the input.
func (b *Builder) FM(name string) (int, error) {
	return b.add(Op{Kind: FM, Name: name, In: []int{Input}, Cols: 1}), b.oneWidth("a factorization machine")
}

// CIN adds the compressed interaction network of the input, with the numbers of maps of its
// layers.
func (b *Builder) CIN(name string, maps []int) (int, error) {
	fields, embed := len(b.Shape.Fields), b.Shape.Embed()
	sums := Op{Kind: CINSums}
	below, x := fields, Input
	for i, h := range maps {
		layer := fmt.Sprintf("%s/layer%d", name, i)
		x = b.add(Op{Kind: CINLayer, Name: layer, In: []int{Input, x}, Cols: h * embed, Maps: h, Params: weights(layer, below*fields, h, false)})
		below = h
		sums.In, sums.Cols = append(sums.In, x), sums.Cols+h
	}
	return b.add(sums), b.oneWidth("the interaction network")
}

// Add adds the sum of two values at the end of a network.
func (b *Builder) Add(x, y int) int {
	return b.add(Op{Kind: Add, In: []int{x, y}, Cols: b.Cols(x)})
}

// Multiply adds the product of two values, element by element.
func (b *Builder) Multiply(name string, x, y int) int {
	return b.add(Op{Kind: Multiply, Name: name, In: []int{x, y}, Cols: b.Cols(x)})
}

// Concat adds the columns of all values, side by side.
func (b *Builder) Concat(name string, all ...int) int {
	o := Op{Kind: Concat, Name: name, In: all}
	for _, x := range all {
		o.Cols += b.Cols(x)
	}
	return b.add(o)
}
