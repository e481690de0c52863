package sparse

import (
	"math"
	"slices"

	"github.com/wdlrun/wdlrun/internal/kernel/f32"
	"github.com/wdlrun/wdlrun/sparse/table"
)

// own copies rows and grads if they are lent.
func (g *staged) own() {
	if g.lent {
		g.lent, g.rows, g.grads = false, slices.Clone(g.rows), slices.Clone(g.grads)
	}
}

func (g *staged) reset() {
	g.set.Reset()
	if g.lent {
		g.lent, g.rows, g.grads = false, nil, nil
	}
	g.rows, g.grads, g.finite = g.rows[:0], g.grads[:0], false
}

// add adds gradients, len(grads)/len(keys) values each, to the staged ones. held are the
// rows of keys as of epoch. ids are overwritten.
func (g *staged) add(keys []uint64, held []table.Row, epoch uint64, grads []float32, ids []uint32) {
	if len(keys) == 0 {
		return
	}
	g.own()
	g.set.Add(keys, ids)
	g.sum(held, epoch, grads, ids)
}

// sum is add for keys whose numbers in the set are ids.
func (g *staged) sum(held []table.Row, epoch uint64, grads []float32, ids []uint32) {
	if len(ids) == 0 {
		return
	}
	g.finite = false
	if len(g.rows) == 0 {
		g.epoch = epoch
	}
	width, before := len(grads)/len(ids), len(g.rows)
	for j, id := range ids {
		if int(id) < len(g.rows) {
			continue
		}
		row := held[j]
		if epoch != g.epoch {
			row = 0 // Apply finds the row
		}
		g.rows = append(g.rows, row)
	}
	if len(g.rows)-before == len(ids) { // all keys are new and in order
		g.grads = append(g.grads, grads...)
		return
	}
	g.grads = slices.Grow(g.grads, width*len(g.rows)-len(g.grads))[:width*len(g.rows)]
	clear(g.grads[width*before:])
	if len(g.grads) > math.MaxUint32 {
		for j, id := range ids {
			addTo(g.grads[int(id)*width:][:width], grads[j*width:])
		}
		return
	}
	for j := range ids {
		ids[j] *= uint32(width)
	}
	f32.PoolGrad(g.grads, f32.Bags{At: ids}, grads, width, width)
}

func (g *staged) bytes() int64 {
	return g.set.Bytes() + 4*int64(cap(g.rows)) + 4*int64(cap(g.grads))
}

// gradients returns the gradients for the table's Apply.
func (g *staged) gradients() table.Gradients {
	return table.Gradients{Keys: g.set.Keys(), Rows: g.rows, Epoch: g.epoch, Values: g.grads, Finite: g.finite}
}
