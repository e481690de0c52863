package dense

import (
	"fmt"

	"github.com/wdlrun/wdlrun/internal/kernel/f32"
)

// Cross is the cross network of DCN-v2 (Wang et al. 2021, "DCN V2: Improved
// Deep & Cross Network", §3.2). With x₀ the input, each layer raises the degree
// of the features' products by one:
//
//	x_{l+1} = x₀ ⊙ (x_l·W_l + b_l) + x_l
//
// With a rank r > 0 each W_l is a product of two narrow matrices (§3.4, one
// expert), which costs 4·width·r operations a row and layer instead of
// 2·width²:
//
//	x_{l+1} = x₀ ⊙ (x_l·V_l·U_l + b_l) + x_l,   V_l width×r, U_l r×width
type Cross struct {
	name   string
	width  int
	layers []crossLayer

	x   []float32 // x₀, the caller's
	dx0 []float32 // gradient of x₀ outside the chain
}

type crossLayer struct {
	narrow *Linear   // V; nil at full rank
	mix    *Linear   // U and b, or W and b
	u      []float32 // x_l·W + b of the last batch: mix's
	y      []float32 // x_{l+1}
	du     []float32
}

// NewCross declares layers cross layers over rows of width columns. The parameters are
// name/cross0/weight and name/cross0/bias, for a rank above 0 also name/narrow0/weight, and
// so on. NewCross panics if width or layers is below 1 or rank is below 0.
func NewCross(a *Arena, name string, width, layers, rank int) *Cross {
	if width < 1 || layers < 1 || rank < 0 {
		panic(fmt.Sprintf("dense: NewCross: %s: %d layers of rank %d over %d columns", name, layers, rank, width))
	}
	c := &Cross{name: name, width: width, layers: make([]crossLayer, layers)}
	for i := range c.layers {
		l, in := &c.layers[i], width
		if rank > 0 {
			l.narrow = newUnbiased(a, fmt.Sprintf("%s/narrow%d", name, i), width, rank)
			in = rank
		}
		l.mix = NewLinear(a, fmt.Sprintf("%s/cross%d", name, i), in, width, false)
	}
	return c
}

// Name implements Layer.
func (c *Cross) Name() string { return c.name }

// Forward implements Layer; x and the result are rows×width.
func (c *Cross) Forward(x []float32, rows int, train bool) (y []float32, err error) {
	c.x, y = x, x
	for i := range c.layers {
		l, in := &c.layers[i], y
		u := in
		if l.narrow != nil {
			if u, err = l.narrow.Forward(u, rows, train); err != nil {
				return nil, err
			}
		}
		if l.u, err = l.mix.Forward(u, rows, train); err != nil {
			return nil, err
		}
		l.y = grow(l.y, rows*c.width)
		y = l.y
		mulAdd(y, x, l.u, in)
	}
	return y, nil
}

// Backward implements Layer; dy and the result are rows×width. It works in dy.
func (c *Cross) Backward(dy []float32, rows int) (_ []float32, err error) {
	c.dx0 = grow(c.dx0, rows*c.width)
	clear(c.dx0)
	for i := len(c.layers) - 1; i >= 0; i-- {
		l := &c.layers[i]
		l.du = grow(l.du, rows*c.width)
		crossGrad(c.dx0, l.du, dy, c.x, l.u)
		dx, err := l.mix.Backward(l.du, rows)
		if err != nil {
			return nil, err
		}
		if l.narrow != nil {
			if dx, err = l.narrow.Backward(dx, rows); err != nil {
				return nil, err
			}
		}
		f32.AddTo(dy, dx)
	}
	f32.AddTo(dy, c.dx0)
	return dy, nil
}

// NonFinite is MLP.NonFinite for the cross layers.
func (c *Cross) NonFinite() (place string, found bool) {
	if i := f32.FirstNonFinite(c.x); i >= 0 {
		return fmt.Sprintf("input of %s, row %d, column %d", c.name, i/c.width, i%c.width), true
	}
	for i := range c.layers {
		l := &c.layers[i]
		all := params(l.mix)
		if l.narrow != nil {
			all = append(params(l.narrow), all...)
		}
		if place, found := nonFinite(all); found {
			return place, true
		}
		if f32.FirstNonFinite(l.y) >= 0 {
			return "output of " + l.mix.Name(), true
		}
	}
	return "", false
}

// mulAdd sets y = a⊙b + c.
func mulAdd(y, a, b, c []float32) {
	a, b, c = a[:len(y)], b[:len(y)], c[:len(y)]
	for i := range y {
		y[i] = float32(a[i]*b[i]) + c[i]
	}
}

// crossGrad sets du = dy⊙x₀ and adds dy⊙u to dx₀.
func crossGrad(dx0, du, dy, x0, u []float32) {
	du, dy, x0, u = du[:len(dx0)], dy[:len(dx0)], x0[:len(dx0)], u[:len(dx0)]
	for i, g := range dy {
		du[i] = g * x0[i]
		dx0[i] += float32(g * u[i])
	}
}
