package dense

import (
	"fmt"
	"math"

	"github.com/wdlrun/wdlrun/internal/kernel/f32"
)

// Linear is y = x·W + b, with ReLU optionally fused into it.
type Linear struct {
	W, B *Param // B is nil for a layer without biases

	name    string
	arena   *Arena
	in, out int
	relu    bool
	after   bool // x is the output of a Linear with ReLU; Backward includes that ReLU's gradient
	before  bool // the next layer computes the ReLU's gradient
	reports bool // Backward reports final gradients to the arena: the layer is part of an MLP
	packed  f32.Packed
	version uint64 // of the packed weights
	zeros   Zeros
	x, y    []float32 // x is the caller's
	dx      []float32
}

// NewLinear declares a layer of in inputs and out outputs. Its weights are name/weight,
// in×out, initially uniform within ±√(6/in) before ReLU (He) and ±√(6/(in+out)) otherwise
// (Glorot). Its biases are name/bias, initially 0.
func NewLinear(a *Arena, name string, in, out int, relu bool) *Linear {
	limit := glorot(in, out)
	if relu {
		limit = he(in)
	}
	return newLinear(a, name, in, out, relu, limit)
}

func newLinear(a *Arena, name string, in, out int, relu bool, limit float32) *Linear {
	return declare(&Linear{
		W:    a.Add(Param{Name: name + "/weight", Rows: in, Cols: out, Decay: true, Init: Init{-limit, limit}}),
		B:    a.Add(Param{Name: name + "/bias", Rows: 1, Cols: out}),
		name: name, arena: a, in: in, out: out, relu: relu,
	})
}

// newUnbiased is NewLinear without biases.
func newUnbiased(a *Arena, name string, in, out int) *Linear {
	limit := glorot(in, out)
	return declare(&Linear{
		W:    a.Add(Param{Name: name + "/weight", Rows: in, Cols: out, Decay: true, Init: Init{-limit, limit}}),
		name: name, arena: a, in: in, out: out,
	})
}

func declare(l *Linear) *Linear {
	l.zeros.Layer = l.arena.prefix + l.name
	l.arena.linears = append(l.arena.linears, l)
	return l
}

// Zeros counts the values in a layer's products that are exactly 0, and the multiply-adds
// skipped because of them.
type Zeros struct {
	Layer              string
	Inputs, ZeroInputs int64 // left factors, forward and for weight gradients
	Grads, ZeroGrads   int64 // the layer's gradient, from which the input's is computed
	Skipped            int64 // multiply-adds
}

// Zeros returns the counts of each linear layer since the arena was made, in the order of
// declaration. Zeros that were not skipped are estimated.
func (a *Arena) Zeros() (all []Zeros) {
	for _, l := range a.linears {
		all = append(all, l.zeros)
	}
	return all
}

// Add adds the counts of the same layer of another arena.
func (z *Zeros) Add(o Zeros) {
	z.Inputs, z.ZeroInputs = z.Inputs+o.Inputs, z.ZeroInputs+o.ZeroInputs
	z.Grads, z.ZeroGrads = z.Grads+o.Grads, z.ZeroGrads+o.ZeroGrads
	z.Skipped += o.Skipped
}

func (z *Zeros) input(x f32.Zeros) {
	z.Add(Zeros{Inputs: int64(x.Values), ZeroInputs: int64(x.Zero), Skipped: int64(x.Skipped)})
}

func (z *Zeros) gradient(x f32.Zeros) {
	z.Add(Zeros{Grads: int64(x.Values), ZeroGrads: int64(x.Zero), Skipped: int64(x.Skipped)})
}

// he and glorot return the limits of initial weights that preserve the variance of
// activations from layer to layer. glorot also preserves the variance of gradients.
func he(in int) float32          { return float32(math.Sqrt(6 / float64(max(in, 1)))) }
func glorot(in, out int) float32 { return float32(math.Sqrt(6 / float64(max(in+out, 1)))) }

// Name implements Layer.
func (l *Linear) Name() string { return l.name }

// Forward implements Layer; x is rows×in, the result rows×out. Weights must not change
// between Forward and Backward. Forward packs them again after a change of Arena.Version.
func (l *Linear) Forward(x []float32, rows int, train bool) ([]float32, error) {
	l.check("Forward", x, rows, l.in)
	l.pack()
	l.y = grow(l.y, rows*l.out)
	l.zeros.input(l.arena.scratch.Forward(l.y, x, &l.packed, l.bias(), rows, l.relu))
	l.x = x
	return l.y, nil
}

// pack packs the weights if they have changed.
func (l *Linear) pack() {
	if v := l.arena.Version(); l.version != v {
		l.packed.Pack(l.W.Value, l.in, l.out)
		l.version = v
	}
}

// Backward implements Layer; dy is rows×out, the result rows×in.
func (l *Linear) Backward(dy []float32, rows int) ([]float32, error) {
	l.check("Backward", dy, rows, l.out)
	if l.relu && !l.before {
		f32.ReLUGrad(dy, l.y)
	}
	var db []float32
	if l.B != nil {
		db = l.B.Grad
	}
	l.zeros.input(l.arena.scratch.GradWeight(l.W.Grad, db, l.x, dy, rows, l.in, l.out))
	if l.reports {
		l.arena.finish(l.W, 0)
	}
	l.dx = grow(l.dx, rows*l.in)
	var gate []float32
	if l.after {
		gate = l.x
	}
	l.zeros.gradient(l.arena.scratch.GradInput(l.dx, dy, &l.packed, rows, gate))
	return l.dx, nil
}

// check panics unless x is a rows×cols matrix.
func (l *Linear) check(call string, x []float32, rows, cols int) {
	if len(x) != rows*cols {
		panic(fmt.Sprintf("dense: linear %s: %s: %d values for %d×%d", l.name, call, len(x), rows, cols))
	}
}

// follow makes l compute the gradient of prev's ReLU in the same product as the gradient of
// its input, which saves a pass.
func (l *Linear) follow(prev Layer) {
	if p, ok := prev.(*Linear); ok && p.relu {
		l.after, p.before = true, true
	}
}

func (l *Linear) bias() []float32 {
	if l.B == nil {
		return nil
	}
	return l.B.Value
}
