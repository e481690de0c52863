package step

import (
	"fmt"
	"path"
	"slices"

	"github.com/wdlrun/wdlrun/dense"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/config/network"
	"github.com/wdlrun/wdlrun/internal/kernel/f32"
	"github.com/wdlrun/wdlrun/internal/model/layout"
)

// layers computes the network of one label. It computes logits from X, the pooled embeddings and
// dense inputs of a chunk, in the columns given by the layout. It keeps the activations of one
// chunk between Forward and Backward.
//
// Its units are declared and computed in the order of the description, and their gradients in
// reverse. So the gradients of an arena become final from its end.
type layers struct {
	units []unit
	x     []float32 // the last input, the caller's
	dx    gradient  // of the input
	deep  int       // the only perceptron that reads the input; −1: none or several
	apart bool      // the input can be read by distinct rows
}

// unit computes one operation, or several that a layer computes together.
type unit struct {
	layer layer             // nil: of computes the value of several inputs
	of    network.Operation // Add, Multiply or Concat
	name  string
	in    []int // units whose values it reads, or network.Input
	cols  int
	works bool // Backward works in the gradient of the value

	y    []float32
	grad gradient
	dx   [][]float32 // gradients of the inputs; only without layer
}

// layer is a layer with one input. It also has Backward of dense.Layer or AddBackward of adder.
type layer interface {
	Forward(x []float32, rows int, train bool) ([]float32, error)
}

// adder is a layer that adds the gradient of its input to that of other layers.
type adder interface {
	AddBackward(dx, dy []float32, rows int)
}

// newLayers declares a network's parameters on a. reduce sums over the ranks.
func newLayers(a *dense.Arena, c *config.Config, l layout.Layout, reduce func([]float32) error) (*layers, error) {
	spec, err := network.New(c.Model, l.Shape())
	if err != nil {
		return nil, err
	}
	n, unitOf := &layers{deep: -1}, map[int]int{network.Input: network.Input}
	b := layerBuilder{a, c, spec, reduce}
	perceptrons := 0
	for i := 0; i < len(spec.Ops); {
		u, reads, end, err := b.unit(i)
		if err != nil {
			return nil, err
		}
		for _, v := range reads {
			at, known := unitOf[v]
			if !known {
				return nil, fmt.Errorf("the operation %v reads a value within another layer", &spec.Ops[i])
			}
			u.in = append(u.in, at)
		}
		u.name, u.cols = spec.Ops[end-1].Name, spec.Ops[end-1].Cols
		if o := &spec.Ops[i]; o.Supports().SharedPrefix && reads[0] == network.Input {
			n.deep = len(n.units)
			perceptrons++
		}
		unitOf[end-1] = len(n.units)
		n.units = append(n.units, u)
		i = end
	}
	if perceptrons > 1 {
		n.deep = -1
	}
	n.apart = perceptrons == 1 && !slices.ContainsFunc(spec.Ops, func(o network.Op) bool {
		if slices.Contains(o.In, network.Input) {
			return !o.Supports().DistinctRows
		}
		return o.Part == "" && o.Kind != network.Add
	})
	return n, nil
}

// layerBuilder recognises the operations that a layer of package dense computes together.
type layerBuilder struct {
	arena  *dense.Arena
	c      *config.Config
	spec   *network.Network
	reduce func([]float32) error
}

// unit makes the unit of the operations [i, end). reads are the operations whose values it reads.
func (b *layerBuilder) unit(i int) (u unit, reads []int, end int, err error) {
	o, s, end := &b.spec.Ops[i], b.spec.Shape, i+1
	reads = o.In[:1]
	switch {
	case o.Part != "":
		end = b.spec.Chain(i, func(x *network.Op) bool { return x.Part == o.Part })
		u.layer, err = b.mlp(b.spec.Ops[i:end])
	case o.Kind == network.CrossLayer:
		for end < len(b.spec.Ops) && slices.Equal(b.spec.Ops[end].In, []int{o.In[0], end - 1}) && b.spec.Ops[end].Kind == o.Kind {
			end++
		}
		u.layer, u.works = dense.NewCross(b.arena, path.Dir(o.Name), o.Cols, end-i, o.Rank), true
	case o.Kind == network.CINLayer:
		maps := []int{o.Maps}
		for ; b.spec.Ops[end].Kind == o.Kind; end++ {
			maps = append(maps, b.spec.Ops[end].Maps)
		}
		end++ // the sums of the maps
		u.layer = cin{dense.NewCIN(b.arena, path.Dir(o.Name), len(s.Fields), s.Embed(), s.Width(), maps)}
	case o.Kind == network.FM:
		u.layer = dense.NewFM(o.Name, len(s.Fields), s.Embed(), s.Width())
	case o.Kind == network.Linear:
		if next := b.spec.Readers(i); len(next) == 1 && next[0] == end && b.spec.Ops[end].Kind == network.Activation && b.spec.Ops[end].Act == "relu" {
			end++
			u.works = true
		}
		u.layer = dense.NewLinear(b.arena, o.Name, b.spec.Cols(o.In[0]), o.Cols, u.works)
	case o.Kind == network.LayerNorm:
		u.layer = dense.NewLayerNorm(b.arena, o.Name, o.Cols, o.Groups)
	case o.Kind == network.Activation:
		u.layer, u.works = dense.NewActivation(o.Name, o.Act), true
	case o.Kind == network.Add, o.Kind == network.Multiply, o.Kind == network.Concat:
		u.of, reads = o.Kind, o.In
	default:
		err = fmt.Errorf("there is no layer for the operation %v outside a perceptron", o)
	}
	return u, reads, end, err
}

