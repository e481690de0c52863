package dense

import (
	"slices"
	"testing"

	"github.com/wdlrun/wdlrun/internal/kernel/f32"
)

// TestPairsComputeTheSame: pairs computed by distinct rows, and their gradients, equal those
// computed by samples up to rounding, for any number of workers.
func TestPairsComputeTheSame(t *testing.T) {
	for _, workers := range []int{1, 2, 5} {
		x := distinctTest{t: t, workers: workers, spec: Spec{In: 43, Hidden: []int{16}, Out: 1}, rows: 300, n: 20, cols: []int{0, 20}, dims: []int{10, 10}}
		x.make()
		in, fm := x.spec.In, NewFM("fm", 4, 10, x.spec.In)
		wantY, _ := fm.Forward(x.in, x.rows, true)
		wantDx, _ := fm.Backward(x.dy, x.rows)

		p := NewDistinct(x.mlps...)
		pairs := NewDistinctFM(p, fm)
		var before, dx []float32
		var y [2][]float32
		for n, add := range []bool{false, true} {
			x.through(p, func(rest []float32) {
				r := len(rest) / x.rows
				for i := range x.rows {
					for k, c := range p.rest {
						rest[i*r+k] = x.in[i*in+c]
					}
				}
				pairs.Begin()
			}, func() {
				for i := range p.Workers {
					pairs.Start(i)
				}
				y[n], dx = make([]float32, x.rows), slices.Clone(p.Rest())
				for i := range p.Workers {
					lo, hi := share(x.rows, workers, i)
					pairs.Forward(i, y[n][lo:hi], lo, hi)
					if add {
						pairs.Backward(x.dy[lo:hi], lo, hi)
					}
				}
			})
			if !add {
				before = append(slices.Clone(x.columns[0].Grad), x.columns[1].Grad...)
			}
		}
		for i := range p.Workers {
			pairs.End(i)
		}
		near(t, "pairs", y[1], wantY)
		x.nearFM(p, wantDx, before, dx)
	}
}

// nearFM compares the gradients that were added with gradients computed sample by sample. before
// contains the earlier gradients of the distinct rows, and rest the gradients of the other columns.
func (x *distinctTest) nearFM(p *Distinct, want, before, rest []float32) {
	in, got, sum := x.spec.In, []float32(nil), []float32(nil)
	for i, q := range x.columns {
		by := make([]float32, len(q.Rows))
		for r, of := range q.Of {
			f32.AddTo(by[int(of)*q.Dim:][:q.Dim], want[r*in+q.Col:][:q.Dim])
		}
		sum = append(sum, by...)
		for k, g := range q.Grad {
			got = append(got, g-before[i*len(q.Grad)+k])
		}
	}
	near(x.t, "gradient of a distinct row", got, sum)
	for r := range x.rows {
		for k, c := range p.rest {
			i := r*len(p.rest) + k
			w := float32(0)
			if c < 40 {
				w = want[r*in+c]
			}
			near(x.t, "gradient of a column that belongs to none", []float32{p.Rest()[i] - rest[i]}, []float32{w})
		}
	}
}
