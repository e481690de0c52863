package step

import (
	"fmt"

	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/trace"
)

// waiting is the mode in which every rank has the same slots in each step and all of them
// count. Each rank has one slot, and sums are in the order of ranks.
type waiting struct {
	t     *Trainer
	works []*work // a ring: one per slot of this rank, and one for the prepared batch
	turn  int     // index of the next work
	step  int64
	after *encode.Batch // batch of the following slot; nil: not known
	bags  []sparse.Bags // keys of the prepared batch
}

// aheadChannel is the channel on which batches are prepared and pushed ahead.
const aheadChannel = 1

// newWaiting returns the mode for ranks with the given number of slots each. first becomes
// the lookup of the first work.
func newWaiting(t *Trainer, slots int, first *sparse.Lookup) *waiting {
	x := &waiting{t: t, works: []*work{{lookup: first}}, bags: make([]sparse.Bags, len(t.model.bags))}
	if t.ahead {
		slots++
	}
	for len(x.works) < slots {
		x.works = append(x.works, &work{lookup: t.model.store.NewLookup()})
	}
	return x
}

func (x *waiting) next(c *Input) (*work, error) {
	if c.taken == len(c.Batches) {
		return nil, nil
	}
	w, b := x.works[x.turn], c.Batches[c.taken]
	if x.t.prepared == w && w.batch != b {
		return nil, fmt.Errorf("the batch of %d rows is not the one that was announced, of %d", b.Rows, w.batch.Rows)
	}
	w.batch, w.own, x.step, x.after = b, c.taken, c.N, nil
	x.t.model.requests = c.Requests
	x.turn = (x.turn + 1) % len(x.works)
	if c.taken++; c.taken < len(c.Batches) {
		x.after = c.Batches[c.taken]
	} else if len(c.Next) > 0 {
		x.after = c.Next[0]
	}
	return w, nil
}

// compute computes a batch. Meanwhile the keys of the next batch are sent, and the keys of its
// rows that the current step does not change.
func (x *waiting) compute(w *work) error {
	m := x.t.model
	if x.t.ahead && x.after != nil {
		next := x.works[x.turn]
		x.t.prepared, next.batch = next, x.after
		if err := m.store.Pipeline().Prepare(next.lookup, m.keys(x.bags, x.after), true); err != nil {
			return err
		}
	}
	x.t.rec.Enter(trace.Compute)
	m.lookup = w.lookup
	return m.gradients(w.batch, x.step)
}

func (x *waiting) push(w *work) error {
	x.t.rec.Enter(trace.Push)
	x.t.rec.Count(w.gradients, 0)
	return x.t.model.store.Pipeline().Push(w.lookup)
}

func (x *waiting) sumGradients(*Input) error {
	x.t.rec.Enter(trace.Sync)
	if err := x.t.model.sums.finish(x.t.rec); err != nil {
		return err
	}
	return x.t.model.sumOnDevice()
}
