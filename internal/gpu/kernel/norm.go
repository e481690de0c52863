//go:build gpu

package kernel

import (
	"fmt"

	"github.com/wdlrun/wdlrun/internal/gpu/cuda"
)

// Norm holds the buffers of a layer of batch normalisation with Cols units. Package norm
// computes Mean, InvStd, MeanDy and MeanDyX. Scale and Shift are the parameters. Partial contains at least
// PartialSums(rows, 2·Cols) floats.
type Norm struct {
	Rows, Cols      int
	Mean, InvStd    cuda.Buffer
	MeanDy, MeanDyX cuda.Buffer
	Scale, Shift    cuda.Buffer
	Partial         cuda.Buffer
}

type normSumsArgs struct {
	partial, x, dy, mean, inv cuda.Address
	rows, cols, chunk, pad    uint32
}

type normTotalArgs struct {
	total, partial cuda.Address
	chunks, cols   uint32
}

// Sums sets total to the sums of the columns of x.
func (n Norm) Sums(s *Set, on *cuda.Stream, total, x cuda.Buffer) error {
	return n.sums(s, on, total, normSumsArgs{x: x.At})
}

// Squares sets total to the sums of the columns of (x − Mean)².
func (n Norm) Squares(s *Set, on *cuda.Stream, total, x cuda.Buffer) error {
	return n.sums(s, on, total, normSumsArgs{x: x.At, mean: n.Mean.At})
}

// Products sets total to the sums of the columns of dy·(x − Mean)·InvStd.
func (n Norm) Products(s *Set, on *cuda.Stream, total, dy, x cuda.Buffer) error {
	return n.sums(s, on, total, normSumsArgs{x: x.At, dy: dy.At, mean: n.Mean.At, inv: n.InvStd.At})
}

func (n Norm) sums(s *Set, on *cuda.Stream, total cuda.Buffer, a normSumsArgs) error {
	sums := PartialSums(n.Rows, n.Cols)
	if n.Partial.Len < 2*sums || total.Len < n.Cols {
		panic(fmt.Sprintf("kernel: Norm: %d and %d floats for %d×%d", total.Len, n.Partial.Len, n.Rows, n.Cols))
	}
	a.partial, a.rows, a.cols, a.chunk = n.Partial.At, size(n.Rows), size(n.Cols), sumRows
	if err := launch(s, on, normSums, sums, a); err != nil {
		return err
	}
	return launch(s, on, normTotal, n.Cols, normTotalArgs{total.At, n.Partial.At, size(sums / n.Cols), size(n.Cols)})
}

type normForwardArgs struct {
	y, x, mean, inv, scale, shift cuda.Address
	n, cols                       uint32
}

// Forward sets y = (x − Mean)·InvStd·Scale + Shift.
func (n Norm) Forward(s *Set, on *cuda.Stream, y, x cuda.Buffer) error {
	a := normForwardArgs{y.At, x.At, n.Mean.At, n.InvStd.At, n.Scale.At, n.Shift.At, size(n.Rows * n.Cols), size(n.Cols)}
	return launch(s, on, normForward, n.Rows*n.Cols, a)
}

type normBackwardArgs struct {
	dy, x, mean, inv, scale, meanDy, meanDyX cuda.Address
	n, cols                                  uint32
}

// Backward takes dy through the normalisation of x, in place.
func (n Norm) Backward(s *Set, on *cuda.Stream, dy, x cuda.Buffer) error {
	a := normBackwardArgs{dy.At, x.At, n.Mean.At, n.InvStd.At, n.Scale.At, n.MeanDy.At, n.MeanDyX.At, size(n.Rows * n.Cols), size(n.Cols)}
	return launch(s, on, normBackward, n.Rows*n.Cols, a)
}
