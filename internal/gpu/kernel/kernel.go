//go:build gpu

package kernel

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/wdlrun/wdlrun/internal/gpu/cuda"
	"github.com/wdlrun/wdlrun/internal/kernel/f32"
)

// The names of the kernels. bagIndex and so on index Set.kernels.
var names = [...]string{
	bagIndex: "bag_index", pool: "pool", poolWide: "pool_wide", poolGrad: "pool_grad",
	biasAct: "bias_act", actGrad: "act_grad", dropout: "dropout", columnSums: "column_sums", columnTotal: "column_total",
	add: "add", normSums: "norm_sums", normTotal: "norm_total", normForward: "norm_forward", normBackward: "norm_backward",
	loss: "loss", crossForward: "cross_forward", crossBackward: "cross_backward",
	fmForward: "fm_forward", fmTotal: "fm_total", fmBackward: "fm_backward",
	cinTranspose: "cin_transpose", cinAddTransposed: "cin_add_transposed", cinProducts: "cin_products", cinMapsGrad: "cin_maps_grad",
	cinFieldsGrad: "cin_fields_grad", cinSums: "cin_sums", cinSpread: "cin_spread",
	sgd: "sgd", adagrad: "adagrad", adam: "adam", ftrl: "ftrl", squareSums: "square_sums", doubleSums: "double_sums",
}

const (
	bagIndex = iota
	pool
	poolWide
	poolGrad
	biasAct
	actGrad
	dropout
	columnSums
	columnTotal
	add
	normSums
	normTotal
	normForward
	normBackward
	loss
	crossForward
	crossBackward
	fmForward
	fmTotal
	fmBackward
	cinTranspose
	cinAddTransposed
	cinProducts
	cinMapsGrad
	cinFieldsGrad
	cinSums
	cinSpread
	sgd
	adagrad
	adam
	ftrl
	squareSums
	doubleSums
	count
)

// Set contains the kernels, compiled for one device. Its methods launch them on a stream and
// return before they have run; buffers must stay valid until then. Shapes are as in package
// dense. An error is one of the launch.
type Set struct {
	module  *cuda.Module
	kernels [count]cuda.Kernel
	twins   *twins // not nil: runs them on the CPU instead
}

// Load compiles the kernels for a device.
func Load(d *cuda.Device) (*Set, error) {
	module, err := d.Module(PTX)
	if err != nil {
		return nil, fmt.Errorf("kernel: load: %w", err)
	}
	s := &Set{module: module}
	for i, name := range names {
		if s.kernels[i], err = module.Kernel(name); err != nil {
			return nil, errors.Join(fmt.Errorf("kernel: load: %w", err), module.Close())
		}
	}
	return s, nil
}

// Close frees the code.
func (s *Set) Close() error {
	if s.twins != nil {
		return nil
	}
	return s.module.Close()
}

// MaxElements is the largest number of elements of a launch and of a buffer. Kernels count in 32 bits, and
// the sum of an index and the number of threads must fit too.
const MaxElements = math.MaxInt32

// size is a length as the kernels read it. The caller has compared it with MaxElements.
func size(n int) uint32 {
	if n < 0 || n > MaxElements {
		panic(fmt.Sprintf("kernel: %d elements", n))
	}
	return uint32(n)
}

