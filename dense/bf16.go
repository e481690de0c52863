package dense

import "github.com/wdlrun/wdlrun/internal/kernel/f32"

// halved runs a chain of linear layers in bfloat16. Activations, their gradients and the
// packed weights are bfloat16. Sums, weight gradients and the trained weights are float32.
// It replaces the layers' Forward and Backward; their parameters stay in place.
type halved struct {
	layers []halvedLinear
	work   f32.WorkBF16
	x      []f32.BF16 // the input, rounded
	y      []float32  // the output
	dy     []f32.BF16 // the gradient of the output, rounded
	dx     []float32  // the gradient of the input
}

// halvedLinear is one layer. Its y is the x of the next layer.
type halvedLinear struct {
	*Linear
	packed  f32.PackedBF16
	version uint64
	x, y    []f32.BF16
	dx      []f32.BF16
}

// newHalved returns the chain of layers. All are Linear, and all except the last have a
// ReLU; validate checks this.
func newHalved(layers []Layer) *halved {
	h := new(halved)
	for _, l := range layers {
		h.layers = append(h.layers, halvedLinear{Linear: l.(*Linear)})
	}
	return h
}

// forward computes the chain's output, rows×Out.
func (h *halved) forward(x []float32, rows int) []float32 {
	first := h.layers[0].in
	h.x = growBF16(h.x, f32.LenBF16(rows, first))
	f32.ConvertBF16(h.x, x, rows, first)
	return h.from(0, h.x, rows)
}

// after runs forward from start, a partial sum of the first layer, which adds the other cols
// columns: x, with the weights packed. The first layer is not the last.
func (h *halved) after(start []float32, packed *f32.PackedBF16, x []float32, rows, cols int) []float32 {
	l := &h.layers[0]
	h.x = growBF16(h.x, f32.LenBF16(rows, cols))
	f32.ConvertBF16(h.x, x, rows, cols)
	l.y = growBF16(l.y, f32.LenBF16(rows, l.out))
	h.work.Forward(l.y, h.x, packed, start, rows, l.relu)
	return h.from(1, l.y, rows)
}

// from runs forward from layer first on, whose input is already rounded.
func (h *halved) from(first int, at []f32.BF16, rows int) []float32 {
	for i := first; i < len(h.layers); i++ {
		l := &h.layers[i]
		if v := l.arena.Version(); l.version != v {
			l.packed.Pack(l.W.Value, l.in, l.out)
			l.version = v
		}
		l.x = at
		if i == len(h.layers)-1 {
			h.y = grow(h.y, rows*l.out)
			h.work.ForwardF32(h.y, at, &l.packed, l.bias(), rows)
			break
		}
		l.y = growBF16(l.y, f32.LenBF16(rows, l.out))
		h.work.Forward(l.y, at, &l.packed, l.bias(), rows, l.relu)
		at = l.y
	}
	return h.y
}

// backward adds the parameters' gradients and returns the gradient of the input.
func (h *halved) backward(dy []float32, rows int) []float32 {
	at, l := h.to(0, dy, rows), &h.layers[0]
	h.gradWeight(l, at, rows)
	h.dx = grow(h.dx, rows*l.in)
	h.work.GradInputF32(h.dx, at, &l.packed, rows)
	return h.dx
}

// to runs backward down to the output of a layer and returns the gradient of that output.
func (h *halved) to(last int, dy []float32, rows int) []f32.BF16 {
	out := h.layers[len(h.layers)-1].out
	h.dy = growBF16(h.dy, f32.LenBF16(rows, out))
	f32.ConvertBF16(h.dy, dy, rows, out)
	at := h.dy
	for i := len(h.layers) - 1; i > last; i-- {
		l := &h.layers[i]
		h.gradWeight(l, at, rows)
		l.dx = growBF16(l.dx, f32.LenBF16(rows, l.in))
		h.work.GradInput(l.dx, at, &l.packed, rows, l.x)
		at = l.dx
	}
	return at
}

func (h *halved) gradWeight(l *halvedLinear, dy []f32.BF16, rows int) {
	h.work.GradWeight(l.W.Grad, l.B.Grad, l.x, dy, rows, l.in, l.out)
	l.arena.finish(l.W, 0)
}

// growBF16 is grow for bfloat16.
func growBF16(buf []f32.BF16, n int) []f32.BF16 {
	if cap(buf) < n {
		return make([]f32.BF16, n)
	}
	return buf[:n]
}
