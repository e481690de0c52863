package step

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/dense"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/kernel/f32"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/trace"
)

// Tables is the initial state of the tables of a new trainer. In the zero value they are
// empty, tables with strategy auto are partitioned by rows, and ranks own equal ranges of
// shards.
type Tables struct {
	Strategies map[string]sparse.Strategy // by name, for tables whose strategy is auto
	Owner      []int32                    // rank by shard
	Start      float64                    // initial logit of the first label
	Left       *Left                      // the tables of a trainer whose group was lost; Heal must follow
}

// Able returns an error if this machine cannot train with a filled configuration.
func Able(c *config.Config) error {
	if !c.Train.BF16OnCPU() {
		return nil
	}
	if err := f32.NoBF16(); err != nil {
		return fmt.Errorf("train.precision: bf16 would be slower than fp32 on this machine: %w: use fp32", err)
	}
	return nil
}

// NewTrainer builds the model of a layout. The transport of the group must have two
// channels; the second is used during the computation. c must be filled.
func NewTrainer(comm *collective.Comm, rec *trace.Recorder, c *config.Config, l layout.Layout, begin Tables) (*Trainer, error) {
	t := &Trainer{comm: comm, rec: rec, clip: c.Train.ClipNorm, scaled: c.Train.Scaling != "none", unknown: make([]int64, len(l.Features)), norm: make([]float64, 1)}
	if err := Able(c); err != nil {
		return nil, err
	}
	store, err := openStore(comm, c, l, begin)
	if err != nil {
		return nil, err
	}
	store.Share(c.Train.Threads, func(f func(int)) { t.model.crew.each(f) })
	if t.ahead = WorksAhead(comm); t.ahead {
		if err := store.Pipeline().Start(comm.Channel(aheadChannel)); err != nil {
			return nil, errors.Join(err, store.Close())
		}
	}
	t.ahead = t.ahead || slices.ContainsFunc(l.Tiers, func(x config.Tier) bool { return x != config.Tier{} })
	var rejected error
	window := func(n int) []float32 {
		// If ranks share memory, the allreduce reads gradients in place.
		rec.Enter(trace.Wait)
		grads, err := collective.Alloc[float32](comm, n)
		rec.Enter(trace.Build)
		if err != nil {
			rejected, grads = err, make([]float32, n)
		}
		return grads
	}
	if t.model, err = newModel(c, l, store, begin.Start, window, t.reduce); err != nil {
		return nil, err
	}
	t.model.sums = newBuckets(comm, t.model.arena, c, l)
	if by := t.model.distinct.layer; by != nil && t.model.sums.work != nil {
		by.Stops = t.model.sums.stops(t.model.arena)
	}
	for _, l := range t.model.labels {
		t.tally = append(t.tally, metrics.NewCounter(l))
	}
	t.image = func() (*model, error) { return newModel(c, l, store, 0, nil, nil) }
	t.mode = newWaiting(t, 1, t.model.lookup)
	return t, rejected
}

// openStore opens the tables.
func openStore(comm *collective.Comm, c *config.Config, l layout.Layout, begin Tables) (*sparse.Store, error) {
	if left := begin.Left; left != nil {
		return left.store, left.store.Replica().Rejoin(comm)
	}
	cfg := sparse.Config{
		Tables: slices.Clone(l.Tables), Seed: c.Train.Seed, Shards: layout.Shards,
	}
	for i, name := range l.Asked {
		t := &cfg.Tables[i]
		if how, auto := layout.Strategy(name); !auto {
			t.Strategy = how
		} else {
			t.Strategy = begin.Strategies[t.Name]
		}
	}
	store, err := sparse.Open(comm, cfg)
	if err != nil {
		return nil, err
	}
	if begin.Owner != nil && !slices.Equal(begin.Owner, store.Shards().Owner()) {
		err = store.Shards().Place(begin.Owner)
	}
	for i, tier := range l.Tiers {
		if tier != (config.Tier{}) && err == nil {
			err = store.Files().OpenTier(i, tier.Dir, tier.Memory<<20)
		}
	}
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return store, nil
}

// Close ends the trainer's threads and frees the memory of its tables. No goroutine may
// use it afterwards.
func (t *Trainer) Close() error {
	if err := errors.Join(t.late.close(), t.model.close(), t.model.store.Close()); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	return nil
}

// Spent returns the time that this rank has spent in the parts of compute since NewTrainer.
func (t *Trainer) Spent() Spent { return t.model.workers[0].spent }

// SimulateDelay makes compute sleep after each chunk of a step for the time that f returns. took is
// the time of the chunk. It models slow machines. Call it before the first step.
func (t *Trainer) SimulateDelay(f func(step int64, took time.Duration) time.Duration) {
	t.model.hold = f
}

// SimulatePace makes compute reach each place of a step at the time that f returns, counted from
// the beginning of compute. It models a machine if, unlike with SimulateDelay, the time that remains
// at each place matters. Call it before the first step.
func (t *Trainer) SimulatePace(f func(Progress) time.Duration) { t.model.pace = f }

// Buckets returns the number of dense gradients in each bucket, in the order in which
// backward finishes them, and the total time of their sums that ran during compute.
func (t *Trainer) Buckets() (floats []int, hidden time.Duration) {
	s := t.model.sums
	for i, from := range s.bounds[1:] {
		floats = append(floats, s.bounds[i]-from)
	}
	return floats, s.took
}

// Store returns the tables. They must not be used during a step.
func (t *Trainer) Store() *sparse.Store { return t.model.store }

// Traffic returns the counters of this rank's share of the tables.
func (t *Trainer) Traffic() sparse.Counters { return t.model.store.Counters() }