// flag is a condition as the kernels read it.
func flag(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// launch runs kernel k over n elements, which it counts in 32 bits.
func launch[A any](s *Set, on *cuda.Stream, k, n int, args A) error {
	if s.twins != nil {
		s.twins.run(k, unsafe.Pointer(&args))
		return nil
	}
	return on.Launch(s.kernels[k], int(size(n)), unsafe.Pointer(&args))
}

// Act is an activation.
type Act uint32

// The activations of package dense.
const (
	Identity Act = iota
	ReLU
	Tanh
	Sigmoid
)

type biasActArgs struct {
	y, bias           cuda.Address
	n, cols, act, pad uint32
}

// BiasAct sets y, rows of cols values, to act(y + bias). A bias of no floats is left out.
func (s *Set) BiasAct(on *cuda.Stream, y, bias cuda.Buffer, cols int, act Act) error {
	return launch(s, on, biasAct, y.Len, biasActArgs{y: y.At, bias: bias.At, n: size(y.Len), cols: size(cols), act: uint32(act)})
}

type actGradArgs struct {
	dy, y  cuda.Address
	n, act uint32
}

// ActGrad takes dy back through an activation whose output was y, in place.
func (s *Set) ActGrad(on *cuda.Stream, dy, y cuda.Buffer, act Act) error {
	return launch(s, on, actGrad, dy.Len, actGradArgs{dy.At, y.At, size(dy.Len), uint32(act)})
}

type dropoutArgs struct {
	y, x, row     cuda.Address
	batch         uint64
	n, cols, keep uint32
	scale         float32
}

// Mask chooses the elements that dropout keeps and multiplies by Scale: element (row, column)
// if the 32 random bits of Batch, the row's number and the column are below Keep.
type Mask struct {
	Batch uint64
	Keep  uint32
	Scale float32
}

// Dropout sets y, rows of cols values, to x times the mask. y may be x, and gradients go
// back by the same call. row is the numbers of the rows, two floats each.
func (s *Set) Dropout(on *cuda.Stream, y, x, row cuda.Buffer, cols int, m Mask) error {
	return launch(s, on, dropout, y.Len, dropoutArgs{y.At, x.At, row.At, m.Batch, size(y.Len), size(cols), m.Keep, m.Scale})
}

// sumRows is how many rows of a column one thread adds.
const sumRows = 64

// PartialSums is how many floats ColumnSums needs for its partial sums.
func PartialSums(rows, cols int) int { return (rows + sumRows - 1) / sumRows * cols }

type columnSumsArgs struct {
	partial, x             cuda.Address
	rows, cols, chunk, pad uint32
}

type columnTotalArgs struct {
	total, partial cuda.Address
	chunks, cols   uint32
}

// ColumnSums sets total to the sums of the columns of x, rows×cols. The order of additions
// depends only on the number of rows.
func (s *Set) ColumnSums(on *cuda.Stream, total, x, partial cuda.Buffer, rows, cols int) error {
	n := PartialSums(rows, cols)
	if partial.Len < n || x.Len < rows*cols || total.Len < cols {
		panic(fmt.Sprintf("kernel: ColumnSums: %d, %d and %d floats for %d×%d", total.Len, x.Len, partial.Len, rows, cols))
	}
	err := launch(s, on, columnSums, n, columnSumsArgs{partial: partial.At, x: x.At, rows: size(rows), cols: size(cols), chunk: sumRows})
	if err != nil {
		return err
	}
	return launch(s, on, columnTotal, cols, columnTotalArgs{total.At, partial.At, size(n / max(cols, 1)), size(cols)})
}

type addArgs struct {
	y, x   cuda.Address
	n, pad uint32
}

// Add adds x to y.
func (s *Set) Add(on *cuda.Stream, y, x cuda.Buffer) error {
	return launch(s, on, add, y.Len, addArgs{y: y.At, x: x.At, n: size(y.Len)})
}

// LossKind is a loss of package dense.
type LossKind uint32

// The losses.
const (
	LogLoss LossKind = iota
	SquaredLoss
	PoissonLoss
)

// Losses is the arguments of Set.Loss. Net, Bias and Weight may have no floats.
type Losses struct {
	Logit, Net, Bias, Label, Weight cuda.Buffer
	DLogit, Loss                    cuda.Buffer
	Share                           float64
	Kind                            LossKind
}

type lossArgs struct {
	logit, net, bias, label, weight, dlogit, loss cuda.Address
	share                                         float64
	n, kind                                       uint32
}

// Loss adds the one float Bias and Net to the logits and stores the loss of each sample and
// its gradient by the logit, both times Weight and Share.
func (s *Set) Loss(on *cuda.Stream, l Losses) error {
	return launch(s, on, loss, l.Logit.Len, lossArgs{
		l.Logit.At, l.Net.At, l.Bias.At, l.Label.At, l.Weight.At, l.DLogit.At, l.Loss.At, l.Share, size(l.Logit.Len), uint32(l.Kind),
	})
}

type crossForwardArgs struct {
	y, u, bias, x0, x cuda.Address
	n, cols           uint32
}

// CrossForward adds the bias to u and sets y = x0⊙u + x.
func (s *Set) CrossForward(on *cuda.Stream, y, u, bias, x0, x cuda.Buffer) error {
	return launch(s, on, crossForward, y.Len, crossForwardArgs{y.At, u.At, bias.At, x0.At, x.At, size(y.Len), size(bias.Len)})
}

type crossBackwardArgs struct {
	dx0, du, dy, x0, u cuda.Address
	n, first           uint32
}

// CrossBackward sets du = dy⊙x0 and adds dy⊙u to dx0; first sets dx0 to it.
func (s *Set) CrossBackward(on *cuda.Stream, dx0, du, dy, x0, u cuda.Buffer, first bool) error {
	return launch(s, on, crossBackward, dy.Len, crossBackwardArgs{dx0.At, du.At, dy.At, x0.At, u.At, size(dy.Len), flag(first)})
}

// FM is the shape of a factorization machine over rows of Width columns that begin with Fields
// embeddings of Embed columns.
type FM struct{ Rows, Fields, Embed, Width int }

type fmForwardArgs struct {
	sum, term, x               cuda.Address
	rows, fields, embed, width uint32
}

type fmTotalArgs struct {
	y, term     cuda.Address
	rows, embed uint32
}

// Forward adds the machine's output for x to y, one float a row. Backward
// needs sum, which it sets; sum and term are Rows×Embed.
func (f FM) Forward(s *Set, on *cuda.Stream, y, sum, term, x cuda.Buffer) error {
	a := fmForwardArgs{sum.At, term.At, x.At, size(f.Rows), size(f.Fields), size(f.Embed), size(f.Width)}
	if err := launch(s, on, fmForward, f.Rows*f.Embed, a); err != nil {
		return err
	}
	return launch(s, on, fmTotal, f.Rows, fmTotalArgs{y.At, term.At, size(f.Rows), size(f.Embed)})
}

type fmBackwardArgs struct {
	dx, dy, x, sum             cuda.Address
	rows, fields, embed, width uint32
}

// Backward adds the gradient of the embeddings to dx, given the gradient of y.
func (f FM) Backward(s *Set, on *cuda.Stream, dx, dy, x, sum cuda.Buffer) error {
	a := fmBackwardArgs{dx.At, dy.At, x.At, sum.At, size(f.Rows), size(f.Fields), size(f.Embed), size(f.Width)}
	return launch(s, on, fmBackward, f.Rows*f.Fields*f.Embed, a)
}

type updateArgs struct {
	w, g, state cuda.Address
	n, pad      uint32
	constants   f32.Constants
}

// Update takes one step of the parameters w. There is no kernel of f32.RowwiseAdagrad: it
// panics.
func (s *Set) Update(on *cuda.Stream, r f32.Rule, c f32.Constants, w, g, state cuda.Buffer) error {
	k := [...]int{f32.SGD: sgd, f32.Adagrad: adagrad, f32.RowwiseAdagrad: count, f32.Adam: adam, f32.FTRL: ftrl}[r]
	return launch(s, on, k, w.Len, updateArgs{w: w.At, g: g.At, state: state.At, n: size(w.Len), constants: c})
}

// A thread of SquareSums adds squareEach squares, and then one of doubleEach threads their sums.
const squareEach, doubleEach = 32, 64

// NormSums returns the numbers of sums, of two floats each, that SquareSums stores for n numbers: in
// partial and in total.
func NormSums(n int) (partial, total int) {
	partial = max(1, (n+squareEach-1)/squareEach)
	return partial, (partial + doubleEach - 1) / doubleEach
}

type squareSumsArgs struct {
	partial, g, w cuda.Address
	n, count      uint32
	scale, decay  float32
}

type doubleSumsArgs struct {
	total, partial cuda.Address
	n, count       uint32
}

// SquareSums stores partial sums, in float64, of the squares of scale·g + decay·w in total. NormSums
// has the sizes.
func (s *Set) SquareSums(on *cuda.Stream, total, partial, g, w cuda.Buffer, scale, decay float32) error {
	partials, totals := NormSums(g.Len)
	if partial.Len < 2*partials || total.Len < 2*totals {
		panic(fmt.Sprintf("kernel: SquareSums: %d and %d floats for %d numbers", total.Len, partial.Len, g.Len))
	}
	if err := launch(s, on, squareSums, partials, squareSumsArgs{partial.At, g.At, w.At, size(g.Len), size(partials), scale, decay}); err != nil {
		return err
	}
	return launch(s, on, doubleSums, totals, doubleSumsArgs{total.At, partial.At, size(partials), size(totals)})
}
