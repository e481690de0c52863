//go:build gpu

package device

import (
	"fmt"

	"github.com/wdlrun/wdlrun/internal/gpu/cuda"
	"github.com/wdlrun/wdlrun/internal/gpu/kernel"
	"github.com/wdlrun/wdlrun/internal/kernel/norm"
)

// normal computes a layer of dense.MLP that normalises batches. The device sums over its rows, and
// the host adds the sums of all ranks, also if NCCL sums gradients: this takes three sums of at most
// twice the width, for each of which the host waits for the device. The running statistics are in
// the arena.
type normal struct {
	kernel.Norm
	name           string
	scale, shift   *param
	mean, variance []float32 // running
	batch          norm.Statistics

	sums  region // of this rank: 2·width
	stats region // of all ranks: mean, InvStd, means of dy and of dy·x̂
	x     cuda.Buffer
}

func (b *builder) normal(name string, width int) *normal {
	n := &normal{name: b.prefix + name, scale: b.param(name + "/scale"), shift: b.param(name + "/shift"), batch: norm.New(width)}
	n.Cols = width
	n.mean, n.variance = b.statistic(n.name+"/running_mean"), b.statistic(n.name+"/running_variance")
	b.widest = max(b.widest, 2*width) // its partial sums are in double precision
	return n
}

func (b *builder) statistic(name string) []float32 {
	for _, s := range b.arena.Statistics() {
		if s.Name == name {
			return s.Value
		}
	}
	if b.err == nil {
		b.err = fmt.Errorf("device: the model has no statistics %s", name)
	}
	return nil
}

// normFloats is the number of floats of a unit's statistics.
const normFloats = 6

func (n *normal) place(m memory) {
	w, room := n.Cols, cuda.Room(n.Cols)
	n.sums, n.stats = m.cut(2*room).part(0, 2*w), m.cut(4*room)
	part := func(i int) cuda.Buffer { return n.stats.on.Part(i*room, i*room+w) }
	n.Mean, n.InvStd, n.MeanDy, n.MeanDyX = part(0), part(1), part(2), part(3)
	n.Scale, n.Shift = n.scale.value, n.shift.value
}

// fetch copies sums of this rank to the host.
func (n *normal) fetch(w *work, floats int) {
	w.do(w.on.CopyOut(n.sums.at[:floats], n.sums.on.Part(0, floats)))
	w.do(w.on.Wait())
	copy(n.batch.Sums, n.sums.at[:floats])
}

// send copies statistic i of all ranks to the device. The host has waited since the last copy.
func (n *normal) send(w *work, i int, x []float32) {
	at := i * cuda.Room(n.Cols)
	copy(n.stats.at[at:], x)
	w.do(w.on.CopyIn(n.stats.on.Part(at, at+n.Cols), n.stats.at[at:at+n.Cols]))
}

// reduced notes the error of a sum over the ranks, and reports whether the layer can continue.
func (n *normal) reduced(w *work, pass string, err error) bool {
	if err != nil {
		w.do(fmt.Errorf("batch norm %s: %s: sum over ranks: %w", n.name, pass, err))
	}
	return w.err == nil
}

func (n *normal) forward(w *work, y, x cuda.Buffer) {
	n.x, n.Partial = x, w.partial
	total := n.sums.on.Part(0, n.Cols)
	w.do(n.Sums(w.Set, w.on, total, x))
	if n.fetch(w, n.Cols); w.err != nil || !n.reduced(w, "forward", n.batch.Center(w.rows)) {
		return
	}
	n.send(w, 0, n.batch.Mean)
	w.do(n.Squares(w.Set, w.on, total, x))
	if n.fetch(w, n.Cols); w.err != nil || !n.reduced(w, "forward", n.batch.Scale(n.mean, n.variance)) {
		return
	}
	n.send(w, 1, n.batch.InvStd)
	w.do(n.Forward(w.Set, w.on, y, x))
}

// back modifies dy. It also computes the gradients of the parameters.
func (n *normal) back(w *work, dy cuda.Buffer) {
	w.do(n.Sums(w.Set, w.on, n.shift.grad, dy))
	w.do(n.Products(w.Set, w.on, n.scale.grad, dy, n.x))
	w.do(w.on.CopyOut(n.sums.at[:n.Cols], n.shift.grad))
	w.do(w.on.CopyOut(n.sums.at[n.Cols:], n.scale.grad))
	w.do(w.on.Wait())
	copy(n.batch.Sums, n.sums.at)
	if w.err != nil {
		return
	}
	meanDy, meanDyX, err := n.batch.Backward()
	if !n.reduced(w, "backward", err) {
		return
	}
	n.send(w, 2, meanDy)
	n.send(w, 3, meanDyX)
	w.do(n.Backward(w.Set, w.on, dy, n.x))
}

// Reduce implements step.DeviceSum.
func (d *Device) Reduce(sum func([]float32) error) {
	for n := range d.normals() {
		n.batch.Reduce = sum
	}
}

// normals yields the layers that normalise, in the order of forward.
func (d *Device) normals() func(yield func(*normal) bool) {
	return func(yield func(*normal) bool) {
		for _, l := range d.labels {
			if l.net == nil {
				continue
			}
			for _, layer := range l.net.mlp {
				if layer.norm != nil && !yield(layer.norm) {
					return
				}
			}
		}
	}
}

// absent takes part in the sums of a step in which this rank has no rows.
func (d *Device) absent() (err error) {
	var all []*normal
	for n := range d.normals() {
		all = append(all, n)
		clear(n.batch.Sums)
		if err = n.batch.Center(0); err == nil {
			clear(n.batch.Sums)
			err = n.batch.Scale(n.mean, n.variance)
		}
		if err != nil {
			return fmt.Errorf("batch norm %s: forward: sum over ranks: %w", n.name, err)
		}
	}
	for i := len(all) - 1; i >= 0; i-- {
		clear(all[i].batch.Sums)
		if _, _, err := all[i].batch.Backward(); err != nil {
			return fmt.Errorf("batch norm %s: backward: sum over ranks: %w", all[i].name, err)
		}
	}
	return nil
}