// FLOP returns the floating-point operations per sample in matrix products: for each
// weight, two forward and four backward.
func (t *Trainer) FLOP() (n int64) {
	for _, p := range t.model.arena.Params() {
		if p.Decay { // weights, not biases
			n += 6 * int64(p.Rows) * int64(p.Cols) * int64(max(p.Uses, 1))
		}
	}
	return n
}

// Saved returns the operations counted by FLOP that this rank did not execute: those saved
// by distinct rows, and those saved by zeros in the products of each layer.
func (t *Trainer) Saved() (spared int64, zeros []dense.Zeros) {
	zeros = t.model.workers[0].arena.Zeros()
	for _, w := range t.model.workers[1:] {
		for i, z := range w.arena.Zeros() {
			zeros[i].Add(z)
		}
	}
	return t.model.distinct.spared, zeros
}

// Parameters returns the number of dense parameters.
func (t *Trainer) Parameters() int { return len(t.model.arena.Grads()) - len(t.model.arena.Tail()) }

// reduce sums the statistics of batch normalisation over the ranks.
func (t *Trainer) reduce(x []float32) error {
	if t.model.alone {
		return nil
	}
	t.rec.Enter(trace.Sync)
	if t.comm.Size() > 1 {
		t.rec.Count(4*int64(len(x)), 0)
	}
	err := collective.AllReduce(t.comm, x, collective.Sum)
	t.rec.Enter(trace.Compute)
	return err
}

// Logits returns the logits of the first label for the last batch of Step or Evaluate. They
// are valid until the next call.
func (t *Trainer) Logits() []float32 { return t.LogitsOf(0) }

// LogitsOf returns the logits of another label.
func (t *Trainer) LogitsOf(label int) []float32 { return t.model.of(t.model.logit, label) }

// Evaluate computes the metrics of the batches that next returns; nil ends them. Every rank
// must return the same number of batches, which may be empty. Parameters and tables do not
// change.
func (t *Trainer) Evaluate(next func() (*encode.Batch, error)) (metrics.Metrics, error) {
	if _, err := t.parameters(); err != nil {
		return metrics.Metrics{}, err
	}
	for _, tally := range t.tally {
		tally.Reset()
	}
	clear(t.unknown)
	missing := make([]int64, len(t.unknown))
	for {
		b, err := next()
		if err != nil {
			return metrics.Metrics{}, err
		}
		t.rec.Enter(trace.Wait)
		if b == nil {
			if err := t.reduceUnknown(missing); err != nil {
				return metrics.Metrics{}, err
			}
			return t.reduceTallies()
		}
		if err := t.model.pull(b, false); err != nil {
			return metrics.Metrics{}, err
		}
		t.rec.Enter(trace.Eval)
		loss, err := t.model.compute(b, 0, false)
		if err != nil {
			return metrics.Metrics{}, err
		}
		if !finite(loss) {
			return metrics.Metrics{}, fmt.Errorf("evaluation: the loss is %v: %w", loss, t.model.nonFinite(b))
		}
		for i, tally := range t.tally {
			tally.Add(t.model.evaluated(i))
		}
		for f := range t.unknown {
			t.unknown[f] += t.model.lookup.Unknown(f)
			for _, key := range b.Sparse[f].Values {
				if key == encode.KeyMissing {
					missing[f]++
				}
			}
		}
	}
}

// reduceUnknown sums the unknown values over the ranks, without the missing values, whose number on this rank it gets. A
// lookup counts missing values too if KeyMissing has no row, which another lookup shows.
func (t *Trainer) reduceUnknown(missing []int64) error {
	n := len(missing)
	sums := append(slices.Clone(t.unknown), missing...)
	if err := collective.AllReduce(t.comm, sums, collective.Sum); err != nil {
		return err
	}
	copy(t.unknown, sums)
	missing = sums[n:]
	inDoubt := false // the same on every rank
	for f, m := range missing {
		inDoubt = inDoubt || m > 0 && t.unknown[f] >= m
	}
	if !inDoubt {
		return nil
	}
	b := &encode.Batch{Rows: 1}
	for range n {
		b.Sparse = append(b.Sparse, encode.Jagged{Values: []uint64{encode.KeyMissing}, Offsets: []int32{0, 1}})
	}
	if err := t.model.pull(b, false); err != nil {
		return err
	}
	without := make([]int64, n) // ranks that have read KeyMissing as zeros: none or all
	for f := range without {
		without[f] = t.model.lookup.Unknown(f)
	}
	if err := collective.AllReduce(t.comm, without, collective.Sum); err != nil {
		return err
	}
	for f, m := range missing {
		if without[f] > 0 {
			t.unknown[f] -= m
		}
	}
	return nil
}

// Unknown returns, by feature, how many values of the last Evaluate had keys that no step
// has trained, summed over all ranks. They were read as zeros. Missing values are not unknown.
// The caller must not modify the slice.
func (t *Trainer) Unknown() []int64 { return t.unknown }

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

// ComputeOn has a device compute the dense part of all further steps. Evaluation stays on
// the CPU. open makes a device for an arena; Close closes it. Call it before the first step.
//
// late must be true if Tolerate or Replay follows. The device then belongs to the goroutine that
// may be late, and must not sum gradients. Its parameters belong to the microbatch that it
// computes, and the CPU updates the trainer's.
func (t *Trainer) ComputeOn(late bool, open func(*dense.Arena) (Device, error)) (err error) {
	m := t.model
	if late {
		if m, err = t.image(); err != nil {
			return err
		}
		t.late, t.image = m, func() (*model, error) { return m, nil }
	}
	d, err := open(m.arena)
	if err != nil {
		return err
	}
	m.device = &offload{to: d}
	d.Reduce(t.reduce)
	if d.Sums() {
		t.model.sums.only(len(t.model.arena.Grads()) - len(t.model.arena.Tail()))
	}
	return nil
}