// mlp declares a perceptron.
func (b *layerBuilder) mlp(ops []network.Op) (*dense.MLP, error) {
	s := dense.Spec{In: b.spec.Cols(ops[0].In[0]), Init: b.c.Model.Weights, BF16: b.c.Train.BF16OnCPU()}
	for i := range ops {
		switch o := &ops[i]; o.Kind {
		case network.Linear:
			s.Hidden = append(s.Hidden, o.Cols)
		case network.BatchNorm:
			s.BatchNorm = true
		case network.Activation:
			s.Activation = o.Act
		case network.Dropout:
			s.Dropout = o.Rate
		}
	}
	last := len(s.Hidden) - 1
	s.Hidden, s.Out = s.Hidden[:last], s.Hidden[last]
	mlp, err := dense.NewMLP(b.arena, ops[0].Part, s)
	if err == nil {
		mlp.Synchronise(b.reduce)
	}
	return mlp, err
}

// cin is a dense.CIN as a layer.
type cin struct{ *dense.CIN }

func (l cin) Forward(x []float32, rows int, _ bool) ([]float32, error) {
	return l.CIN.Forward(x, rows), nil
}

// mlps yields the perceptrons.
func (n *layers) mlps(yield func(*dense.MLP) bool) {
	for i := range n.units {
		if mlp, is := n.units[i].layer.(*dense.MLP); is && !yield(mlp) {
			return
		}
	}
}

// SetStep sets the step and the row ids of the next chunk. Only dropout reads them.
func (n *layers) SetStep(step int64, rowIDs []uint64) {
	n.mlps(func(mlp *dense.MLP) bool {
		mlp.SetStep(step, rowIDs)
		return true
	})
}

// perceptron returns the only perceptron that reads the network's input; nil if there is none or
// several.
func (n *layers) perceptron() *dense.MLP {
	if n.deep < 0 {
		return nil
	}
	return n.units[n.deep].layer.(*dense.MLP)
}

// joins reports whether the network has units other than the perceptron.
func (n *layers) joins() bool { return len(n.units) > 1 }

// byRows returns the perceptron and the factorization machine, or nil, of a network that can be
// computed by distinct rows.
func (n *layers) byRows() (mlp *dense.MLP, fm *dense.FM, can bool) {
	if !n.apart {
		return nil, nil, false
	}
	for i := range n.units {
		if l, is := n.units[i].layer.(*dense.FM); is {
			fm = l
		}
	}
	return n.perceptron(), fm, true
}

// Forward computes the logits of rows rows of x, rows×width.
func (n *layers) Forward(x []float32, rows int, train bool) (logit []float32, err error) {
	return n.join(nil, x, rows, train)
}

// join is Forward for the given output of the perceptron, or nil.
func (n *layers) join(deep, x []float32, rows int, train bool) (logit []float32, err error) {
	n.x = x
	for i := range n.units {
		u := &n.units[i]
		switch {
		case deep != nil && i == n.deep:
			u.y = deep
		case u.layer != nil:
			u.y, err = u.layer.Forward(n.value(u.in[0]), rows, train)
		default:
			n.combine(u, rows)
		}
		if err != nil {
			return nil, err
		}
	}
	return n.units[len(n.units)-1].y, nil
}

// value returns the value of a unit, or the input.
func (n *layers) value(unit int) []float32 {
	if unit == network.Input {
		return n.x
	}
	return n.units[unit].y
}

