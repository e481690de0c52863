package step

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/wdlrun/wdlrun/dense"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/kernel/f32"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/sparse"
)

func (m *model) arenaConfig(c *config.Config, memory func(n int) []float32) dense.Config {
	o, tail := c.Train.Optimizer, tailWidth
	if m.weighted {
		tail++
	}
	return dense.Config{Seed: c.Train.Seed, Tail: tail, Memory: memory, Groups: []dense.Group{
		{Prefix: "wide/", Rule: o.Wide},
		{Rule: o.Dense, L2: c.Train.L2.Dense},
	}}
}

// DenseSize returns the size of the dense part of a layout's model without building it. It
// does not include the gradients of the threads after the first.
func DenseSize(c *config.Config, l layout.Layout) (dense.Size, error) {
	m := &model{layout: l, objective: newObjective(c)}
	w, err := newWorker(m, c, 0, nil)
	if err != nil {
		return dense.Size{}, err
	}
	return w.arena.Size(m.arenaConfig(c, nil))
}

// Layers returns the parameters of the dense part of a layout's model, without values.
func Layers(c *config.Config, l layout.Layout) ([]*dense.Param, error) {
	m := &model{layout: l, objective: newObjective(c)}
	w, err := newWorker(m, c, 0, nil)
	if err != nil {
		return nil, err
	}
	return w.arena.Params(), nil
}

// DenseArena returns the parameters of the dense part of a layout's model, for a device.
func DenseArena(c *config.Config, l layout.Layout) (*dense.Arena, error) {
	m := &model{layout: l, objective: newObjective(c)}
	w, err := newWorker(m, c, 0, nil)
	if err != nil {
		return nil, err
	}
	return w.arena, w.arena.Build(m.arenaConfig(c, nil))
}

// pull pulls the rows of the keys of a batch that was not prepared into the current lookup.
func (m *model) pull(b *encode.Batch, insert bool) error {
	return m.store.Pull(m.lookup, m.keys(m.bags, b), insert)
}

// keys fills bags with the keys of a batch and returns them.
func (m *model) keys(bags []sparse.Bags, b *encode.Batch) []sparse.Bags {
	for f, ft := range m.layout.Features {
		j := b.Sparse[f]
		bags[f] = sparse.Bags{
			Table: ft.Table, Values: j.Values, Offsets: j.Offsets, Weights: j.Weights, Pooling: ft.Pooling,
		}
	}
	return bags
}

// compute computes the logits of the pulled batch and returns the sum of the losses of its
// samples. In training it also stores the gradients of that sum in the arena and the
// lookup, unless the loss is not finite.
func (m *model) compute(b *encode.Batch, step int64, train bool) (loss float64, err error) {
	m.grow(b.Rows)
	m.batch, m.step, m.train, m.gaveUp, m.last = b, step, train, false, false
	m.weigh()
	if m.pace != nil || m.device != nil {
		m.began = time.Now()
	}
	if m.distinct.on = false; train && m.device != nil {
		return m.computeOn(m.device)
	}
	if m.distinct.choose(m); m.distinct.on {
		m.crew.run(phaseFill)
		m.crew.run(phaseColumns)
	}
	m.crew.run(phaseRows)
	for _, w := range m.workers {
		if w.err != nil {
			return 0, w.err
		}
		loss += w.loss
	}
	if !train || !finite(loss) || m.gaveUp {
		return loss, nil
	}
	m.gather(loss)
	m.reached(Progress{Rows: b.Rows, Of: b.Rows, Done: true})
	m.sums.ready(0)
	return loss, nil
}

// gather adds the gradients that are not yet in the arena and the lookup.
func (m *model) gather(loss float64) {
	several := len(m.workers) > 1
	if m.distinct.on {
		m.crew.run(phaseEnd)
	} else if several {
		m.crew.run(phaseSum)
	}
	if several {
		m.tail(loss)
		m.sums.ready(0)
	}
	if m.distinct.on || several {
		m.crew.run(phaseTables)
	}
}

// final is called when the dense gradients from index from on are complete.
func (m *model) final(from int) {
	if !m.last || m.chunk == math.MaxInt { // a batch normalisation may still make calls
		return
	}
	if m.workers[0].tower[0].bias != nil && from == len(m.labels) {
		from = 0 // the gradients of the wide model were computed first
	}
	m.reached(Progress{Rows: m.batch.Rows, Of: m.batch.Rows, Final: from})
	m.sums.ready(from)
}

// gradients is compute for step n of training. It fails if the loss is not finite; the
// error names the first place that is not. It leaves the number of samples and the loss in
// the tail of the dense gradients. The results for a batch that was given up are not used.
func (m *model) gradients(b *encode.Batch, n int64) error {
	loss, err := m.compute(b, n, true)
	if err != nil || m.gaveUp {
		return err
	}
	if !finite(loss) {
		if d := m.device; d != nil { // the CPU repeats the batch, to find the place
			if err := m.fetch(); err != nil {
				return err
			}
			m.device, m.alone = nil, true
			_, err = m.compute(b, n, true)
			m.device = d
		}
		return errors.Join(fmt.Errorf("step %d: the loss is %v: %w", n, loss, m.nonFinite(b)), err)
	}
	return nil
}

func (m *model) grow(rows int) {
	all := rows * len(m.labels)
	if cap(m.logit) < all {
		m.logit, m.dlogit = make([]float32, all), make([]float32, all)
		if len(m.workers) > 1 {
			m.dx = make([]float32, rows*m.layout.Width)
		}
	}
	m.logit, m.dlogit = m.logit[:all], m.dlogit[:all]
}

// stop ends the model's goroutines.
func (m *model) stop() {
	m.crew.close()
	m.sums.close()
}

// close ends the model's goroutines and closes its device. m may be nil.
func (m *model) close() error {
	if m == nil {
		return nil
	}
	if m.stop(); m.device != nil {
		return m.device.to.Close()
	}
	return nil
}

// nonFinite returns an error for a loss that is not finite. It names the first place, in
// the order of the computation, that holds a NaN or an infinity.
func (m *model) nonFinite(b *encode.Batch) error {
	inputs := m.layout.Dense
	if i := f32.FirstNonFinite(b.Dense); i >= 0 {
		return fmt.Errorf("dense input %s of row %d is %v", inputs[i%len(inputs)], b.RowID[i/len(inputs)], b.Dense[i])
	}
	if table, key, ok := m.lookup.NonFinite(); ok {
		return fmt.Errorf("the row of key %d in table %s holds a value that is not a finite number; a smaller learning rate or clip_norm may prevent it", key, table)
	}
	for _, w := range m.workers {
		for _, t := range w.tower {
			if t.net == nil || finite(w.loss) {
				continue
			}
			if place, ok := t.net.NonFinite(); ok {
				return fmt.Errorf("%s is not a finite number; a smaller learning rate or clip_norm may prevent it", place)
			}
		}
	}
	if p, _ := m.arena.NonFinite(); p != nil {
		return fmt.Errorf("parameter %s is not a finite number; a smaller learning rate or clip_norm may prevent it", p.Name)
	}
	return fmt.Errorf("no parameter or activation is non-finite, but the sum of the losses is")
}
