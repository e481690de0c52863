package dense

import (
	"fmt"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/optim"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// probe is a layer with a batch and the weights c of its outputs. The loss is Σ c·y, so c is the
// gradient of the output.
type probe struct {
	layer Layer
	arena *Arena
	rows  int
	x, c  []float32
	// value computes Σ c·y in float64 by the formula of the paper.
	value func(x []float64, params map[string][]float64) float64
}

func newProbe(t *testing.T, rows, in, out int, declare func(a *Arena) Layer) *probe {
	p := &probe{arena: new(Arena), rows: rows, x: make([]float32, rows*in), c: make([]float32, rows*out)}
	p.layer = declare(p.arena)
	fatal.If(t, p.arena.Build(Config{Seed: 4}))
	rng := rand.New(rand.NewPCG(9, 7))
	for _, list := range [][]float32{p.x, p.c, p.arena.Values()} {
		for i := range list {
			list[i] = float32(rng.NormFloat64())
		}
	}
	p.arena.Changed()
	return p
}

// check compares the output with the formula, and gradients with its central differences: all
// gradients of a small layer, a sample of them for a large one.
func (p *probe) check(t *testing.T) {
	y, err := p.layer.Forward(p.x, p.rows, true)
	fatal.If(t, err)
	var got float64
	for i, v := range y {
		got += float64(v) * float64(p.c[i])
	}
	x, params := widen(p.x), map[string][]float64{}
	for _, q := range p.arena.Params() {
		params[q.Name] = widen(q.Value)
	}
	want := p.value(x, params)
	if math.Abs(got-want) > 1e-4*(1+math.Abs(want)) {
		t.Fatalf("output %v, the formula gives %v", got, want)
	}
	dx, err := p.layer.Backward(slices.Clone(p.c), p.rows)
	fatal.If(t, err)
	near := func(name string, i int, got float32, at *float64) {
		const h = 1e-6
		v := *at
		*at = v + h
		up := p.value(x, params)
		*at = v - h
		slope := (up - p.value(x, params)) / (2 * h)
		*at = v
		if math.Abs(float64(got)-slope) > 1e-4*(1+math.Abs(slope)) {
			t.Errorf("gradient of %s[%d] is %v, central differences give %v", name, i, got, slope)
		}
	}
	all := func(name string, grad []float32, at []float64) {
		for i := 0; i < len(grad); i += 1 + 2*(len(grad)/256) { // odd, so that every column occurs
			near(name, i, grad[i], &at[i])
		}
	}
	all("x", dx, x)
	for _, q := range p.arena.Params() {
		all(q.Name, q.Grad, params[q.Name])
	}
}

func widen(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

// TestCross compares a cross layer with x₀ ⊙ (x·W + b) + x.
func TestCross(t *testing.T) {
	const rows, width, layers = 5, 6, 3
	for _, rank := range []int{0, 2} {
		t.Run(fmt.Sprintf("rank %d", rank), func(t *testing.T) {
			p := newProbe(t, rows, width, width, func(a *Arena) Layer { return NewCross(a, "cross", width, layers, rank) })
			p.value = func(x []float64, params map[string][]float64) (sum float64) {
				for r := range rows {
					x0 := x[r*width : (r+1)*width]
					xl := slices.Clone(x0)
					for l := range layers {
						in := xl
						if rank > 0 {
							in = times(in, params[fmt.Sprintf("cross/narrow%d/weight", l)], rank)
						}
						u := times(in, params[fmt.Sprintf("cross/cross%d/weight", l)], width)
						b, next := params[fmt.Sprintf("cross/cross%d/bias", l)], make([]float64, width)
						for j := range next {
							next[j] = x0[j]*(u[j]+b[j]) + xl[j]
						}
						xl = next
					}
					for j, v := range xl {
						sum += v * float64(p.c[r*width+j])
					}
				}
				return sum
			}
			p.check(t)
		})
	}
}

// times returns x·w for a matrix w with out columns.
func times(x, w []float64, out int) []float64 {
	y := make([]float64, out)
	for i, v := range x {
		for j := range y {
			y[j] += v * w[i*out+j]
		}
	}
	return y
}

// TestFM compares a factorization machine with the sum over all pairs of fields.
func TestFM(t *testing.T) {
	const rows, fields, embed, width = 4, 5, 3, 5*3 + 2
	p := newProbe(t, rows, width, 1, func(*Arena) Layer { return NewFM("fm", fields, embed, width) })
	p.value = func(x []float64, _ map[string][]float64) (sum float64) {
		for r := range rows {
			for f := range fields {
				for g := range f {
					for k := range embed {
						sum += float64(p.c[r]) * x[r*width+f*embed+k] * x[r*width+g*embed+k]
					}
				}
			}
		}
		return sum
	}
	p.check(t)
}

// TestImage: an image computes the same as its arena and has its own gradients.
func TestImage(t *testing.T) {
	s := Spec{In: 5, Hidden: []int{4}, Dropout: 0.3, Out: 1}
	m, image := newModel(t, s, 6, adam()), newModel(t, s, 6, adam())
	image.arena = new(Arena)
	image.mlp, _ = NewMLP(image.arena, "deep", s)
	image.arena.Attach(m.arena)
	for step := int64(1); step <= 3; step++ {
		m.arena.ZeroGrad()
		image.arena.ZeroGrad()
		loss, dx := m.backprop(t)
		again, dx2 := image.backprop(t)
		if loss != again || !slices.Equal(dx, dx2) || !slices.Equal(m.arena.Grads(), image.arena.Grads()) {
			t.Fatalf("step %d: the image computes a different output", step)
		}
		m.arena.Apply(optim.Step{N: step, Scale: 1.0 / 6})
		if before := m.arena.Grads()[0]; before == image.arena.Grads()[0] && before != 0 {
			t.Fatal("the image shares the arena's gradients")
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("an image with other declarations was accepted")
		}
	}()
	other := new(Arena)
	_, _ = NewMLP(other, "wide", s)
	other.Attach(m.arena)
}
