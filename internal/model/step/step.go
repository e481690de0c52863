package step

import (
	"math"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/optim"
	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/trace"
)

// Requests holds what a rank requests of the group at the end of a step.
type Requests struct {
	Save, Stop bool
	Compare    bool // search for slow ranks
	Publish    bool // publish a version of the model
}

// write stores the requests in the tail of a rank's dense gradients.
func (w Requests) write(tail []float32) {
	tail[tailSave], tail[tailStop] = flag(w.Save), flag(w.Stop)
	tail[tailCompare] = flag(w.Compare) + float32(tailBlock*flag(w.Publish))
}

// requestsIn returns the requests of all ranks from the sum of their tails.
func requestsIn(tail []float32) Requests {
	n := int(tail[tailCompare])
	return Requests{Save: tail[tailSave] > 0, Stop: tail[tailStop] > 0, Compare: n%tailBlock > 0, Publish: n/tailBlock > 0}
}

// Outcome is the result of a step, the same on all ranks.
type Outcome struct {
	Rows     int64   // samples of the step, over all ranks
	Weight   float64 // sum of their weights; Rows if samples have no weights
	Loss     float64 // sum of their losses, each multiplied by the weight of its sample
	Requests         // true if at least one rank made the request
}

// Mean returns the weighted mean of the losses, 0 if all weights are 0.
func (o *Outcome) Mean() float64 {
	if o.Weight == 0 {
		return 0
	}
	return o.Loss / o.Weight
}

// Input describes the next step. Number and rate must be the same on every rank.
type Input struct {
	N        int64   // steps count from 1
	Rate     float64 // the schedule's factor of the learning rates
	Requests Requests

	// Batches are the batches of this rank's slots; empty if a Source provides them. Next
	// are those of the following step, and must not change before it. Next is empty if they
	// are not known, and then on every rank.
	Batches, Next []*encode.Batch

	taken int // slots begun
}

// mode determines which slots of a step a rank computes, and when it is decided which of
// them count.
type mode interface {
	// next returns the work for the next slot of the step, for which all ranks pull
	// together. It returns nil when it is decided which slots count.
	next(*Input) (*work, error)
	// compute computes the gradients of a work, or starts another goroutine that does. They
	// are stored in its lookup and in the arena or in the work.
	compute(*work) error
	// push sends gradients of rows to their owners, unless it is still undecided whether
	// they count.
	push(*work) error
	// sumGradients sums the gradients of the slots that count: the gradients of rows at their owners,
	// dense ones in the arena.
	sumGradients(*Input) error
}

// work is one pull on this rank, with the batch of this rank's slot.
type work struct {
	lookup *sparse.Lookup
	batch  *encode.Batch // without rows if this rank has no slot
	own    int           // index among this rank's slots, in modes with fixed slots
	lease

	gradients int64 // bytes of gradients of rows that push sends
}

// Step takes a step.
func (t *Trainer) Step(c Input) (Outcome, error) {
	t.coming = c // c itself would escape to the heap
	for {
		w, err := t.mode.next(&t.coming)
		if err != nil {
			return Outcome{}, err
		}
		if w == nil {
			break
		}
		if err := t.pull(w); err != nil {
			return Outcome{}, err
		}
		if err := t.mode.compute(w); err != nil {
			return Outcome{}, err
		}
		if err := t.mode.push(w); err != nil {
			return Outcome{}, err
		}
	}
	if err := t.mode.sumGradients(&t.coming); err != nil {
		return Outcome{}, err
	}
	out := t.outcome()
	return out, t.update(c.N, c.Rate, t.weight())
}

// pull requests the rows of the keys of a work's batch.
func (t *Trainer) pull(w *work) (err error) {
	t.rec.Enter(trace.Pull)
	m := t.model
	if t.prepared == w {
		t.prepared = nil
		err = m.store.Pipeline().Complete(w.lookup)
	} else {
		err = m.store.Pull(w.lookup, m.keys(m.bags, w.batch), true)
	}
	if err == nil {
		c := w.lookup.Counters()
		w.gradients = c.GradBytesSent
		c.GradBytesSent = 0
		t.rec.Count(c.BytesSent(), int(c.UniqueKeys))
	}
	return err
}

// forgetPrepared drops the prepared batch, if any. It is pulled again when its step begins.
func (t *Trainer) forgetPrepared() error {
	w := t.prepared
	if w == nil {
		return nil
	}
	t.prepared = nil
	return t.model.store.Pipeline().Complete(w.lookup)
}

// outcome reads the sums in the tail of the dense gradients.
func (t *Trainer) outcome() Outcome {
	tail := t.model.arena.Tail()
	out := Outcome{Rows: rowsIn(tail), Loss: float64(tail[tailLoss]), Requests: requestsIn(tail)}
	if out.Weight = float64(out.Rows); t.model.weighted {
		out.Weight = float64(tail[tailWeight])
	}
	return out
}

// weight returns the divisor of the step's mean: the number of its samples, or with weights
// their sum.
func (t *Trainer) weight() float64 {
	tail := t.model.arena.Tail()
	if !t.model.weighted {
		return float64(max(rowsIn(tail), 1))
	}
	if w := float64(tail[tailWeight]); w > 0 {
		return w
	}
	return 1 // all weights, and so all gradients, are 0
}

// update takes the optimizer step of the shards and dense parameters of this rank. It uses
// the mean gradient of the step's samples, clipped by its norm.
func (t *Trainer) update(n int64, rate, weight float64) error {
	m := t.model
	at := optim.Step{N: n, Rate: max(rate, optim.ZeroRate), Scale: float32(1 / weight), Samples: weight}
	if t.scaled {
		at.Batch = uint32(rowsIn(m.arena.Tail()))
	}
	if t.clip > 0 {
		t.norm[0] = m.store.GradNormSq(at.Scale)
		if err := collective.AllReduce(t.comm, t.norm, collective.Sum); err != nil {
			return err
		}
		dense, err := m.gradNormSq(at.Scale)
		if err != nil {
			return err
		}
		if norm := math.Sqrt(t.norm[0] + dense); norm > t.clip {
			at.Clip = float32(t.clip / norm)
		}
	}
	if t.copies {
		if err := t.prepare(at); err != nil {
			return err
		}
	}
	t.rec.Enter(trace.Update)
	if err := m.store.Apply(at); err != nil {
		return err
	}
	return m.apply(at)
}

func flag(b bool) float32 {
	if b {
		return 1
	}
	return 0
}
