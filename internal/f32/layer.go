// Package f32 holds the arithmetic of training on []float32: the three matrix
// products of a linear layer, the vector operations around them, and the loss.
//
// Shapes. Matrices are row-major and dense (the stride is the number of
// columns): x is rows×in, y is rows×out, w is in×out, bias is out. A batch is
// the rows of x; 0 rows are allowed everywhere.
//
// The interface is that of a layer, not of BLAS, so that a backend may pack
// weights once and fuse bias and ReLU into the product. Every result is the
// plain loop's, in the plain loop's order of additions: the sum over in (or
// out, or rows) runs upwards, starting from the bias or from what was
// accumulated. Therefore one row's output does not depend on the rows around
// it. The loops of spec_test.go are the specification. One liberty is taken: a
// factor of exactly 0 in x or dy may be skipped, so 0·NaN and 0·Inf may count
// as 0.
//
// Cost: 2·rows·in·out operations a product. On one core of an AMD EPYC
// (Zen 4), 120×128, 128×64 and 256×256 weights, batches of 128 to 1,024 and a
// quarter of x zero give 13–23 GFLOP/s: 0.9–1.3 times gonum's Gemm and 7 times
// the plain loop. Results narrower than 24 columns give 3–11.
//
// Errors and panics: a slice whose length does not fit the shape is a fault of
// the program and panics. Values are never refused: NaN and Inf propagate.
//
// Concurrency: functions keep no state, start no goroutine and allocate
// nothing; a Packed may be used by one goroutine at a time.
//
// Source of the blocking: Goto and van de Geijn, Anatomy of High-Performance
// Matrix Multiplication, 2008, reduced to two levels.
package f32

import (
	"fmt"
	"math"
)

// Packed is a layer's weights, in×out, in the order the products read them.
// The zero value holds none; Pack fills it. It refers to the weights it was
// given: they must not change until the last product of the step.
type Packed struct {
	in, out    int
	w          []float32 // in×out, the caller's
	transposed []float32 // out×in, made when an input gradient first needs it
	fresh      bool      // transposed belongs to w's present values
}

// Pack takes the weights of one step. It keeps its memory from step to step,
// so only the first call with a shape allocates (at the first GradInput).
func (p *Packed) Pack(w []float32, in, out int) {
	check("Pack", "w", len(w), in, out)
	p.in, p.out, p.w, p.fresh = in, out, w, false
}

// transpose returns the weights as out×in.
func (p *Packed) transpose() []float32 {
	n := p.in * p.out
	if cap(p.transposed) < n {
		p.transposed = make([]float32, n)
	}
	p.transposed = p.transposed[:n]
	if p.fresh {
		return p.transposed
	}
	p.fresh = true
	// Blocks of 16 columns: 16 written cache lines are filled before the next.
	const block = 16
	for j := 0; j < p.out; j += block {
		width := min(block, p.out-j)
		for i := range p.in {
			for k, v := range p.w[i*p.out+j:][:width] {
				p.transposed[(j+k)*p.in+i] = v
			}
		}
	}
	return p.transposed
}

// Forward computes y = x·w + bias, and max(y, 0) of it if relu. A nil bias is
// zero. NaN passes through ReLU. y must not overlap x.
func Forward(y, x []float32, w *Packed, bias []float32, rows int, relu bool) {
	check("Forward", "x", len(x), rows, w.in)
	check("Forward", "y", len(y), rows, w.out)
	if bias == nil {
		clear(y)
	} else {
		check("Forward", "bias", len(bias), 1, w.out)
		for r := range rows {
			copy(y[r*w.out:(r+1)*w.out], bias)
		}
	}
	addProduct(y, x, w.w, rows, w.in, w.out)
	if relu {
		for i, v := range y {
			y[i] = max(v, 0)
		}
	}
}

// GradInput computes dx = dy·wᵀ, the gradient by the layer's input. dx must not
// overlap dy.
func GradInput(dx, dy []float32, w *Packed, rows int) {
	check("GradInput", "dx", len(dx), rows, w.in)
	check("GradInput", "dy", len(dy), rows, w.out)
	clear(dx)
	addProduct(dx, dy, w.transpose(), rows, w.out, w.in)
}

// GradWeight adds the gradients of one batch: dw += xᵀ·dy and db += the column
// sums of dy. A nil db is left out.
func GradWeight(dw, db, x, dy []float32, rows, in, out int) {
	check("GradWeight", "dw", len(dw), in, out)
	check("GradWeight", "x", len(x), rows, in)
	check("GradWeight", "dy", len(dy), rows, out)
	if db != nil {
		check("GradWeight", "db", len(db), 1, out)
		for r := range rows {
			for j, v := range dy[r*out:][:len(db)] {
				db[j] += v
			}
		}
	}
	addTransposedProduct(dw, x, dy, in, rows, out)
}

// ReLUGrad zeroes the entries of dy where the ReLU's output y is 0.
func ReLUGrad(dy, y []float32) {
	check("ReLUGrad", "dy", len(dy), 1, len(y))
	for i, v := range y {
		// A mask instead of a branch: the signs of activations are not
		// predictable, and a wrong guess costs more than the whole element.
		bits := int32(math.Float32bits(v) &^ (1 << 31))
		dy[i] = math.Float32frombits(math.Float32bits(dy[i]) & uint32(-bits>>31))
	}
}

// check panics unless a slice of n values is a rows×cols matrix.
func check(op, name string, n, rows, cols int) {
	if rows < 0 || cols < 0 || n != rows*cols {
		panic(fmt.Sprintf("f32: %s: %s holds %d values, its shape is %d×%d", op, name, n, rows, cols))
	}
}
