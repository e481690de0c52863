package dense

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/internal/kernel/f32"
)

// Spec describes a multi-layer perceptron: for each hidden width Linear,
// optional batch norm, activation, optional dropout; then Linear to Out.
//
// Init selects the initial weights, which are uniform within ±limit. With he, the limit is
// √(6/in) before ReLU (He et al. 2015) and Glorot's √(6/(in+out)) otherwise; biases are 0.
// With pytorch, the limit is 1/√in for weights and biases, as in torch.nn.Linear.
type Spec struct {
	In         int
	Hidden     []int
	Activation string // relu, tanh, sigmoid or identity; empty is relu
	BatchNorm  bool
	Dropout    float64 // probability of dropping a hidden unit, in [0, 1)
	Init       string  // he or pytorch; empty is he
	BF16       bool    // products in bfloat16; requires relu, hidden layers and an output
	Out        int     // 0: no last layer, the last hidden layer is the output
}

// maxWidth and maxDepth bound a Spec, far above published CTR models.
const (
	maxWidth = 1 << 20
	maxDepth = 1 << 10
)

// inits returns the accepted values of Spec.Init.
func inits() []string { return []string{"he", "pytorch"} }

// validate returns all errors in s.
func (s Spec) validate() (faults []error) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if s.In < 1 || s.In > maxWidth {
		fault("in %d is not in 1 … %d", s.In, maxWidth)
	}
	if len(s.Hidden) > maxDepth {
		fault("%d hidden layers, at most %d are allowed", len(s.Hidden), maxDepth)
	}
	for i, h := range s.Hidden {
		if h < 1 || h > maxWidth {
			fault("hidden layer %d: width %d is not in 1 … %d", i, h, maxWidth)
		}
	}
	if s.Activation != "" && !slices.Contains(activations(), s.Activation) {
		fault("activation %q is not one of %s", s.Activation, strings.Join(activations(), ", "))
	}
	if s.Init != "" && !slices.Contains(inits(), s.Init) {
		fault("init %q is not one of %s", s.Init, strings.Join(inits(), ", "))
	}
	if plain := s.Activation == "" || s.Activation == "relu"; s.BF16 && (!plain || s.BatchNorm || s.Dropout != 0 || s.Out == 0) {
		fault("bfloat16 is for linear layers with ReLU between them: no other activation, no batch norm, no dropout")
	}
	if !(s.Dropout >= 0 && s.Dropout < 1) {
		fault("dropout %v is not in [0, 1)", s.Dropout)
	}
	if s.Out < 0 || s.Out > maxWidth {
		fault("out %d is not in 0 … %d", s.Out, maxWidth)
	}
	if s.Out == 0 && len(s.Hidden) == 0 {
		fault("no hidden layer and no output: there is nothing to compute")
	}
	return faults
}

// MLP is a chain of layers. It is a Layer itself.
type MLP struct {
	name   string
	in     int
	out    int
	layers []Layer
	drops  []*dropout
	norms  []*batchNorm
	halved *halved // nil: float32

	x    []float32   // the last input, the caller's
	outs [][]float32 // outputs of the layers for x; nil for layers not reached
}

// NewMLP declares the layers of s under name: name/linear0, name/norm0, name/activation0,
// name/dropout0, … and name/out. It returns all errors in s.
func NewMLP(a *Arena, name string, s Spec) (*MLP, error) {
	if faults := s.validate(); len(faults) > 0 {
		return nil, fmt.Errorf("dense: mlp %s: %w", name, errors.Join(faults...))
	}
	if s.Activation == "" {
		s.Activation = "relu"
	}
	m := &MLP{name: name, in: s.In, out: s.In}
	for i, h := range s.Hidden {
		m.addHidden(a, s, i, h)
	}
	if s.Out > 0 {
		m.layers = append(m.layers, s.linear(a, name+"/out", m.out, s.Out, false, glorot(m.out, s.Out)))
		m.out = s.Out
	}
	if s.BF16 {
		m.halved = newHalved(m.layers)
	}
	for i, l := range m.layers {
		l, ok := l.(*Linear)
		if !ok {
			continue
		}
		if l.reports = true; i > 0 {
			l.follow(m.layers[i-1])
		}
	}
	m.outs = make([][]float32, len(m.layers))
	return m, nil
}

