package wdl

import (
	"errors"
	"fmt"
	"math"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/data"
	"github.com/wdlrun/wdlrun/internal/f32"
	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/trace"
	"github.com/wdlrun/wdlrun/wdl/config"
)

// Trainer takes synchronous steps of one model with the other ranks of its
// group. All ranks call Step and Evaluate in the same order, with batches that
// may be of different sizes or empty. After every step all ranks hold the same
// dense parameters, bit for bit, and each row of a table has been changed once,
// by its owner. Close ends its threads and frees its tables.
type Trainer struct {
	comm  *collective.Comm
	rec   *trace.Recorder
	model *model
	dense []string // names of the dense inputs
	clip  float64
	image func() (*model, error) // makes another model over the same store
	tally *tally
	norm  []float64 // one number, for the norm of the sharded gradients
	ahead bool      // batches are prepared while the one before is computed
}

// besides is the channel on which batches are prepared and pushed ahead.
const besides = 1

// NewTrainer builds the model on a group whose transport has two channels: the
// second is for what runs beside the computation. columns and dense are the
// encoder's.
func NewTrainer(comm *collective.Comm, rec *trace.Recorder, c *config.Config, columns []data.SparseColumn, dense []string) (*Trainer, error) {
	t := &Trainer{comm: comm, rec: rec, dense: dense, clip: c.Train.ClipNorm, tally: newTally(), norm: make([]float64, 1)}
	if c.Train.Precision == "bf16" {
		if err := f32.AMX(); err != nil {
			return nil, fmt.Errorf("wdl: train.precision bf16 is refused, it would be slower than fp32: %w", err)
		}
	}
	l := newLayout(c, columns, len(dense))
	store, err := sparse.Open(collective.Exchanger{Comm: comm}, sparse.Config{Tables: l.tables, Wire: l.wire, Seed: c.Train.Seed})
	if err != nil {
		return nil, err
	}
	for i, tier := range l.tiers {
		if tier == (config.Tier{}) {
			continue
		}
		if err := store.OpenTier(i, tier.Dir, tier.Memory<<20); err != nil {
			return nil, errors.Join(err, store.Close())
		}
	}
	if t.ahead = worksAhead(comm); t.ahead {
		if err := store.Ahead(collective.Exchanger{Comm: comm.Channel(besides)}); err != nil {
			return nil, errors.Join(err, store.Close())
		}
	}
	var refused error
	window := func(n int) []float32 {
		// Where ranks share memory the allreduce then reads gradients in place.
		grads, err := collective.Alloc[float32](comm, n)
		if err != nil {
			refused, grads = err, make([]float32, n)
		}
		return grads
	}
	if t.model, err = newModel(c, l, store, window, t.reduce); err != nil {
		return nil, err
	}
	t.image = func() (*model, error) { return newModel(c, l, store, nil, nil) }
	return t, refused
}

// worksAhead is whether batches are prepared, and pushed, beside the computation:
// where something travels by links. Where all ranks share memory, moving rows is
// work of the same cores, and nothing is won: on 2 cores with np 2, workload w1
// takes 21.3 ms a step either way (bench step). Over links the modelled network of
// package sparse shows the gain; see docs/benchmarks.md.
func worksAhead(comm *collective.Comm) bool {
	shape := comm.Shape()
	return comm.Size() > 1 && (!shape.Windows || shape.Hosts > 1)
}

// Close ends the trainer's threads and frees the memory of its tables. Nobody may
// use it afterwards.
func (t *Trainer) Close() error {
	if err := t.model.close(); err != nil {
		return fmt.Errorf("wdl: close: %w", err)
	}
	return nil
}

// Spent returns the times of the parts of compute on this rank since the
// trainer was made.
func (t *Trainer) Spent() Spent { return t.model.workers[0].spent }

// Traffic returns what this rank's share of the tables has done and moved.
func (t *Trainer) Traffic() sparse.Counters { return t.model.store.Counters() }

// FLOP returns the floating-point operations that a sample's forward and
// backward take in products of matrices: two for each weight forward, four
// backward.
func (t *Trainer) FLOP() (n int64) {
	for _, p := range t.model.arena.Params() {
		if p.Decay { // weights, not biases
			n += 6 * int64(p.Rows) * int64(p.Cols)
		}
	}
	return n
}

// Parameters returns how many dense parameters there are.
func (t *Trainer) Parameters() int { return len(t.model.arena.Grads()) - tailWidth }

