//go:build gpu

package device

import (
	"github.com/wdlrun/wdlrun/internal/gpu/cuda"
	"github.com/wdlrun/wdlrun/internal/gpu/kernel"
)

// cin computes dense.CIN. It computes the products of maps and fields for one block of lines
// at a time, and again during backward, since the products of all lines would not fit in
// memory.
type cin struct {
	kernel.CIN
	layers     []cinLayer
	x0, dx0, y cuda.Buffer
	z, dz      cuda.Buffer // products of one block and their gradients
	most       int         // approximate number of products in a block
}

type cinLayer struct {
	w       *param
	in, out int         // maps
	x, dx   cuda.Buffer // lines × out
}

// cinProducts is the value of cin.most outside tests: 16 MiB of products.
const cinProducts = 4 << 20

func (c *cin) room(rows int, take cut) {
	c.Rows = rows
	lines := rows * c.Embed
	c.x0, c.dx0, c.y = take(lines*c.Fields), take(lines*c.Fields), take(rows*c.Out)
	block := 0
	for i := range c.layers {
		l := &c.layers[i]
		l.x, l.dx = take(lines*l.out), take(lines*l.out)
		block = max(block, c.lines(l)*l.in*c.Fields)
	}
	c.z, c.dz = take(block), take(block)
}

// lines returns the number of lines of a layer in a block.
func (c *cin) lines(l *cinLayer) int {
	return min(c.Rows*c.Embed, max(1, c.most/(l.in*c.Fields)))
}

// each calls f for each block of a layer's lines.
func (c *cin) each(l *cinLayer, f func(lo, hi int)) {
	lines := c.Rows * c.Embed
	for lo, n := 0, c.lines(l); lo < lines; lo += n {
		f(lo, min(lo+n, lines))
	}
}

// part returns lines lo to hi of a buffer.
func part(b cuda.Buffer, lo, hi, width int) cuda.Buffer { return b.Part(lo*width, hi*width) }

// products computes the products of a block in z.
func (c *cin) products(w *work, l *cinLayer, in cuda.Buffer, lo, hi int) {
	w.do(c.Products(w.Set, w.on, c.z, part(in, lo, hi, l.in), part(c.x0, lo, hi, c.Fields), hi-lo, l.in))
}

func (c *cin) forward(w *work, x cuda.Buffer) cuda.Buffer {
	w.do(c.Transpose(w.Set, w.on, c.x0, x))
	in, at := c.x0, 0
	for i := range c.layers {
		l := &c.layers[i]
		c.each(l, func(lo, hi int) {
			c.products(w, l, in, lo, hi)
			w.times(part(l.x, lo, hi, l.out), c.z, l.w.value, hi-lo, l.in*c.Fields, l.out)
		})
		w.do(c.Sums(w.Set, w.on, c.y, l.x, l.out, at))
		in, at = l.x, at+l.out
	}
	return c.y
}

// back adds the gradient of the input to dx and computes the gradients of the weights.
func (c *cin) back(w *work, dx, dy cuda.Buffer) {
	at, last := c.Out, len(c.layers)-1
	for i := last; i >= 0; i-- {
		l := &c.layers[i]
		at -= l.out
		w.do(c.Spread(w.Set, w.on, l.dx, dy, l.out, at, i < last))
		in, din := c.x0, c.dx0
		if i > 0 {
			in, din = c.layers[i-1].x, c.layers[i-1].dx
		}
		c.each(l, func(lo, hi int) {
			c.products(w, l, in, lo, hi)
			n, width := hi-lo, l.in*c.Fields
			g := part(l.dx, lo, hi, l.out)
			w.do(w.on.Multiply(l.w.grad, cuda.Factor{Of: c.z, Transposed: true}, cuda.Factor{Of: g}, width, n, l.out, lo > 0))
			w.do(w.on.Multiply(c.dz, cuda.Factor{Of: g}, cuda.Factor{Of: l.w.value, Transposed: true}, n, l.out, width, false))
			w.do(c.FieldsGrad(w.Set, w.on, part(c.dx0, lo, hi, c.Fields), c.dz, part(in, lo, hi, l.in), n, l.in, i < last))
			w.do(c.MapsGrad(w.Set, w.on, part(din, lo, hi, l.in), c.dz, part(c.x0, lo, hi, c.Fields), n, l.in, i == 0))
		})
		w.ready(l.w)
	}
	w.do(c.AddTransposed(w.Set, w.on, dx, c.dx0))
}
