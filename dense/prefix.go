package dense

import "github.com/wdlrun/wdlrun/internal/kernel/f32"

// Prefix computes an MLP for rows that share their first columns, as candidates share the
// columns of a user. The contribution of these columns to the first layer is computed once,
// and the sum of every row starts from it. Terms are added in the order of Forward, so the
// outputs have the same bits. A bfloat16 MLP computes the contribution in float32, with unrounded
// weights, so its outputs differ from the outputs of Forward. Prefix is for evaluation only.
type Prefix struct {
	mlp   *MLP
	first *Linear
	parts []*prefixPart // one for each number of shared columns, in the order of use
	start []float32
}

// prefixPart is the first layer, split after a number of shared columns.
type prefixPart struct {
	cols    int
	version uint64
	head    f32.Packed
	rest    f32.Packed
	half    f32.PackedBF16 // replaces rest in a bfloat16 MLP
}

// maxPrefixes bounds the parts, each of which takes the memory of the layer.
const maxPrefixes = 4

// NewPrefix returns nil if the first layer is not Linear, or the only one of a bfloat16 MLP.
func (m *MLP) NewPrefix() *Prefix {
	first, ok := m.layers[0].(*Linear)
	if !ok || m.halved != nil && len(m.layers) == 1 {
		return nil
	}
	return &Prefix{mlp: m, first: first}
}

// Takes reports whether Forward accepts rows that share cols columns.
func (p *Prefix) Takes(cols int) bool { return cols > 0 && cols < p.first.in && p.part(cols) != nil }

// part returns the part for cols shared columns, or nil if there are maxPrefixes others.
func (p *Prefix) part(cols int) *prefixPart {
	for _, x := range p.parts {
		if x.cols == cols {
			return x
		}
	}
	if len(p.parts) == maxPrefixes {
		return nil
	}
	x := &prefixPart{cols: cols}
	p.parts = append(p.parts, x)
	return x
}

// Forward computes the outputs of rows: shared holds their first columns, x the others, row
// by row. It panics if Takes returns false.
func (p *Prefix) Forward(shared, x []float32, rows int) (y []float32, err error) {
	l, h, part := p.first, p.mlp.halved, p.part(len(shared))
	if v := l.arena.Version(); part.version != v {
		cut := len(shared) * l.out
		part.head.Pack(l.W.Value[:cut], len(shared), l.out)
		if h != nil {
			part.half.Pack(l.W.Value[cut:], l.in-len(shared), l.out)
		} else {
			part.rest.Pack(l.W.Value[cut:], l.in-len(shared), l.out)
		}
		part.version = v
	}
	p.start = grow(p.start, l.out)
	f32.Forward(p.start, shared, &part.head, l.bias(), 1, false)
	if h != nil {
		return h.after(p.start, &part.half, x, rows, l.in-len(shared)), nil
	}
	l.y = grow(l.y, rows*l.out)
	f32.Forward(l.y, x, &part.rest, p.start, rows, l.relu)
	y = l.y
	for _, next := range p.mlp.layers[1:] {
		if y, err = next.Forward(y, rows, false); err != nil {
			return nil, err
		}
	}
	return y, nil
}
