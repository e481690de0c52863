package dense

import "github.com/wdlrun/wdlrun/internal/kernel/f32"

// dropout zeroes each element with probability p while training and divides the others by
// 1−p. In evaluation it is the identity. The choice is a pure function of (seed, layer
// name, step, global row, unit).
type dropout struct {
	name  string
	arena *Arena // supplies the seed
	width int
	p     float64

	step   int64
	rowIDs []uint64
	mask   []float32 // 0 or 1/(1−p) for each element of the last batch
	y      []float32
	train  bool
}

// newDropout returns a layer over rows of width units with drop probability p. It panics
// unless p is in [0, 1).
func newDropout(a *Arena, name string, width int, p float64) *dropout {
	if !(p >= 0 && p < 1) {
		panic("dense: NewDropout: " + name + ": the probability is not in [0, 1)")
	}
	return &dropout{name: a.prefix + name, arena: a, width: width, p: p}
}

// SetStep identifies the batch of the next Forward: the step, and the number of each row,
// unique in the global batch. Nil numbers the rows from 0, which is correct on one rank.
// The layer keeps rowIDs, without a copy, until the next SetStep.
func (l *dropout) SetStep(step int64, rowIDs []uint64) { l.step, l.rowIDs = step, rowIDs }

// Mask returns the parameters of a dropout layer's mask at a step, where name is for
// example deep/dropout0. batch is the seed of the batch. A unit is kept if its 32 random
// bits are below keep, and then multiplied by scale. The bits of unit j of row id are the
// upper half of f32.Mix(f32.Mix(batch + id·f32.Golden) + (j+1)·f32.Golden).
func Mask(seed uint64, name string, step int64, p float64) (batch uint64, keep uint32, scale float32) {
	return f32.Mix(stream(seed, name) + uint64(step)*f32.Golden), uint32(min((1-p)*(1<<32), 1<<32-1)), float32(1 / (1 - p))
}

// Name implements Layer.
func (l *dropout) Name() string { return l.name }

// Forward implements Layer. It panics if fewer row numbers than rows were set.
func (l *dropout) Forward(x []float32, rows int, train bool) ([]float32, error) {
	if l.train = train && l.p > 0; !l.train {
		return x, nil
	}
	l.y, l.mask = grow(l.y, len(x)), grow(l.mask, len(x))
	batch, keep, scale := Mask(l.arena.seed, l.name, l.step, l.p)
	for r := range rows {
		id := uint64(r)
		if l.rowIDs != nil {
			id = l.rowIDs[r]
		}
		lo, hi := r*l.width, (r+1)*l.width
		f32.Dropout(l.y[lo:hi], l.mask[lo:hi], x[lo:hi], f32.Mix(batch+id*f32.Golden), keep, scale)
	}
	return l.y, nil
}

// Backward implements Layer; it works in dy.
func (l *dropout) Backward(dy []float32, _ int) ([]float32, error) {
	if l.train {
		f32.MulTo(dy, l.mask[:len(dy)])
	}
	return dy, nil
}