// addHidden appends hidden layer i of width h.
func (m *MLP) addHidden(a *Arena, s Spec, i, h int) {
	layer := func(kind string) string { return fmt.Sprintf("%s/%s%d", m.name, kind, i) }
	limit := glorot(m.out, h)
	if s.Activation == "relu" {
		limit = he(m.out)
	}
	fused := s.Activation == "relu" && !s.BatchNorm
	m.layers = append(m.layers, s.linear(a, layer("linear"), m.out, h, fused, limit))
	if s.BatchNorm {
		bn := newBatchNorm(a, layer("norm"), h)
		m.layers, m.norms = append(m.layers, bn), append(m.norms, bn)
	}
	if !fused && s.Activation != "identity" {
		m.layers = append(m.layers, NewActivation(layer("activation"), s.Activation))
	}
	if s.Dropout > 0 {
		d := newDropout(a, layer("dropout"), h, s.Dropout)
		m.layers, m.drops = append(m.layers, d), append(m.drops, d)
	}
	m.out = h
}

// linear declares a layer with initial weights within ±limit, or as s.Init demands.
func (s Spec) linear(a *Arena, name string, in, out int, relu bool, limit float32) *Linear {
	l := newLinear(a, name, in, out, relu, limit)
	if s.Init == "pytorch" {
		limit = float32(1 / math.Sqrt(float64(max(in, 1))))
		l.W.Init, l.B.Init = Init{-limit, limit}, Init{-limit, limit}
	}
	return l
}

// Synchronise makes every batch norm use the statistics of the global batch. reduce sums a
// slice over all ranks in place. See Ioffe and Szegedy 2015.
func (m *MLP) Synchronise(reduce func([]float32) error) {
	for _, l := range m.norms {
		l.Synchronise(reduce)
	}
}

// SetStep identifies the next batch for dropout: the step and the global number of each
// row. Nil numbers the rows from 0.
func (m *MLP) SetStep(step int64, rowIDs []uint64) {
	for _, l := range m.drops {
		l.SetStep(step, rowIDs)
	}
}

// Name implements Layer.
func (m *MLP) Name() string { return m.name }

// Forward implements Layer; x is rows×In, the result rows×Out.
func (m *MLP) Forward(x []float32, rows int, train bool) (y []float32, err error) {
	clear(m.outs)
	m.x, y = x, x
	if m.halved != nil {
		y = m.halved.forward(x, rows)
		m.outs[len(m.outs)-1] = y
		return y, nil
	}
	for i, l := range m.layers {
		if y, err = l.Forward(y, rows, train); err != nil {
			return nil, err
		}
		m.outs[i] = y
	}
	return y, nil
}

// Backward implements Layer; dy is rows×Out, the result rows×In.
func (m *MLP) Backward(dy []float32, rows int) (dx []float32, err error) {
	if m.halved != nil {
		return m.halved.backward(dy, rows), nil
	}
	for i := len(m.layers) - 1; i >= 0; i-- {
		if dy, err = m.layers[i].Backward(dy, rows); err != nil {
			return nil, err
		}
	}
	return dy, nil
}

// NonFinite returns the first place of the last Forward with a NaN or an infinity, in the
// order of computation: the input, a layer's parameter or a layer's output. found is false
// if all values are finite.
func (m *MLP) NonFinite() (place string, found bool) {
	if i := f32.FirstNonFinite(m.x); i >= 0 {
		return fmt.Sprintf("input of %s, row %d, column %d", m.name, i/m.in, i%m.in), true
	}
	for k, l := range m.layers {
		if place, found := nonFinite(params(l)); found {
			return place, true
		}
		if f32.FirstNonFinite(m.outs[k]) >= 0 {
			return "output of " + l.Name(), true
		}
	}
	return "", false
}

// nonFinite returns the name of the first parameter with a NaN or an infinity.
func nonFinite(all []*Param) (place string, found bool) {
	for _, p := range all {
		if i := f32.FirstNonFinite(p.Value); i >= 0 {
			return fmt.Sprintf("parameter %s, row %d, column %d", p.Name, i/p.Cols, i%p.Cols), true
		}
	}
	return "", false
}

// params returns a layer's own parameters.
func params(l Layer) []*Param {
	switch l := l.(type) {
	case *Linear:
		if l.B == nil {
			return []*Param{l.W}
		}
		return []*Param{l.W, l.B}
	case *batchNorm:
		return []*Param{l.Scale, l.Shift}
	}
	return nil
}
