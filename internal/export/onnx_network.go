package export

import (
	"errors"
	"fmt"
	"math"

	"github.com/wdlrun/wdlrun/dense"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/config/network"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/kernel/norm"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/model/step"
)

// tower adds one label's network to a graph.
type tower struct {
	g      *graph
	c      *config.Config
	spec   *network.Network
	values map[int]string // of operations
	prefix string         // of the names of its parameters
	params map[string]*dense.Param
	stats  map[string][]float32

	x          string // N×width: embeddings and dense inputs
	embeddings string // N×(fields·embed)
	fields     int
	embed      int
}

// networks adds the networks of all labels and the outputs.
func (g *graph) networks(c *config.Config, l layout.Layout, p *step.Parameters, b onnxBody) error {
	n := tower{g: g, c: c, params: map[string]*dense.Param{}, stats: map[string][]float32{}, fields: len(b.embeddings)}
	for _, x := range p.Params() {
		n.params[x.Name] = x
	}
	for _, x := range p.Statistics() {
		n.stats[x.Name] = x.Value
	}
	if *c.Model.Deep {
		var err error
		if n.spec, err = network.New(c.Model, l.Shape()); err != nil {
			return err
		}
		n.embed = n.spec.Shape.Embed()
	}
	n.join(b)
	var logits, scores []string
	s := schema.Schema{Label: c.Label, Labels: c.Labels}
	for t, label := range s.All() {
		logit, err := n.logit(t, label, b.wide[t])
		if err != nil {
			return err
		}
		logits = append(logits, logit)
		switch {
		case label.IsPoisson():
			logit = g.on("Exp", logit)
		case !label.IsNumber():
			logit = g.sigmoid(logit)
		}
		scores = append(scores, logit)
	}
	for _, out := range []struct {
		name string
		of   []string
	}{{onnxLogit, logits}, {onnxScore, scores}} {
		g.append("Concat", out.of, []string{out.name}, []attr{{"axis", 1}})
		g.outputs.bytes(graphOut, valueInfo(out.name, onnxFloat, "N", len(out.of)))
	}
	return g.err
}

// sigmoid returns 1/(1 + exp(−x)). The operator Sigmoid of onnxruntime has no correct digit below
// 1e-6 in float32, and is 0 below −18.
func (g *graph) sigmoid(x string) string {
	return g.on("Reciprocal", g.on("Add", g.on("Exp", g.on("Neg", x)), g.scalar(1)))
}

// join concatenates the networks' input.
func (n *tower) join(b onnxBody) {
	g := n.g
	if !*n.c.Model.Deep {
		return
	}
	if n.fields > 0 {
		n.embeddings = g.node("Concat", b.embeddings, attr{"axis", 1})
	}
	all := append(append([]string{}, b.embeddings...), b.dense...)
	if len(all) > 0 {
		n.x = g.node("Concat", all, attr{"axis", 1})
	}
}

// logit returns the logit of label t, N×1.
func (n *tower) logit(t int, label schema.Label, wide []string) (string, error) {
	g, sum, bias := n.g, "", "wide/bias"
	add := func(x string) {
		if sum == "" {
			sum = x
			return
		}
		sum = g.on("Add", sum, x)
	}
	if n.prefix = ""; t > 0 {
		n.prefix, bias = "tower/"+label.Field+"/", bias+"/"+label.Field
	}
	if p := n.params[bias]; p != nil {
		for _, x := range wide {
			add(x)
		}
		add(g.floats(bias, []int{1, 1}, p.Value))
	}
	if *n.c.Model.Deep {
		y, err := n.output()
		if err != nil {
			return "", err
		}
		add(y)
	}
	if sum == "" {
		return "", errors.New("the model has neither a wide nor a deep part")
	}
	return sum, g.err
}

// output returns the output of the network, N×1.
func (n *tower) output() (string, error) {
	n.values = map[int]string{network.Input: n.x}
	return n.value(len(n.spec.Ops) - 1)
}

// value returns the value of an operation. It adds the operation after its inputs, once.
func (n *tower) value(i int) (y string, err error) {
	if y = n.values[i]; y != "" || i == network.Input {
		return y, nil
	}
	o := &n.spec.Ops[i]
	if o.Kind == network.CINSums { // adds its layers as well
		y, err = n.interactions(o)
		n.values[i] = y
		return y, err
	}
	var in []string
	for _, v := range o.In {
		x, err := n.value(v)
		if err != nil {
			return "", err
		}
		in = append(in, x)
	}
	y, err = n.operation(o, in)
	n.values[i] = y
	return y, err
}

// operation adds an operation over values.
func (n *tower) operation(o *network.Op, in []string) (string, error) {
	g := n.g
	switch o.Kind {
	case network.Linear:
		return n.linear(in[0], o.Params)
	case network.BatchNorm:
		return n.normalise(in[0], o.Name), nil
	case network.LayerNorm:
		return n.layerNorm(in[0], o), nil
	case network.Activation:
		return n.activation(in[0], o.Act), nil
	case network.Dropout:
		return in[0], nil
	case network.CrossLayer: // x₀ ⊙ (W·x + b) + x
		u, params := in[1], o.Params
		if o.Rank > 0 {
			var err error
			if u, err = n.linear(u, params[:1]); err != nil {
				return "", err
			}
			params = params[1:]
		}
		u, err := n.linear(u, params)
		return g.on("Add", g.on("Mul", in[0], u), in[1]), err
	case network.FM:
		return n.pairs(), nil
	case network.Add:
		return g.on("Add", in[0], in[1]), nil
	case network.Multiply:
		return g.on("Mul", in[0], in[1]), nil
	case network.Concat:
		return g.node("Concat", in, attr{"axis", 1}), nil
	}
	return "", fmt.Errorf("the operation %v cannot be written", o)
}

