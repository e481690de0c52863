package step

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/wdlrun/wdlrun/dense"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/kernel/f32"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/sparse"
)

// The scalars behind the dense gradients in their allreduce. Changing their number would
// move the bounds of its chunks, and so change the bits of a training on 3 ranks.
const (
	tailRows    = iota // samples of the step, modulo tailBlock
	tailBlocks         // samples of the step, divided by tailBlock
	tailLoss           // sum of the losses of the samples
	tailSave           // > 0: at least one rank requests a checkpoint
	tailStop           // > 0: at least one rank requests a stop
	tailCompare        // ranks that request a search for slow ranks + tailBlock × ranks that request to publish the model
	tailWidth   = iota

	tailWeight = tailWidth // index of the sum of the weights, a further float if samples have weights
)

// tailBlock splits a number of samples into two integers that float32 sums exactly, below
// 2²⁴. This suffices for 4096 ranks and 2³⁶ samples.
const tailBlock = 1 << 12

// putRows stores the number of a rank's samples in its tail.
func putRows(tail []float32, rows int) {
	tail[tailRows], tail[tailBlocks] = float32(rows%tailBlock), float32(rows/tailBlock)
}

// rowsIn returns the samples of all ranks from the sum of their tails.
func rowsIn(tail []float32) int64 { return int64(tail[tailBlocks])*tailBlock + int64(tail[tailRows]) }

// model is the part of a model on one rank that all kinds have in common. It pulls and
// pools rows of tables and computes
//
//	logit = bias + Σ wide weights of the sample's keys + network([pooled embeddings, dense inputs])
//
// It works through a batch in chunks, on one or more threads (see worker).
type model struct {
	layout layout.Layout
	objective
	store    *sparse.Store
	lookup   *sparse.Lookup // lookup of the current batch
	arena    *dense.Arena
	workers  []*worker // the first runs on the goroutine of the caller
	crew     *crew
	chunk    int // rows that a worker takes at once
	distinct distinct

	device *offload // nil: the CPU computes the dense part
	alone  bool     // this rank repeats a batch, so that statistics are not summed over the ranks
	pauses

	sums     *buckets // sums dense gradients over the ranks; nil: the caller sums
	requests Requests // stored behind them
	last     bool     // this backward pass is for the last rows, so gradients become final

	bags   []sparse.Bags // by feature: keys of the batch to pull
	batch  *encode.Batch
	train  bool
	step   int64
	logit  []float32 // B values for each label
	dlogit []float32 // like logit: gradient of the summed loss with respect to the logits
	dx     []float32 // B × width, with several workers: gradient with respect to the networks' input
}

// pauses contains what delays or stops the computation of a model.
type pauses struct {
	// hold, if not nil, returns how long to sleep after a chunk of training that took the
	// given time. halt is true if the batch must be given up. gone, if not nil, is closed
	// when the model is closed.
	hold      func(step int64, took time.Duration) time.Duration
	halt      *atomic.Bool
	gone      chan struct{}
	gaveUp    bool          // this batch was given up
	overslept time.Duration // by how much sleeps took longer than they should have
	seen      int           // rows computed until then

	pace  func(Progress) time.Duration // if not nil, the modelled time from the beginning of compute to a place
	began time.Time                    // beginning of compute, for pace
}

// newModel builds the model. start is the initial output for the first label. memory
// allocates the buffer of the dense gradients. reduce sums the statistics of batch
// normalisation over the ranks.
func newModel(c *config.Config, l layout.Layout, store *sparse.Store, start float64, memory func(n int) []float32, reduce func([]float32) error) (*model, error) {
	m := &model{layout: l, objective: newObjective(c), store: store, lookup: store.NewLookup(), bags: make([]sparse.Bags, len(l.Features)), chunk: chunkRows}
	if c.Model.BatchNorm {
		m.chunk = math.MaxInt // its statistics need the whole batch
	}
	for range c.Train.Threads {
		w, err := newWorker(m, c, float32(start), reduce)
		if err != nil {
			return nil, err
		}
		m.workers = append(m.workers, w)
	}
	m.arena = m.workers[0].arena
	m.arena.Final(m.final)
	m.distinct = newDistinct(m.workers)
	if err := m.arena.Build(m.arenaConfig(c, memory)); err != nil {
		return nil, err
	}
	for _, w := range m.workers[1:] {
		w.arena.Attach(m.arena)
	}
	m.crew = newCrew(len(m.workers), m.fill, m.columns, m.rows, m.end, m.sum, m.tables, m.fillDevice, m.takeGrads)
	return m, nil
}

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

// tail writes the scalars behind the dense gradients.
func (m *model) tail(loss float64) {
	tail := m.arena.Tail()
	putRows(tail, m.batch.Rows)
	tail[tailLoss] = float32(loss)
	if m.weighted {
		tail[tailWeight] = float32(m.total)
	}
	m.requests.write(tail)
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

// Progress is a place in the compute of a step.
type Progress struct {
	Rows, Of int  // rows whose forward pass is complete; all rows of the batch
	Final    int  // dense gradients from here on are final
	Done     bool // the gradients of keys are complete as well
}

// reached sleeps until the modelled machine would have reached p.
func (m *model) reached(p Progress) {
	if m.pace != nil {
		m.sleep(time.Until(m.began.Add(m.pace(p))))
	}
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

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

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
