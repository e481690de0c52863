//go:build gpu

package kernel

import "github.com/wdlrun/wdlrun/internal/gpu/cuda"

// CIN is the shape of a compressed interaction network (dense.CIN): rows of Width columns
// begin with Fields embeddings of Embed columns, and its output has Out columns. A line is
// one row and column of its embeddings. Methods with add replace a gradient, or add to it.
type CIN struct{ Rows, Fields, Embed, Width, Out int }

type cinTransposeArgs struct {
	t, x                       cuda.Address
	rows, fields, embed, width uint32
}

func (c CIN) transpose(s *Set, on *cuda.Stream, k int, t, x cuda.Buffer) error {
	a := cinTransposeArgs{t.At, x.At, size(c.Rows), size(c.Fields), size(c.Embed), size(c.Width)}
	return launch(s, on, k, c.Rows*c.Embed*c.Fields, a)
}

// Transpose sets t, lines×Fields, to the embeddings of x.
func (c CIN) Transpose(s *Set, on *cuda.Stream, t, x cuda.Buffer) error {
	return c.transpose(s, on, cinTranspose, t, x)
}

// AddTransposed adds t to the embeddings of x.
func (c CIN) AddTransposed(s *Set, on *cuda.Stream, x, t cuda.Buffer) error {
	return c.transpose(s, on, cinAddTransposed, t, x)
}

type cinProductsArgs struct {
	to, a, b                 cuda.Address
	lines, maps, fields, add uint32
}

func (c CIN) products(to, a, b cuda.Buffer, lines, maps int, add bool) cinProductsArgs {
	return cinProductsArgs{to.At, a.At, b.At, size(lines), size(maps), size(c.Fields), flag(add)}
}

// Products sets z, lines×(maps·Fields), to the products of each map of in with each field.
func (c CIN) Products(s *Set, on *cuda.Stream, z, in, x0 cuda.Buffer, lines, maps int) error {
	return launch(s, on, cinProducts, lines*maps*c.Fields, c.products(z, in, x0, lines, maps, false))
}

// MapsGrad computes the gradient of the maps from the gradient of the products.
func (c CIN) MapsGrad(s *Set, on *cuda.Stream, din, dz, x0 cuda.Buffer, lines, maps int, add bool) error {
	return launch(s, on, cinMapsGrad, lines*maps, c.products(din, dz, x0, lines, maps, add))
}

// FieldsGrad computes the gradient of the fields from the gradient of the products.
func (c CIN) FieldsGrad(s *Set, on *cuda.Stream, dx0, dz, in cuda.Buffer, lines, maps int, add bool) error {
	return launch(s, on, cinFieldsGrad, lines*c.Fields, c.products(dx0, dz, in, lines, maps, add))
}

type cinSumsArgs struct {
	to, from                        cuda.Address
	rows, embed, maps, at, out, add uint32
}

func (c CIN) sums(to, from cuda.Buffer, maps, at int, add bool) cinSumsArgs {
	return cinSumsArgs{to.At, from.At, size(c.Rows), size(c.Embed), size(maps), size(at), size(c.Out), flag(add)}
}

// Sums adds each map of x over the lines of a row and stores the sums in the columns of y
// from at on.
func (c CIN) Sums(s *Set, on *cuda.Stream, y, x cuda.Buffer, maps, at int) error {
	return launch(s, on, cinSums, c.Rows*maps, c.sums(y, x, maps, at, false))
}

// Spread computes the gradient of the maps from the gradient of their sums.
func (c CIN) Spread(s *Set, on *cuda.Stream, dx, dy cuda.Buffer, maps, at int, add bool) error {
	return launch(s, on, cinSpread, c.Rows*c.Embed*maps, c.sums(dx, dy, maps, at, add))
}
