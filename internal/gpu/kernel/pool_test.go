//go:build gpu

package kernel

import (
	"testing"

	"github.com/wdlrun/wdlrun/internal/gpu/cuda"
	"github.com/wdlrun/wdlrun/internal/kernel/f32"
	"github.com/wdlrun/wdlrun/internal/kernel/raw"
)

// words copies numbers to the device.
func (m *memory) words(x ...uint32) cuda.Buffer { return m.in(raw.Of[float32](raw.Bytes(x))...) }

// TestPool pools a batch of three samples that was written by hand. Feature 0 has one value in
// each bag. Feature 1 has an empty bag, and one of two values, of which a row occurs twice. Both
// read table 0. Feature 2 is only in the wide model, and its table is the last of three, the second
// of which has no rows.
func TestPool(t *testing.T) {
	const none = 1<<32 - 1
	const width, samples, dim = 6, 3, 2
	mem := newMemory(t, 20_000)
	rows := random(3*3+2, 1)
	rows[3] = 1e8 // sums depend on their order
	factors := []float32{.1, 3, .7}
	b := Bags{
		Samples: samples, Features: 3, Tables: 3, Keys: 5, Values: 9, Width: width, Inputs: 2, Labels: 1, Widest: 3,
		Feature: mem.words(0, none, none, 0, dim, 3, 0, 0, 2, dim, 6, none, none, none, 0),
		Table:   mem.words(0, 3, dim, 3, 3, dim, 3, 1, 0), Column: mem.words(0, 0, 1, 1, 3, 4),
		Offsets: mem.words(0, 2, 2, 3), Factors: mem.in(factors...),
		// Values 0 to 2 have the rows 0, 1, 0; 3 to 5 have 1, 2, 1; 6 to 8 have 3, 4, 3.
		Place: mem.words(0, 3, 6, 9, 10), Start: mem.words(0, 2, 5, 6, 8, 9), Order: mem.words(0, 2, 1, 3, 5, 4, 6, 8, 7), Row: mem.in(rows...),
		At: mem.pool.Cut(9), Deep: mem.pool.Cut(9), Wide: mem.pool.Cut(9), Factor: mem.pool.Cut(9),
	}
	single := f32.Bags{At: []uint32{0, 3, 0}}
	bags := f32.Bags{Offsets: []int32{0, 2, 2, 3}, At: []uint32{3, 6, 3}, Coefs: factors}
	alone := f32.Bags{At: []uint32{9, 10, 9}}
	dense, logit := random(samples*2, 2), random(samples, 3)
	x, wide := make([]float32, samples*width), append([]float32(nil), logit...)
	f32.Pool(x, width, rows, single, dim, false)
	f32.Pool(x[2:], width, rows, bags, dim, false)
	for i := range samples {
		copy(x[i*width+4:(i+1)*width], dense[2*i:])
	}
	f32.Pool(wide, 1, rows[2:], single, 1, true)
	f32.Pool(wide, 1, rows[2:], bags, 1, true)
	f32.Pool(wide, 1, rows, alone, 1, true)
	mem.do(b.Index(gpu.set, gpu.stream))
	got, sums := mem.in(random(samples*width, 4)...), mem.in(logit...)
	mem.do(b.Pool(gpu.set, gpu.stream, got, mem.in(dense...)))
	mem.same("input", got, x)
	mem.do(b.PoolWide(gpu.set, gpu.stream, sums))
	mem.same("logits", sums, wide)

	dx, dlogit, grads := random(samples*width, 5), random(samples, 6), make([]float32, len(rows))
	dx[2], dx[3] = 1e8, -1e8
	f32.PoolGrad(grads, single, dx, width, dim)
	f32.PoolGrad(grads, bags, dx[2:], width, dim)
	f32.PoolGrad(grads[2:], single, dlogit, 1, 1)
	f32.PoolGrad(grads[2:], bags, dlogit, 1, 1)
	f32.PoolGrad(grads, alone, dlogit, 1, 1)
	out := mem.in(random(len(rows), 7)...)
	mem.do(b.Grad(gpu.set, gpu.stream, out, mem.in(dx...), mem.in(dlogit...)))
	mem.same("gradients", out, grads)
}

// TestPoolWithoutKeys: features of empty bags pool to zeros, and there are no gradients.
func TestPoolWithoutKeys(t *testing.T) {
	const none = 1<<32 - 1
	mem := newMemory(t, 1000)
	b := Bags{
		Samples: 2, Features: 1, Tables: 1, Width: 2, Labels: 1, Widest: 3,
		Feature: mem.words(0, 0, none, 0, 2), Table: mem.words(0, 3, 2), Column: mem.words(0, 0), Offsets: mem.words(0, 0, 0), Start: mem.words(0),
	}
	x, logit := mem.in(9, 9, 9, 9), mem.in(1, 2)
	mem.do(b.Index(gpu.set, gpu.stream))
	mem.do(b.Pool(gpu.set, gpu.stream, x, cuda.Buffer{}))
	mem.do(b.PoolWide(gpu.set, gpu.stream, logit))
	mem.do(b.Grad(gpu.set, gpu.stream, cuda.Buffer{}, x, logit))
	mem.same("input", x, make([]float32, 4))
	mem.same("logits", logit, []float32{1, 2})
}
