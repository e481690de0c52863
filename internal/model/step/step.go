package step

import (
	"math"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/optim"
	"github.com/wdlrun/wdlrun/trace"
)

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
