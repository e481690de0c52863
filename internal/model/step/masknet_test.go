package step

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/wdlrun/wdlrun/dense"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/config/network"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/sparse"
)

// inputOf returns a layout of embeddings of these widths and two dense inputs.
func inputOf(widths ...int) (l layout.Layout) {
	for i, w := range widths {
		l.Tables = append(l.Tables, sparse.Table{Name: fmt.Sprint("f", i), Parts: []sparse.Part{{Name: "deep", Dim: w}}})
		l.Features = append(l.Features, layout.Feature{Name: fmt.Sprint("f", i), Table: i, DeepCol: l.Width, WidePart: -1})
		l.Width += w
	}
	l.Dense = []string{"d0", "d1"}
	l.Width += len(l.Dense)
	return l
}

// vector is a row of a matrix in the plain loops below.
type vector []float64

// plain computes networks in float64 with plain loops, from the parameters of an arena.
type plain map[string]vector

func (p plain) linear(name string, x vector) vector {
	w, y := p[name+"/weight"], slices.Clone(p[name+"/bias"])
	for i, v := range x {
		for j := range y {
			y[j] += v * w[i*len(y)+j]
		}
	}
	return y
}

func (p plain) normalised(name string, x vector, groups []int) vector {
	y, at := slices.Clone(x), 0
	for _, n := range groups {
		mean, variance := 0.0, 0.0
		for _, v := range x[at : at+n] {
			mean += v / float64(n)
		}
		for _, v := range x[at : at+n] {
			variance += (v - mean) * (v - mean) / float64(n)
		}
		for j := at; j < at+n; j++ {
			y[j] = p[name+"/scale"][j]*(x[j]-mean)/math.Sqrt(variance+1e-5) + p[name+"/shift"][j]
		}
		at += n
	}
	return y
}

func relu(x vector) vector {
	for i := range x {
		x[i] = max(x[i], 0)
	}
	return x
}

// maskNet is the formula of MaskNet with parallel blocks.
func (p plain) maskNet(x vector, groups []int, m network.Mask) float64 {
	var all vector
	norm := p.normalised("mask/norm", x, groups)
	for b := range m.Blocks {
		name := fmt.Sprintf("mask/block%d/", b)
		y := p.linear(name+"mask/out", relu(p.linear(name+"mask/linear0", x)))
		for i := range y {
			y[i] *= norm[i]
		}
		all = append(all, relu(p.normalised(name+"norm", p.linear(name+"linear", y), []int{m.Width}))...)
	}
	y := p.linear("deep/linear0", all)
	for i := range y {
		y[i] = math.Tanh(y[i])
	}
	return p.linear("deep/out", y)[0]
}

// TestMaskNet compares logits with the paper's formula in float64, and the gradients of all
// parameters and of the input with central differences of it.
func TestMaskNet(t *testing.T) {
	c := new(config.Config)
	c.Label.Field = "y"
	c.Model.Kind, c.Model.Hidden, c.Model.Activation = "masknet", []int{5}, "tanh"
	c.Model.Mask = network.Mask{Blocks: 2, Width: 6, Hidden: 7}
	c.Fill()
	widths := []int{4, 3, 5}
	l := inputOf(widths...)
	a := new(dense.Arena)
	n, err := newLayers(a, c, l, nil)
	fatal.If(t, err)
	fatal.If(t, a.Build(dense.Config{}))
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range a.Values() {
		a.Values()[i] = float32(0.5 * rng.NormFloat64())
	}
	a.Changed()
	const rows = 3
	x, dlogit := make([]float32, rows*l.Width), []float32{0.5, -1, 2}
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	p := plain{}
	for _, q := range a.Params() {
		p[q.Name] = toFloat64(q.Value)
	}
	in := toFloat64(x)
	sum := func() (s float64) {
		for r, d := range dlogit {
			s += float64(d) * p.maskNet(in[r*l.Width:(r+1)*l.Width], widths, c.Model.Mask)
		}
		return s
	}
	for pass := range 2 { // the second reuses all buffers
		a.ZeroGrad()
		logit, err := n.Forward(x, rows, true)
		fatal.If(t, err)
		for r, got := range logit {
			if want := p.maskNet(in[r*l.Width:(r+1)*l.Width], widths, c.Model.Mask); math.Abs(float64(got)-want) > 1e-5 {
				t.Errorf("pass %d: logit %d is %v, the formula gives %v", pass, r, got, want)
			}
		}
		dx, err := n.Backward(dlogit, rows)
		fatal.If(t, err)
		slopes := func(name string, of vector, grads []float32) {
			for i, got := range grads {
				const h = 1e-5
				v := of[i]
				of[i] = v + h
				up := sum()
				of[i] = v - h
				slope := (up - sum()) / (2 * h)
				if of[i] = v; math.Abs(float64(got)-slope) > 1e-4*(1+math.Abs(slope)) {
					t.Errorf("pass %d: gradient of %s[%d] is %v, central differences give %v", pass, name, i, got, slope)
				}
			}
		}
		for _, q := range a.Params() {
			slopes(q.Name, p[q.Name], q.Grad)
		}
		slopes("x", in, dx)
	}
	if !slices.Equal(dlogit, []float32{0.5, -1, 2}) {
		t.Errorf("Backward changed the gradients of the logits to %v", dlogit)
	}
}

func toFloat64(x []float32) (y vector) {
	for _, v := range x {
		y = append(y, float64(v))
	}
	return y
}

// TestDescriptionsNameTheParameters: the layers of each kind declare the parameters of its
// operations, in their order.
func TestDescriptionsNameTheParameters(t *testing.T) {
	for _, kind := range network.Names() {
		for _, batchNorm := range []bool{false, true} {
			for _, rank := range []int{0, 2} {
				c := new(config.Config)
				c.Label.Field = "y"
				c.Model.Kind, c.Model.BatchNorm = kind, batchNorm
				if kind == "dcn_v2" {
					c.Model.Cross = config.Cross{Rank: rank, Structure: "parallel"}
				}
				c.Fill()
				l := inputOf(4, 4, 4)
				a := new(dense.Arena)
				_, err := newLayers(a, c, l, nil)
				fatal.If(t, err)
				spec, err := network.New(c.Model, l.Shape())
				fatal.If(t, err)
				var want, got []string
				for _, o := range spec.Ops {
					for _, p := range o.Params {
						want = append(want, fmt.Sprintf("%s %d×%d", p.Name, p.Rows, p.Cols))
					}
				}
				for _, p := range a.Params() {
					got = append(got, fmt.Sprintf("%s %d×%d", p.Name, p.Rows, p.Cols))
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s, batch norm %v: the layers have\n%q, the operations\n%q", kind, batchNorm, got, want)
				}
			}
		}
	}
}
