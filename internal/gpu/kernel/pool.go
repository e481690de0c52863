//go:build gpu

package kernel

import "github.com/wdlrun/wdlrun/internal/gpu/cuda"

// Bags are the bags of a batch and its distinct rows. Buffers hold numbers of 32 bits in the
// place of floats. internal/model/step describes Feature to Order, as DeviceFeature and so on; a
// device computes the others. Offsets and Factors may have no floats.
type Bags struct {
	Samples, Features, Tables, Keys, Values int
	Width                                   int // columns of the input
	Inputs                                  int // the last of these, which are dense
	Labels                                  int
	Widest                                  int // most values of a row

	Feature, Table, Column   cuda.Buffer // Column: the feature of each column of the input, or Features plus the number of a dense input
	Offsets, Factors         cuda.Buffer
	Place, Start, Order, Row cuda.Buffer // Row: the distinct rows

	At         cuda.Buffer // by value: where its row begins in Row
	Deep, Wide cuda.Buffer // by place in Order: first column of its bag in the input; its bag
	Factor     cuda.Buffer // by place in Order: factor of its value; no floats if all are 1
}

type bagIndexArgs struct {
	at, deep, wide, factor, feature, offsets, place, start, order, factors cuda.Address
	values, keys, features, rows, width, unused                            uint32
}

// Index computes At, Deep, Wide and Factor.
func (b *Bags) Index(s *Set, on *cuda.Stream) error {
	return launch(s, on, bagIndex, b.Values, bagIndexArgs{
		b.At.At, b.Deep.At, b.Wide.At, address(b.Factor), b.Feature.At, b.Offsets.At, b.Place.At, b.Start.At, b.Order.At, b.Factors.At,
		size(b.Values), size(b.Keys), size(b.Features), size(b.Samples), size(b.Width), 0,
	})
}

// address is 0 for a buffer without floats.
func address(b cuda.Buffer) cuda.Address {
	if b.Len == 0 {
		return 0
	}
	return b.At
}

type bagsArgs struct{ row, at, feature, offsets, factors cuda.Address }

func (b *Bags) args() bagsArgs {
	return bagsArgs{b.Row.At, b.At.At, b.Feature.At, b.Offsets.At, b.Factors.At}
}

type poolArgs struct {
	bagsArgs
	x, dense, column              cuda.Address
	rows, width, features, inputs uint32
}

// Pool sets x, Samples×Width, to the pooled embeddings and the dense inputs.
func (b *Bags) Pool(s *Set, on *cuda.Stream, x, dense cuda.Buffer) error {
	return launch(s, on, pool, x.Len, poolArgs{b.args(), x.At, dense.At, b.Column.At, size(b.Samples), size(b.Width), size(b.Features), size(b.Inputs)})
}

type poolWideArgs struct {
	bagsArgs
	logit                          cuda.Address
	rows, labels, features, unused uint32
}

// PoolWide adds the wide weights to logit, Labels×Samples.
func (b *Bags) PoolWide(s *Set, on *cuda.Stream, logit cuda.Buffer) error {
	return launch(s, on, poolWide, logit.Len, poolWideArgs{b.args(), logit.At, size(b.Samples), size(b.Labels), size(b.Features), 0})
}

type poolGradArgs struct {
	grad, dx, dlogit, factor, table, place, start, deep, wide cuda.Address
	keys, tables, widest, rows                                uint32
}

// Grad computes the gradients of the distinct rows from the gradients of the input and of the
// logits. It writes them to grad, which has the length of Row.
func (b *Bags) Grad(s *Set, on *cuda.Stream, grad, dx, dlogit cuda.Buffer) error {
	return launch(s, on, poolGrad, b.Keys*b.Widest, poolGradArgs{
		grad.At, dx.At, dlogit.At, address(b.Factor), b.Table.At, b.Place.At, b.Start.At, b.Deep.At, b.Wide.At,
		size(b.Keys), size(b.Tables), size(b.Widest), size(b.Samples),
	})
}
