//go:build gpu

package device

import (
	"fmt"

	"github.com/wdlrun/wdlrun/dense"
	"github.com/wdlrun/wdlrun/internal/config/network"
	"github.com/wdlrun/wdlrun/internal/gpu/cuda"
	"github.com/wdlrun/wdlrun/internal/gpu/kernel"
)

// work holds the state that layers share: they compute one batch after the other on one
// stream. err is the first error.
type work struct {
	*kernel.Set
	on      *cuda.Stream
	rows    int
	step    int64
	row     cuda.Buffer // row numbers
	x, dx   cuda.Buffer // input of the networks and its gradient
	dlogit  cuda.Buffer // gradient of the logits, by label
	partial cuda.Buffer // buffer for partial sums of columns
	widest  int         // largest number of columns of a sum
	ranks   *ranks      // nil: the host sums gradients
	err     error
}

func (w *work) do(err error) {
	if w.err == nil {
		w.err = err
	}
}

// times sets c, m×n, to a·b.
func (w *work) times(c, a, b cuda.Buffer, m, k, n int) {
	w.do(w.on.Multiply(c, cuda.Factor{Of: a}, cuda.Factor{Of: b}, m, k, n, false))
}

// sums stores the sums of the columns of x, rows×cols.
func (w *work) sums(total, x cuda.Buffer, cols int) {
	w.do(w.ColumnSums(w.on, total, x, w.partial, w.rows, cols))
}

// start begins a step.
func (w *work) start() {
	if w.ranks != nil {
		w.ranks.start()
	}
}

// ready notes that all work on the gradient of p has been enqueued. Sums of gradients start
// as soon as they are computed. p may be nil.
func (w *work) ready(p *param) {
	if w.ranks != nil && p != nil && w.err == nil {
		w.do(w.ranks.ready(w.on, p))
	}
}

// finish launches the sums that are left.
func (w *work) finish() {
	if w.ranks != nil && w.err == nil {
		w.do(w.ranks.launch(w.on, true))
	}
}

// param is the place of one parameter on the device.
type param struct {
	of                 *dense.Param
	value, grad, state cuda.Buffer
	bucket             int
}

// cut returns a buffer that is valid as long as the batch memory.
type cut func(floats int) cuda.Buffer

// linear computes y = dropout(act(norm(x·W + b))): dense.Linear with the layers that follow it
// in a perceptron.
type linear struct {
	w, b    *param // b is nil for a layer without biases
	in, out int
	norm    *normal // nil: none
	act     kernel.Act
	drop    string  // name of the dropout layer; empty: none
	rate    float64 // rate of dropout
	seed    uint64

	x, dy, dx    cuda.Buffer
	pre, y, kept cuda.Buffer // input of norm, output of act, output of dropout; equal where there is no such layer
	mask         kernel.Mask
}

func (l *linear) room(rows int, take cut) {
	l.pre, l.dx = take(rows*l.out), take(rows*l.in)
	if l.y = l.pre; l.norm != nil {
		l.y, l.norm.Rows = take(rows*l.out), rows
	}
	l.kept = l.y
	if l.drop != "" {
		l.kept = take(rows * l.out)
	}
}

func (l *linear) forward(w *work, x cuda.Buffer) cuda.Buffer {
	l.x = x
	w.times(l.pre, x, l.w.value, w.rows, l.in, l.out)
	var bias cuda.Buffer
	if l.b != nil {
		bias = l.b.value
	}
	act := l.act
	if l.norm != nil {
		act = kernel.Identity
	}
	if bias.Len > 0 || act != kernel.Identity {
		w.do(w.BiasAct(w.on, l.pre, bias, l.out, act))
	}
	if l.norm != nil {
		l.norm.forward(w, l.y, l.pre)
		if l.act != kernel.Identity {
			w.do(w.BiasAct(w.on, l.y, cuda.Buffer{}, l.out, l.act))
		}
	}
	if l.drop != "" {
		l.mask.Batch, l.mask.Keep, l.mask.Scale = dense.Mask(l.seed, l.drop, w.step, l.rate)
		w.do(w.Dropout(w.on, l.kept, l.y, w.row, l.out, l.mask))
	}
	return l.kept
}

