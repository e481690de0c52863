package dense

import (
	"fmt"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// cinLayerOf wraps a CIN as a Layer for probe.
type cinLayerOf struct{ *CIN }

func (l cinLayerOf) Name() string { return "cin" }

func (l cinLayerOf) Forward(x []float32, rows int, _ bool) ([]float32, error) {
	return l.CIN.Forward(x, rows), nil
}

func (l cinLayerOf) Backward(dy []float32, rows int) ([]float32, error) {
	dx := make([]float32, rows*l.width)
	l.AddBackward(dx, dy, rows)
	return dx, nil
}

// cinShape describes a CIN over rows with two further columns.
type cinShape struct {
	rows, fields, embed int
	maps                []int
}

func (s cinShape) out() (n int) {
	for _, h := range s.maps {
		n += h
	}
	return n
}

// value returns Σ c·y by Equations 6 and 8 of the paper.
func (s cinShape) value(x []float64, params map[string][]float64, c []float32) (sum float64) {
	for r := range s.rows {
		x0 := make([][]float64, s.fields)
		for f := range x0 {
			x0[f] = x[r*(s.fields*s.embed+2)+f*s.embed:][:s.embed]
		}
		maps, at := x0, r*s.out()
		for k, h := range s.maps {
			w, next := params[fmt.Sprintf("cin/layer%d/weight", k)], make([][]float64, h)
			for n := range next {
				next[n] = make([]float64, s.embed)
				for i, below := range maps {
					for j, field := range x0 {
						for e := range s.embed {
							next[n][e] += w[(i*s.fields+j)*h+n] * below[e] * field[e]
						}
					}
				}
				for _, v := range next[n] {
					sum += v * float64(c[at])
				}
				at++
			}
			maps = next
		}
	}
	return sum
}

// TestCIN compares a CIN with the paper's formula and its gradients with central differences.
// The last shape has more rows than a block.
func TestCIN(t *testing.T) {
	for _, s := range []cinShape{
		{4, 3, 2, []int{4}}, {3, 4, 3, []int{3, 2}}, {2, 2, 3, []int{2, 5, 3}}, {3, 1, 1, []int{1, 1}}, {150, 2, 2, []int{128, 2}},
	} {
		t.Run(fmt.Sprintf("%+v", s), func(t *testing.T) {
			width := s.fields*s.embed + 2
			p := newProbe(t, s.rows, width, s.out(), func(a *Arena) Layer {
				return cinLayerOf{NewCIN(a, "cin", s.fields, s.embed, width, s.maps)}
			})
			p.value = func(x []float64, params map[string][]float64) float64 { return s.value(x, params, p.c) }
			p.check(t)
		})
	}
}

// TestCINAllocatesNothing: after the first batch of a size, a pass allocates no memory.
func TestCINAllocatesNothing(t *testing.T) {
	a := new(Arena)
	c := NewCIN(a, "cin", 5, 4, 20, []int{8, 6})
	fatal.If(t, a.Build(Config{Seed: 1}))
	x, dx, dy := make([]float32, 30*20), make([]float32, 30*20), make([]float32, 30*c.Out())
	if n := testing.AllocsPerRun(5, func() {
		c.Forward(x, 30)
		c.AddBackward(dx, dy, 30)
	}); n != 0 {
		t.Errorf("%v allocations per pass", n)
	}
}
