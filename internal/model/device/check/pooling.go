//go:build gpu

package check

import (
	"errors"
	"math"

	"github.com/wdlrun/wdlrun/internal/gpu/cuda"
	"github.com/wdlrun/wdlrun/internal/gpu/kernel"
	"github.com/wdlrun/wdlrun/internal/kernel/raw"
)

// The batch has two features with tables of their own, of distinct rows each, and two dense
// inputs. A row has an embedding and one wide weight.
const (
	distinct, inputs = 7, 2
	deep0, deep1     = 5, 8
	floats           = distinct * (deep0 + 1 + deep1 + 1)
)

// bagWords returns the arrays of kernel.Bags from Feature to Order. A sample has one value of
// feature 0, and from 0 to 3 of feature 1, with factors. Value k of a feature has row k % distinct.
func bagWords() (parts [7][]uint32) {
	const none = math.MaxUint32
	offsets := []uint32{0}
	for i := range uint32(rows) {
		offsets = append(offsets, offsets[i]+i%4)
	}
	column := make([]uint32, deep0+deep1+inputs)
	for i := range column[deep0:] {
		column[deep0+i] = uint32(1 + max(0, i+1-deep1)) // features 0 and 1, then the inputs
	}
	start := []uint32{0}
	var place, order []uint32
	first, at := uint32(0), uint32(0)
	for table, n := range []uint32{rows, offsets[rows]} {
		for row := range uint32(distinct) {
			for k := row; k < n; k += distinct {
				order = append(order, first+k)
			}
			place, start = append(place, at), append(start, uint32(len(order)))
			at += []uint32{deep0 + 1, deep1 + 1}[table]
		}
		first += n
	}
	return [...][]uint32{
		{0, none, none, 0, deep0, rows, 0, 0, deep0, deep1}, {0, deep0 + 1, deep0, distinct, deep1 + 1, deep1}, column, offsets, place, start, order,
	}
}

// fillBags stores the arrays in a buffer.
func fillBags(x []float32) {
	to := raw.Of[uint32](raw.Bytes(x))
	for _, part := range bagWords() {
		to = to[copy(to, part):]
	}
}

// bags launches the kernels of pooling.
func bags(s *kernel.Set, on *cuda.Stream, b []cuda.Buffer) error {
	words, at := bagWords(), 0
	var cut [len(words)]cuda.Buffer
	for i, part := range words {
		cut[i] = b[0].Part(at, at+len(part))
		at += len(part)
	}
	n := len(words[6])
	of := func(i int) cuda.Buffer { return b[6].Part(i*n, (i+1)*n) }
	x := kernel.Bags{
		Samples: rows, Features: 2, Tables: 2, Keys: 2 * distinct, Values: n, Width: len(words[2]), Inputs: inputs, Labels: 1, Widest: deep1 + 1,
		Feature: cut[0], Table: cut[1], Column: cut[2], Offsets: cut[3], Place: cut[4], Start: cut[5], Order: cut[6],
		Row: b[1].Part(0, floats), Factors: b[1].Part(floats, floats+n), At: of(0), Deep: of(1), Wide: of(2), Factor: of(3),
	}
	input, logit := rows*x.Width, rows
	plain := x
	plain.Factor = cuda.Buffer{}
	return errors.Join(
		x.Index(s, on),
		x.Pool(s, on, b[3].Part(0, input), b[2]),
		x.PoolWide(s, on, b[7].Part(0, logit)),
		x.Grad(s, on, b[5].Part(0, floats), b[4], b[2].Part(logit, 2*logit)),
		plain.Grad(s, on, b[5].Part(floats, 2*floats), b[4], b[2].Part(logit, 2*logit)),
	)
}

// rows and cols are the shape of most arguments: several blocks of threads, and more partial sums
// than the compiler adds at a time, in an odd number.
const rows, cols = 570, 37