// back returns the gradient of the input. It modifies dy, which must not change until
// gradients is called.
func (l *linear) back(w *work, dy cuda.Buffer) cuda.Buffer {
	l.dy = dy
	if l.drop != "" {
		w.do(w.Dropout(w.on, dy, dy, w.row, l.out, l.mask))
	}
	if l.act != kernel.Identity {
		w.do(w.ActGrad(w.on, dy, l.y, l.act))
	}
	if l.norm != nil {
		l.norm.back(w, dy)
	}
	w.do(w.on.Multiply(l.dx, cuda.Factor{Of: dy}, cuda.Factor{Of: l.w.value, Transposed: true}, w.rows, l.out, l.in, false))
	return l.dx
}

// gradients computes the gradients of the parameters.
func (l *linear) gradients(w *work) {
	w.do(w.on.Multiply(l.w.grad, cuda.Factor{Of: l.x, Transposed: true}, cuda.Factor{Of: l.dy}, l.in, w.rows, l.out, false))
	if l.b != nil {
		w.sums(l.b.grad, l.dy, l.out)
	}
	w.ready(l.w)
	w.ready(l.b)
	if l.norm != nil { // back has computed them
		w.ready(l.norm.scale)
		w.ready(l.norm.shift)
	}
}

// mlp computes dense.MLP.
type mlp []*linear

func (m mlp) room(rows int, take cut) {
	for _, l := range m {
		l.room(rows, take)
	}
}

func (m mlp) forward(w *work, x cuda.Buffer) cuda.Buffer {
	for _, l := range m {
		x = l.forward(w, x)
	}
	return x
}

func (m mlp) back(w *work, dy cuda.Buffer) cuda.Buffer {
	for i := len(m) - 1; i >= 0; i-- {
		dy = m[i].back(w, dy)
	}
	return dy
}

func (m mlp) gradients(w *work) {
	for i := len(m) - 1; i >= 0; i-- {
		m[i].gradients(w)
	}
}

// cross computes dense.Cross. CrossForward adds the biases, so mix has none.
type cross struct {
	layers []crossLayer
	width  int
	x, dx0 cuda.Buffer
}

type crossLayer struct {
	narrow *linear // nil: full rank
	mix    *linear
	bias   *param
	y, du  cuda.Buffer
}

func (c *cross) room(rows int, take cut) {
	c.dx0 = take(rows * c.width)
	for i := range c.layers {
		l := &c.layers[i]
		if l.narrow != nil {
			l.narrow.room(rows, take)
		}
		l.mix.room(rows, take)
		l.y, l.du = take(rows*c.width), take(rows*c.width)
	}
}

func (c *cross) forward(w *work, x cuda.Buffer) cuda.Buffer {
	c.x = x
	in := x
	for i := range c.layers {
		l, u := &c.layers[i], in
		if l.narrow != nil {
			u = l.narrow.forward(w, u)
		}
		u = l.mix.forward(w, u)
		w.do(w.CrossForward(w.on, l.y, u, l.bias.value, x, in))
		in = l.y
	}
	return in
}

// back modifies dy.
func (c *cross) back(w *work, dy cuda.Buffer) cuda.Buffer {
	for i := len(c.layers) - 1; i >= 0; i-- {
		l := &c.layers[i]
		w.do(w.CrossBackward(w.on, c.dx0, l.du, dy, c.x, l.mix.y, i == len(c.layers)-1))
		dx := l.mix.back(w, l.du)
		if l.narrow != nil {
			dx = l.narrow.back(w, dx)
		}
		w.do(w.Add(w.on, dy, dx))
	}
	w.do(w.Add(w.on, dy, c.dx0))
	return dy
}

func (c *cross) gradients(w *work) {
	for i := len(c.layers) - 1; i >= 0; i-- {
		l := &c.layers[i]
		l.mix.gradients(w)
		w.sums(l.bias.grad, l.du, c.width)
		w.ready(l.bias)
		if l.narrow != nil {
			l.narrow.gradients(w)
		}
	}
}

// fm computes dense.FM.
type fm struct {
	kernel.FM
	x, sum, term cuda.Buffer
}

func (m *fm) room(rows int, take cut) {
	m.Rows = rows
	m.sum, m.term = take(rows*m.Embed), take(rows*m.Embed)
}

