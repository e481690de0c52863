package f32

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// against times f and the peak of this core by turns and reports FLOP/s and the
// share of the peak of the fastest turns: a neighbour on a shared machine slows
// an average down, and seldom the fastest of many.
func against(b *testing.B, flop float64, f func()) {
	const rounds = 1 << 17 // of PeakFLOP: about a millisecond
	best, peak := 0.0, 0.0
	for b.Loop() {
		start := time.Now()
		f()
		best = max(best, flop/time.Since(start).Seconds())
		start = time.Now()
		flop := PeakFLOP(rounds)
		peak = max(peak, float64(flop)/time.Since(start).Seconds())
	}
	b.ReportMetric(0, "ns/op") // of both together: no use
	b.ReportMetric(best/1e9, "GFLOP/s")
	if peak > 0 {
		b.ReportMetric(peak/1e9, "peak")
		b.ReportMetric(100*best/peak, "%peak")
	}
}

// BenchmarkProducts reports GFLOP/s of the three products of a layer and their share of the
// peak of multiply-adds. "portable" runs the tiles of gonum's Gemm. Pack is included: once
// per call, as in a step of one batch.
//
//	go test -run '^$' -bench Products -cpu 1 ./internal/kernel/f32
func BenchmarkProducts(b *testing.B) {
	for _, s := range []struct{ rows, in, out int }{
		{256, 600, 256}, {256, 256, 256}, {256, 429, 256}, {1024, 600, 256}, {1024, 256, 256}, {4096, 600, 256}, {4096, 256, 256},
		{256, 621, 250}, {256, 128, 1}, // no whole vectors, one column
		{100, 600, 256}, {256, 600, 400}, {256, 400, 400}, {256, 100, 100}, {256, 1000, 1000}, {256, 64, 32}, {256, 13, 512}, {37, 13, 64},
	} {
		m := newBatch(1, s.rows, s.in, s.out)
		var p Packed
		var scratch Scratch
		for _, c := range []struct {
			name string
			run  func()
		}{
			{"forward", func() { p.Pack(m.w, s.in, s.out); Forward(m.y, m.x, &p, m.bias, s.rows, true) }},
			{"input", func() { p.fresh = false; GradInput(m.dx, m.dy, &p, s.rows, m.x) }},
			{"weight", func() { scratch.GradWeight(m.dw, m.db, m.x, m.dy, s.rows, s.in, s.out) }},
		} {
			eachBackend(func(backend string) {
				b.Run(fmt.Sprintf("%s/%dx%dx%d/%s", c.name, s.rows, s.in, s.out, backend), func(b *testing.B) {
					p.Pack(m.w, s.in, s.out)
					against(b, 2*float64(s.rows*s.in*s.out), c.run)
				})
			})
		}
	}
}

// versus times f and g by turns and reports FLOP/s of f and how many times as
// fast as g it is, by the fastest turns of both.
func versus(b *testing.B, flop float64, prepare, f, g func()) {
	fastest := [2]float64{math.Inf(1), math.Inf(1)}
	for b.Loop() {
		for i, run := range []func(){f, g} {
			prepare()
			start := time.Now()
			run()
			fastest[i] = min(fastest[i], time.Since(start).Seconds())
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(flop/fastest[0]/1e9, "GFLOP/s")
	b.ReportMetric(fastest[1]/fastest[0], "×other")
}

// BenchmarkTiles reports GFLOP/s of the three products of distinct rows, of 60 embeddings
// with 300 each and an output of 256, and their share of the peak.
//
//	go test -run '^$' -bench Tiles -cpu 1 ./internal/kernel/f32
func BenchmarkTiles(b *testing.B) {
	const pieces, n, out = 60, 300, 256
	for _, dim := range []int{8, 10, 16, 32} {
		m := newBatch(1, n, pieces*dim, out)
		var p Packed
		p.Pack(m.w, pieces*dim, out)
		var scratch TileScratch
		tile := make([]float32, n*TileColumns)
		for _, c := range []struct {
			name string
			run  func(q, j int)
		}{
			{"forward", func(q, j int) { TileForward(tile, m.x[q*n*dim:][:n*dim], &p, n, q*dim, dim, j) }},
			{"input", func(q, j int) { TileGradInput(m.dx[q*n*dim:][:n*dim], tile, &p, &scratch, n, q*dim, dim, j) }},
			{"weight", func(q, j int) {
				TileGradWeight(m.dw[q*dim*out:][:dim*out], m.x[q*n*dim:][:n*dim], tile, n, dim, out, j)
			}},
		} {
			eachBackend(func(backend string) {
				b.Run(fmt.Sprintf("%s/%d/%s", c.name, dim, backend), func(b *testing.B) {
					p.Pack(m.w, pieces*dim, out)
					against(b, 2*float64(n*pieces*dim*out), func() {
						for j := 0; j < out; j += TileColumns {
							for q := range pieces {
								c.run(q, j)
							}
						}
					})
				})
			})
		}
	}
}

// BenchmarkSparse reports the speed of the products that skip zeros as a multiple of the
// dense ones, by the share of zeros. The zeros change from turn to turn, because branches
// would otherwise be predicted.
//
//	go test -run '^$' -bench Sparse -cpu 1 ./internal/kernel/f32
func BenchmarkSparse(b *testing.B) {
	for _, s := range []struct{ rows, in, out int }{{256, 256, 256}, {256, 600, 256}, {256, 100, 100}, {1024, 400, 400}} {
		m := newBatch(1, s.rows, s.in, s.out)
		var p Packed
		var r Scratch
		p.Pack(m.w, s.in, s.out)
		for _, share := range []float64{.35, .4, .5, .6, .7, .9} {
			for _, c := range []struct {
				name          string
				dense, sparse func()
			}{
				{"forward", func() { Forward(m.y, m.x, &p, m.bias, m.rows, true) }, func() { r.Forward(m.y, m.x, &p, m.bias, m.rows, true) }},
				{"input", func() { GradInput(m.dx, m.dy, &p, m.rows, m.x) }, func() { r.GradInput(m.dx, m.dy, &p, m.rows, m.x) }},
				{"weight", func() { r.addDense(m.dw, m.x, m.dy, m.rows, m.in, m.out) }, func() { r.GradWeight(m.dw, m.db, m.x, m.dy, m.rows, m.in, m.out) }},
			} {
				eachBackend(func(backend string) {
					b.Run(fmt.Sprintf("%s/%dx%dx%d/%v/%s", c.name, s.rows, s.in, s.out, share, backend), func(b *testing.B) {
						p.Pack(m.w, s.in, s.out)
						p.PackGrad()
						turn := uint64(0)
						versus(b, 2*float64(s.rows*s.in*s.out), func() {
							turn++
							thin(m.x, share, turn)
							thin(m.dy, share, turn)
						}, c.sparse, c.dense)
					})
				})
			}
		}
	}
}
