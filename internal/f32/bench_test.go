package f32

import (
	"fmt"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
)

// BenchmarkProducts gives GFLOP/s of the three products, and of gonum's own
// Gemm on the forward shape (which may use every core: run with -cpu 1).
func BenchmarkProducts(b *testing.B) {
	for _, s := range []struct{ rows, in, out int }{
		{128, 120, 128}, {1024, 120, 128}, {256, 128, 64}, {1024, 256, 256}, {256, 64, 1},
	} {
		m := newBatch(1, s.rows, s.in, s.out)
		shape := fmt.Sprintf("%dx%dx%d", s.rows, s.in, s.out)
		var p Packed
		for _, c := range []struct {
			name string
			run  func()
		}{
			{"forward", func() { p.Pack(m.w, s.in, s.out); Forward(m.y, m.x, &p, m.bias, s.rows, true) }},
			{"input", func() { p.Pack(m.w, s.in, s.out); GradInput(m.dx, m.dy, &p, s.rows) }},
			{"weight", func() { GradWeight(m.dw, m.db, m.x, m.dy, s.rows, s.in, s.out) }},
			{"gonum", func() {
				blas32.Gemm(blas.NoTrans, blas.NoTrans, 1,
					blas32.General{Rows: s.rows, Cols: s.in, Stride: s.in, Data: m.x},
					blas32.General{Rows: s.in, Cols: s.out, Stride: s.out, Data: m.w}, 0,
					blas32.General{Rows: s.rows, Cols: s.out, Stride: s.out, Data: m.y})
			}},
			{"narrow", func() { clear(m.y); addNarrow(m.y, m.x, m.w, s.rows, s.in, s.out) }},
			{"spec", func() { specForward(m.y, m.x, m.w, m.bias, s.rows, s.in, s.out, true) }},
		} {
			b.Run(c.name+"/"+shape, func(b *testing.B) {
				for b.Loop() {
					c.run()
				}
				flop := 2 * float64(s.rows*s.in*s.out) * float64(b.N)
				b.ReportMetric(flop/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}

func BenchmarkSigmoidLoss(b *testing.B) {
	m := newBatch(1, 1, 1024, 1)
	for b.Loop() {
		SigmoidLoss(m.dx, m.x, m.x)
	}
	b.SetBytes(4 * 1024)
}