// layers computes the network of one label.
type layers struct {
	mlp   mlp
	cross *cross  // nil: none
	out   *linear // after cin, or cross whose output mlp does not read; nil: none
	fm    *fm     // nil: none
	cin   *cin    // nil: none
}

func (n *layers) room(rows int, take cut) {
	n.mlp.room(rows, take)
	if n.cross != nil {
		n.cross.room(rows, take)
	}
	if n.out != nil {
		n.out.room(rows, take)
	}
	if n.fm != nil {
		n.fm.room(rows, take)
	}
	if n.cin != nil {
		n.cin.room(rows, take)
	}
}

// forward returns the logits.
func (n *layers) forward(w *work, x cuda.Buffer) cuda.Buffer {
	switch {
	case n.fm != nil:
		y := n.mlp.forward(w, x)
		n.fm.x = x
		w.do(n.fm.Forward(w.Set, w.on, y, n.fm.sum, n.fm.term, x))
		return y
	case n.cin != nil:
		return n.parallel(w, x, n.cin.forward(w, x))
	case n.out != nil:
		return n.parallel(w, x, n.cross.forward(w, x))
	case n.cross != nil:
		x = n.cross.forward(w, x)
	}
	return n.mlp.forward(w, x)
}

// parallel returns the sum of the logits of mlp over x and of out over terms.
func (n *layers) parallel(w *work, x, terms cuda.Buffer) cuda.Buffer {
	y := n.out.forward(w, terms)
	w.do(w.Add(w.on, y, n.mlp.forward(w, x)))
	return y
}

// back returns the gradient of the input for the gradient of the logits.
func (n *layers) back(w *work, dlogit cuda.Buffer) cuda.Buffer {
	dx := n.mlp.back(w, dlogit)
	switch {
	case n.fm != nil:
		w.do(n.fm.Backward(w.Set, w.on, dx, dlogit, n.fm.x, n.fm.sum))
	case n.cin != nil:
		n.cin.back(w, dx, n.out.back(w, dlogit))
	case n.out != nil:
		w.do(w.Add(w.on, dx, n.cross.back(w, n.out.back(w, dlogit))))
	case n.cross != nil:
		dx = n.cross.back(w, dx)
	}
	return dx
}

func (n *layers) gradients(w *work) {
	n.mlp.gradients(w)
	if n.out != nil {
		n.out.gradients(w)
	}
	if n.cross != nil {
		n.cross.gradients(w)
	}
}

// builder builds networks over the parameters that package dense has declared.
type builder struct {
	arena  *dense.Arena
	params map[string]*param
	prefix string // parameter prefix of the label
	seed   uint64
	widest int // largest number of columns of a sum
	err    error
}

func (b *builder) param(name string) *param {
	p := b.params[b.prefix+name]
	if p == nil && b.err == nil {
		b.err = fmt.Errorf("device: the model has no parameter %s%s", b.prefix, name)
	}
	return p
}

// linear builds the layer of a name, with its biases if it has any.
func (b *builder) linear(name string, biased bool, act kernel.Act) *linear {
	l := &linear{w: b.param(name + "/weight"), act: act, seed: b.seed}
	if biased {
		l.b = b.param(name + "/bias")
	}
	if b.err == nil {
		l.in, l.out = l.w.of.Rows, l.w.of.Cols
		b.widest = max(b.widest, l.out)
	}
	return l
}

// acts are the activations by name.
func acts(name string) kernel.Act {
	return map[string]kernel.Act{"relu": kernel.ReLU, "tanh": kernel.Tanh, "sigmoid": kernel.Sigmoid}[name]
}

// mlp builds a perceptron.
func (b *builder) mlp(ops []network.Op) (m mlp) {
	for i := range ops {
		o := &ops[i]
		if o.Kind == network.Linear {
			m = append(m, b.linear(o.Name, true, kernel.Identity))
			continue
		}
		switch l := m[len(m)-1]; o.Kind {
		case network.BatchNorm:
			l.norm = b.normal(o.Name, o.Cols)
		case network.Activation:
			l.act = acts(o.Act)
		case network.Dropout:
			l.drop, l.rate = b.prefix+o.Name, o.Rate
		}
	}
	return m
}
