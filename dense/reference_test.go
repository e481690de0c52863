package dense

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/optim"
)

// reference is an MLP in float64 with gonum's matrices, written from the papers.
type reference struct {
	spec   Spec
	name   string
	params map[string][]float64
	mask   func(layer string, row, unit int) float64 // returns the factor of dropout
}

func (f *reference) matrix(name string, r, c int) *mat.Dense {
	return mat.NewDense(r, c, f.params[f.name+"/"+name])
}

func (f *reference) linear(x *mat.Dense, name string, in, out int) *mat.Dense {
	var y mat.Dense
	y.Mul(x, f.matrix(name+"/weight", in, out))
	b := f.matrix(name+"/bias", 1, out)
	y.Apply(func(_, j int, v float64) float64 { return v + b.At(0, j) }, &y)
	return &y
}

func (f *reference) norm(x *mat.Dense, name string) {
	rows, width := x.Dims()
	scale, shift := f.matrix(name+"/scale", 1, width), f.matrix(name+"/shift", 1, width)
	for j := range width {
		var mean, variance float64
		for r := range rows {
			mean += x.At(r, j) / float64(rows)
		}
		for r := range rows {
			variance += math.Pow(x.At(r, j)-mean, 2) / float64(rows)
		}
		for r := range rows {
			x.Set(r, j, (x.At(r, j)-mean)/math.Sqrt(variance+1e-5)*scale.At(0, j)+shift.At(0, j))
		}
	}
}

// loss runs the model on x, whose rows are samples, and sums the losses.
func (f *reference) loss(x *mat.Dense, label []float32) float64 {
	in := f.spec.In
	for i, h := range f.spec.Hidden {
		x = f.linear(x, fmt.Sprintf("linear%d", i), in, h)
		if f.spec.BatchNorm {
			f.norm(x, fmt.Sprintf("norm%d", i))
		}
		x.Apply(func(r, j int, v float64) float64 {
			switch f.spec.Activation {
			case "", "relu":
				v = max(v, 0)
			case "tanh":
				v = math.Tanh(v)
			case "sigmoid":
				v = 1 / (1 + math.Exp(-v))
			}
			if f.spec.Dropout > 0 {
				v *= f.mask(fmt.Sprintf("%s/dropout%d", f.name, i), r, j)
			}
			return v
		}, x)
		in = h
	}
	x = f.linear(x, "out", in, 1)
	var sum float64
	for r, y := range label {
		p := 1 / (1 + math.Exp(-x.At(r, 0)))
		sum -= float64(y)*math.Log(p) + (1-float64(y))*math.Log(1-p)
	}
	return sum
}

// model is a small MLP with a batch.
type model struct {
	arena *Arena
	mlp   *MLP
	x     []float32
	label []float32
	rows  int
	grad  []float32
}

func newModel(t testing.TB, s Spec, rows int, c Config) *model {
	t.Helper()
	m := &model{arena: new(Arena), rows: rows}
	var err error
	if m.mlp, err = NewMLP(m.arena, "deep", s); err != nil {
		t.Fatal(err)
	}
	if err = m.arena.Build(c); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, uint64(rows)))
	m.x, m.label, m.grad = make([]float32, rows*s.In), make([]float32, rows), make([]float32, rows)
	for i := range m.x {
		m.x[i] = float32(rng.NormFloat64() + 0.3)
	}
	for i := range m.label {
		m.label[i] = float32(rng.IntN(2))
	}
	return m
}

// backprop runs one batch and returns the loss and the gradient of the input.
func (m *model) backprop(t testing.TB) (float64, []float32) {
	t.Helper()
	logit, err := m.mlp.Forward(m.x, m.rows, true)
	fatal.If(t, err)
	loss := LogLoss(m.grad, logit, m.label)
	dx, err := m.mlp.Backward(m.grad, m.rows)
	fatal.If(t, err)
	return loss, dx
}

func adam() Config { return Config{Seed: 3, Groups: []Group{{Rule: optim.Rule{Kind: "adam"}}}} }

// TestGradients compares every gradient with central differences of the reference in float64.
func TestGradients(t *testing.T) {
	for _, s := range []Spec{
		{},
		{Hidden: []int{7}},
		{Hidden: []int{6, 5}, Activation: "tanh"},
		{Hidden: []int{6, 5}, Activation: "sigmoid", Dropout: 0.4},
		{Hidden: []int{5}, Activation: "identity"},
		{Hidden: []int{8, 5}, BatchNorm: true},
		{Hidden: []int{8, 5}, BatchNorm: true, Activation: "tanh", Dropout: 0.25},
		{Hidden: []int{5}, BatchNorm: true, Activation: "identity"},
	} {
		s.In, s.Out = 4, 1
		t.Run(fmt.Sprintf("%+v", s), func(t *testing.T) { checkGradients(t, s) })
	}
}

func checkGradients(t *testing.T, s Spec) {
	const rows = 11
	m := newModel(t, s, rows, Config{Seed: 9})
	for _, p := range m.arena.Params() {
		for i := range p.Value { // so that scales differ from 1 and biases from 0
			p.Value[i] += 0.1 * float32(i%3)
		}
	}
	ids := make([]uint64, rows)
	for i := range ids {
		ids[i] = uint64(1000 + 7*i)
	}
	m.mlp.SetStep(12, ids)
	ref := &reference{spec: s, name: "deep", params: map[string][]float64{}}
	ref.mask = func(layer string, row, unit int) float64 {
		for _, d := range m.mlp.drops {
			if d.Name() == layer {
				return float64(d.mask[row*d.width+unit])
			}
		}
		t.Fatalf("no layer %s", layer)
		return 0
	}
	loss, dx := m.backprop(t)
	x := mat.NewDense(rows, s.In, nil)
	for i, v := range m.x {
		x.RawMatrix().Data[i] = float64(v)
	}
	for _, p := range m.arena.Params() {
		for _, v := range p.Value {
			ref.params[p.Name] = append(ref.params[p.Name], float64(v))
		}
	}
	if want := ref.loss(x, m.label); math.Abs(loss-want) > 1e-5*want {
		t.Fatalf("loss %v, reference %v", loss, want)
	}
	slope := func(at *float64) float64 {
		const h = 1e-6
		v := *at
		*at = v + h
		up := ref.loss(x, m.label)
		*at = v - h
		down := ref.loss(x, m.label)
		*at = v
		return (up - down) / (2 * h)
	}
	check := func(name string, i int, got float32, want float64) {
		if math.Abs(float64(got)-want) > 2e-5*(1+math.Abs(want)) {
			t.Errorf("gradient of %s[%d] is %v, central differences give %v", name, i, got, want)
		}
	}
	for _, p := range m.arena.Params() {
		for i, g := range p.Grad {
			check(p.Name, i, g, slope(&ref.params[p.Name][i]))
		}
	}
	for i, g := range dx {
		check("x", i, g, slope(&x.RawMatrix().Data[i]))
	}
}
