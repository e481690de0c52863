package dense

import (
	"fmt"
	"math"

	"github.com/wdlrun/wdlrun/internal/kernel/f32"
)

// activations returns the names of the activations.
func activations() []string { return []string{"relu", "tanh", "sigmoid", "identity"} }

// activation applies relu, tanh or sigmoid to every element.
type activation struct {
	name, kind string
	y          []float32
}

// NewActivation returns a layer that applies relu, tanh, sigmoid or identity to each element. It
// panics for any other kind.
func NewActivation(name, kind string) Layer {
	switch kind {
	case "relu", "tanh", "sigmoid", "identity":
		return &activation{name: name, kind: kind}
	}
	panic(fmt.Sprintf("dense: NewActivation: %s: unknown kind %q", name, kind))
}

// Name implements Layer.
func (l *activation) Name() string { return l.name }

// Forward implements Layer. NaN passes through every kind.
func (l *activation) Forward(x []float32, _ int, _ bool) ([]float32, error) {
	l.y = grow(l.y, len(x))
	switch l.kind {
	case "relu":
		for i, v := range x {
			l.y[i] = max(v, 0)
		}
	case "tanh":
		for i, v := range x {
			l.y[i] = float32(math.Tanh(float64(v)))
		}
	case "sigmoid":
		f32.Sigmoid(l.y, x)
	default:
		copy(l.y, x)
	}
	return l.y, nil
}

// Backward implements Layer; it works in dy.
func (l *activation) Backward(dy []float32, _ int) ([]float32, error) {
	switch y := l.y[:len(dy)]; l.kind {
	case "relu":
		f32.ReLUGrad(dy, y)
	case "tanh":
		for i, v := range y {
			dy[i] *= 1 - float32(v*v)
		}
	case "sigmoid":
		for i, v := range y {
			dy[i] *= v * (1 - v)
		}
	}
	return dy, nil
}