// reduce sums the statistics of batch normalisation over the ranks.
func (t *Trainer) reduce(x []float32) error {
	t.rec.Enter(trace.Sync)
	err := collective.AllReduce(t.comm, x, collective.Sum)
	t.rec.Enter(trace.Compute)
	return err
}

// Wish is what a rank asks of the group at the end of a step.
type Wish struct{ Save, Stop bool }

// Outcome is what all ranks know after a step.
type Outcome struct {
	Rows int64   // samples of the step, over all ranks
	Loss float64 // sum of their log-losses
	Wish         // true where at least one rank wished it
}

// Step trains on one batch of this rank: n counts the steps from 1, rate is the
// schedule's factor of the learning rates. next is the batch of the following
// Step, nil if it is not known: every rank gives one or none does. It must not
// change until then.
func (t *Trainer) Step(n int64, rate float64, b, next *data.Batch, w Wish) (Outcome, error) {
	m := t.model
	t.rec.Enter(trace.Pull)
	if err := m.pull(b, true); err != nil {
		return Outcome{}, err
	}
	if t.ahead && next != nil {
		if err := m.prepare(next); err != nil {
			return Outcome{}, err
		}
	}
	t.rec.Enter(trace.Compute)
	loss, err := m.compute(b, n, true)
	if err != nil {
		return Outcome{}, err
	}
	if !finite(loss) {
		return Outcome{}, fmt.Errorf("wdl: step %d: the loss is %v: %w", n, loss, m.nonFinite(b, t.dense))
	}
	t.rec.Enter(trace.Push)
	if err := m.store.PushBeside(m.lookup); err != nil {
		return Outcome{}, err
	}
	tail := m.arena.Tail()
	tail[tailRows], tail[tailLoss] = float32(b.Rows), float32(loss)
	return t.conclude(n, rate, w)
}

// conclude sums the dense gradients and what rides behind them, and updates.
func (t *Trainer) conclude(n int64, rate float64, w Wish) (Outcome, error) {
	t.rec.Enter(trace.Sync)
	tail := t.model.arena.Tail()
	tail[tailSave], tail[tailStop] = flag(w.Save), flag(w.Stop)
	if err := collective.AllReduce(t.comm, t.model.arena.Grads(), collective.Sum); err != nil {
		return Outcome{}, err
	}
	out := Outcome{
		Rows: int64(tail[tailRows]), Loss: float64(tail[tailLoss]),
		Wish: Wish{Save: tail[tailSave] > 0, Stop: tail[tailStop] > 0},
	}
	return out, t.update(n, rate, out.Rows)
}

// update takes the optimizer step of the shards and dense parameters this rank
// holds, on the mean gradient of the step's samples, clipped to the norm.
func (t *Trainer) update(n int64, rate float64, rows int64) error {
	m := t.model
	scale, clip := float32(1/float64(max(rows, 1))), float32(1)
	if t.clip > 0 {
		t.norm[0] = m.store.GradNormSq(scale)
		if err := collective.AllReduce(t.comm, t.norm, collective.Sum); err != nil {
			return err
		}
		if norm := math.Sqrt(t.norm[0] + m.arena.GradNormSq(scale)); norm > t.clip {
			clip = float32(t.clip / norm)
		}
	}
	t.rec.Enter(trace.Update)
	if err := m.store.Apply(sparse.Step{N: n, Scale: scale, Clip: clip, Rate: rate}); err != nil {
		return err
	}
	m.arena.Apply(n, scale, clip, rate)
	return nil
}

func flag(b bool) float32 {
	if b {
		return 1
	}
	return 0
}

// Evaluate computes the figures of the batches that next returns, nil after the
// last. Every rank must return the same number of them, empty ones included.
// Parameters and tables stay as they are.
func (t *Trainer) Evaluate(next func() (*data.Batch, error)) (Metrics, error) {
	t.tally.reset()
	for {
		b, err := next()
		if err != nil {
			return Metrics{}, err
		}
		t.rec.Enter(trace.Wait)
		if b == nil {
			return t.tally.reduce(t.comm)
		}
		if err := t.model.pull(b, false); err != nil {
			return Metrics{}, err
		}
		t.rec.Enter(trace.Eval)
		loss, err := t.model.compute(b, 0, false)
		if err != nil {
			return Metrics{}, err
		}
		if !finite(loss) {
			return Metrics{}, fmt.Errorf("wdl: evaluation: the loss is %v: %w", loss, t.model.nonFinite(b, t.dense))
		}
		t.tally.add(t.model.logit, b.Label, loss)
	}
}