// combine computes the value of a unit without layer.
func (n *layers) combine(u *unit, rows int) {
	u.y = resized(u.y, rows*u.cols)
	if u.of == network.Concat {
		at := 0
		for _, v := range u.in {
			x, cols := n.value(v), n.cols(v, rows)
			for r := range rows {
				copy(u.y[r*u.cols+at:], x[r*cols:(r+1)*cols])
			}
			at += cols
		}
		return
	}
	copy(u.y, n.value(u.in[0]))
	for _, v := range u.in[1:] {
		if x := n.value(v); u.of == network.Add {
			f32.AddTo(u.y, x)
		} else {
			multiply(u.y, u.y, x)
		}
	}
}

// multiply sets y = a⊙b.
func multiply(y, a, b []float32) {
	a, b = a[:len(y)], b[:len(y)]
	for i := range y {
		y[i] = a[i] * b[i]
	}
}

// cols returns the columns of the value of a unit, or of the input.
func (n *layers) cols(unit, rows int) int {
	if unit != network.Input {
		return n.units[unit].cols
	}
	return len(n.x) / max(rows, 1)
}

// gradient is the gradient of a value, summed over the units that read it.
type gradient struct {
	of     []float32 // nil: none yet
	shared bool      // of belongs to another gradient as well, so it must not change
	own    []float32 // memory for a copy
}

// copied makes the gradient changeable.
func (g *gradient) copied() {
	if g.shared {
		g.own = append(g.own[:0], g.of...)
		g.of, g.shared = g.own, false
	}
}

// add adds the gradient by one unit, which may change unless it is shared.
func (g *gradient) add(of []float32, shared bool) {
	if g.of == nil {
		g.of, g.shared = of, shared
		return
	}
	g.copied()
	f32.AddTo(g.of, of)
}

func (n *layers) grad(unit int) *gradient {
	if unit == network.Input {
		return &n.dx
	}
	return &n.units[unit].grad
}

// Backward adds the gradients of the parameters and returns the gradient with respect to x.
func (n *layers) Backward(dlogit []float32, rows int) (dx []float32, err error) {
	n.dx.of, n.dx.shared = nil, false
	for i := range n.units {
		n.units[i].grad.of, n.units[i].grad.shared = nil, false
	}
	last := len(n.units) - 1
	n.units[last].grad.add(dlogit, true)
	for i := last; i >= 0; i-- {
		u := &n.units[i]
		if u.works {
			u.grad.copied()
		}
		dy := u.grad.of
		if u.layer == nil {
			n.separate(u, dy, rows)
			continue
		}
		to := n.grad(u.in[0])
		if l, adds := u.layer.(adder); adds {
			if to.copied(); to.of == nil {
				to.own = resized(to.own, rows*n.cols(u.in[0], rows))
				clear(to.own)
				to.of, to.shared = to.own, false
			}
			l.AddBackward(to.of, dy, rows)
			continue
		}
		of, err := u.layer.(dense.Layer).Backward(dy, rows)
		if err != nil {
			return nil, err
		}
		to.add(of, false)
	}
	n.dx.copied()
	return n.dx.of, nil
}

// separate adds the gradients of the inputs of a unit without layer.
func (n *layers) separate(u *unit, dy []float32, rows int) {
	if u.of == network.Add {
		for _, v := range u.in {
			n.grad(v).add(dy, true)
		}
		return
	}
	if u.dx == nil {
		u.dx = make([][]float32, len(u.in))
	}
	at := 0
	for k, v := range u.in {
		cols := n.cols(v, rows)
		dx := resized(u.dx[k], rows*cols)
		if u.dx[k] = dx; u.of == network.Multiply {
			copy(dx, dy)
			for j, other := range u.in {
				if j != k {
					multiply(dx, dx, n.value(other))
				}
			}
		} else {
			for r := range rows {
				copy(dx[r*cols:(r+1)*cols], dy[r*u.cols+at:])
			}
		}
		at += cols
		n.grad(v).add(dx, false)
	}
}

// NonFinite returns the first place in the last Forward with a NaN or an infinity.
func (n *layers) NonFinite() (place string, found bool) {
	for i := range n.units {
		u := &n.units[i]
		if l, names := u.layer.(interface{ NonFinite() (string, bool) }); names {
			if place, found := l.NonFinite(); found {
				return place, true
			}
		}
		caused := slices.ContainsFunc(u.in, func(v int) bool { return f32.FirstNonFinite(n.value(v)) >= 0 })
		if u.name != "" && !caused && f32.FirstNonFinite(u.y) >= 0 {
			return "output of " + u.name, true
		}
	}
	return "", false
}

// resized returns a slice of n elements with undefined values. It uses the memory of x if
// that suffices.
func resized[T any](x []T, n int) []T {
	if cap(x) < n {
		return slices.Grow(x[:0], n)[:n]
	}
	return x[:n]
}