// weights adds the matrix of a layer, once.
func (n *tower) weights(name string) (string, error) {
	p := n.params[n.prefix+name]
	if p == nil {
		return "", fmt.Errorf("the parameter %s is missing", n.prefix+name)
	}
	return n.g.floats("dense/"+p.Name, []int{p.Rows, p.Cols}, p.Value), nil
}

// linear returns x·W + b, or x·W for a layer without biases.
func (n *tower) linear(x string, params []network.Param) (string, error) {
	w, err := n.weights(params[0].Name)
	if err != nil {
		return "", err
	}
	y := n.g.on("MatMul", x, w)
	if len(params) > 1 {
		b := n.params[n.prefix+params[1].Name]
		y = n.g.on("Add", y, n.g.floats("dense/"+b.Name, []int{b.Cols}, b.Value))
	}
	return y, nil
}

// activation applies a function to each element.
func (n *tower) activation(x, act string) string {
	switch act {
	case "relu":
		return n.g.on("Relu", x)
	case "tanh":
		return n.g.on("Tanh", x)
	case "sigmoid":
		return n.g.sigmoid(x)
	}
	return x
}

// layerNorm adds the normalisation of each group of columns. Columns after the groups are copied.
func (n *tower) layerNorm(x string, o *network.Op) string {
	g, name := n.g, n.prefix+o.Name
	scale, shift := n.params[name+"/scale"].Value, n.params[name+"/shift"].Value
	var parts []string
	at := 0
	slice := func(end int) string { return g.on("Slice", x, g.ints(int64(at)), g.ints(int64(end)), g.ints(1)) }
	for i, width := range o.Groups {
		end := at + width
		of := func(kind string, all []float32) string {
			return g.floats(fmt.Sprintf("dense/%s/%s%d", name, kind, i), []int{width}, all[at:end])
		}
		parts = append(parts, g.node("LayerNormalization", []string{slice(end), of("scale", scale), of("shift", shift)}, attr{"epsilon", float32(norm.Epsilon)}))
		at = end
	}
	if at < o.Cols {
		parts = append(parts, slice(o.Cols))
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return g.node("Concat", parts, attr{"axis", 1})
}

// normalise adds a batch normalisation with its running statistics: y·a + b.
func (n *tower) normalise(y, layer string) string {
	name := n.prefix + layer
	mean, variance := n.stats[name+"/running_mean"], n.stats[name+"/running_variance"]
	scale, shift := n.params[name+"/scale"].Value, n.params[name+"/shift"].Value
	a, b := make([]float32, len(mean)), make([]float32, len(mean))
	for i := range mean {
		f := float64(scale[i]) / math.Sqrt(float64(variance[i])+norm.Epsilon)
		a[i], b[i] = float32(f), float32(float64(shift[i])-float64(f*float64(mean[i])))
	}
	g, dims := n.g, []int{len(mean)}
	return g.on("Add", g.on("Mul", y, g.floats("dense/"+name+"/a", dims, a)), g.floats("dense/"+name+"/b", dims, b))
}

// pairs adds the factorization machine: ½ Σ ((Σ e)² − Σ e²).
func (n *tower) pairs() string {
	g := n.g
	e := g.on("Reshape", n.embeddings, g.ints(-1, int64(n.fields), int64(n.embed)))
	sum := g.node("ReduceSum", []string{e, g.ints(1)}, attr{"keepdims", 0})
	squares := g.node("ReduceSum", []string{g.on("Mul", e, e), g.ints(1, 2)}, attr{"keepdims", 0})
	of := g.node("ReduceSum", []string{g.on("Mul", sum, sum), g.ints(1)}, attr{"keepdims", 0})
	return g.on("Unsqueeze", g.on("Mul", g.on("Sub", of, squares), g.scalar(0.5)), g.ints(1))
}

// interactions adds the compressed interaction network.
func (n *tower) interactions(o *network.Op) (string, error) {
	g, m, e := n.g, int64(n.fields), int64(n.embed)
	x0 := g.on("Reshape", n.embeddings, g.ints(-1, 1, m, e))
	x, maps := g.on("Reshape", n.embeddings, g.ints(-1, m, 1, e)), m
	var sums []string
	for _, i := range o.In {
		layer := &n.spec.Ops[i]
		z := g.on("Reshape", g.on("Mul", x, x0), g.ints(-1, maps*m, e))
		w, err := n.weights(layer.Params[0].Name)
		if err != nil {
			return "", err
		}
		y := g.on("MatMul", g.node("Transpose", []string{z}, attr{"perm", []int{0, 2, 1}}), w) // N×E×H
		sums = append(sums, g.node("ReduceSum", []string{y, g.ints(1)}, attr{"keepdims", 0}))
		maps = int64(layer.Maps)
		x = g.on("Reshape", g.node("Transpose", []string{y}, attr{"perm", []int{0, 2, 1}}), g.ints(-1, maps, 1, e))
	}
	return g.node("Concat", sums, attr{"axis", 1}), nil
}

// onnxBody are the values of a graph before its networks.
type onnxBody struct {
	embeddings []string   // by feature in the network, N×dim
	dense      []string   // N×1
	wide       [][]string // by label: N×1 of each feature
}
