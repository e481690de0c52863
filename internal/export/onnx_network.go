package export

import (
	"errors"
	"fmt"
	"math"

	"github.com/wdlrun/wdlrun/dense"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/kernel/norm"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/model/step"
)

// network adds one label's network to a graph.
type network struct {
	g      *graph
	c      *config.Config
	prefix string // of the names of its parameters
	params map[string]*dense.Param
	stats  map[string][]float32

	x          string // N×width: embeddings and dense inputs
	embeddings string // N×(fields·embed)
	fields     int
	embed      int
}

// networks adds the networks of all labels and the outputs.
func (g *graph) networks(c *config.Config, l layout.Layout, p *step.Parameters, b onnxBody) error {
	n := network{g: g, c: c, params: map[string]*dense.Param{}, stats: map[string][]float32{}, fields: len(b.embeddings)}
	for _, x := range p.Params() {
		n.params[x.Name] = x
	}
	for _, x := range p.Statistics() {
		n.stats[x.Name] = x.Value
	}
	for _, f := range l.Features {
		if f.DeepPart >= 0 {
			n.embed = l.Tables[f.Table].Parts[f.DeepPart].Dim
		}
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
		g.append("Concat", out.of, out.name, []attr{{"axis", 1}})
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
func (n *network) join(b onnxBody) {
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
func (n *network) logit(t int, label schema.Label, wide []string) (string, error) {
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
func (n *network) output() (string, error) {
	g := n.g
	switch n.c.Model.Kind {
	case "wide_deep":
		return n.mlp(n.x)
	case "deepfm":
		y, err := n.mlp(n.x)
		if n.fields == 0 || err != nil {
			return y, err
		}
		return g.on("Add", y, n.pairs()), nil
	case "dcn_v2":
		crossed, err := n.cross()
		if err != nil {
			return "", err
		}
		if n.c.Model.Cross.Structure != "parallel" {
			return n.mlp(crossed)
		}
		linear, err := n.linear(crossed, "cross/out")
		if err != nil {
			return "", err
		}
		y, err := n.mlp(n.x)
		return g.on("Add", linear, y), err
	case "xdeepfm":
		explicit, err := n.interactions()
		if err != nil {
			return "", err
		}
		y, err := n.mlp(n.x)
		return g.on("Add", explicit, y), err
	}
	return "", fmt.Errorf("the kind %s cannot be written", n.c.Model.Kind)
}

// weights adds the matrix of a layer, once.
func (n *network) weights(layer string) (string, error) {
	p := n.params[n.prefix+layer+"/weight"]
	if p == nil {
		return "", fmt.Errorf("the parameters of layer %s are missing", n.prefix+layer)
	}
	return n.g.floats("dense/"+p.Name, []int{p.Rows, p.Cols}, p.Value), nil
}

// linear returns x·W + b, or x·W for a layer without biases.
func (n *network) linear(x, layer string) (string, error) {
	w, err := n.weights(layer)
	if err != nil {
		return "", err
	}
	y := n.g.on("MatMul", x, w)
	if b := n.params[n.prefix+layer+"/bias"]; b != nil {
		y = n.g.on("Add", y, n.g.floats("dense/"+b.Name, []int{b.Cols}, b.Value))
	}
	return y, nil
}

// mlp adds the perceptron.
func (n *network) mlp(x string) (y string, err error) {
	y = x
	for i := range n.c.Model.Hidden {
		if y, err = n.linear(y, fmt.Sprintf("deep/linear%d", i)); err != nil {
			return "", err
		}
		if n.c.Model.BatchNorm {
			y = n.normalise(y, fmt.Sprintf("deep/norm%d", i))
		}
		switch n.c.Model.Activation {
		case "", "relu":
			y = n.g.on("Relu", y)
		case "tanh":
			y = n.g.on("Tanh", y)
		case "sigmoid":
			y = n.g.sigmoid(y)
		}
	}
	return n.linear(y, "deep/out")
}

// normalise adds a batch normalisation with its running statistics: y·a + b.
func (n *network) normalise(y, layer string) string {
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
func (n *network) pairs() string {
	g := n.g
	e := g.on("Reshape", n.embeddings, g.ints(-1, int64(n.fields), int64(n.embed)))
	sum := g.node("ReduceSum", []string{e, g.ints(1)}, attr{"keepdims", 0})
	squares := g.node("ReduceSum", []string{g.on("Mul", e, e), g.ints(1, 2)}, attr{"keepdims", 0})
	of := g.node("ReduceSum", []string{g.on("Mul", sum, sum), g.ints(1)}, attr{"keepdims", 0})
	return g.on("Unsqueeze", g.on("Mul", g.on("Sub", of, squares), g.scalar(0.5)), g.ints(1))
}

// cross adds the cross network: x ← x₀ ⊙ (W·x + b) + x.
func (n *network) cross() (x string, err error) {
	g := n.g
	x = n.x
	for i := range n.c.Model.Cross.Layers {
		u := x
		if n.c.Model.Cross.Rank > 0 {
			if u, err = n.linear(u, fmt.Sprintf("cross/narrow%d", i)); err != nil {
				return "", err
			}
		}
		if u, err = n.linear(u, fmt.Sprintf("cross/cross%d", i)); err != nil {
			return "", err
		}
		x = g.on("Add", g.on("Mul", n.x, u), x)
	}
	return x, nil
}

// interactions adds the compressed interaction network and its linear output.
func (n *network) interactions() (string, error) {
	g, m, e := n.g, int64(n.fields), int64(n.embed)
	x0 := g.on("Reshape", n.embeddings, g.ints(-1, 1, m, e))
	x, maps := g.on("Reshape", n.embeddings, g.ints(-1, m, 1, e)), m
	var sums []string
	for i, h := range n.c.Model.CIN {
		z := g.on("Reshape", g.on("Mul", x, x0), g.ints(-1, maps*m, e))
		w, err := n.weights(fmt.Sprintf("cin/layer%d", i))
		if err != nil {
			return "", err
		}
		y := g.on("MatMul", g.node("Transpose", []string{z}, attr{"perm", []int{0, 2, 1}}), w) // N×E×H
		sums = append(sums, g.node("ReduceSum", []string{y, g.ints(1)}, attr{"keepdims", 0}))
		maps = int64(h)
		x = g.on("Reshape", g.node("Transpose", []string{y}, attr{"perm", []int{0, 2, 1}}), g.ints(-1, maps, 1, e))
	}
	return n.linear(g.node("Concat", sums, attr{"axis", 1}), "cin/out")
}
