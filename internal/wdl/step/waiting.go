package step

import (
	"fmt"

	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/trace"
)

// waiting is the mode in which every rank has the same slots in each step and all of them
// count, so that nothing has to be decided. Each rank has one slot, and sums are by rank.
type waiting struct {
	t     *Trainer
	works []*work // one for each own slot, and one for the batch that is prepared, in turn
	turn  int     // of works: the next to be taken
	taken int     // slots of this step
	step  int64
	after *encode.Batch // the batch after that of the current slot; nil: it is not known
	bags  []sparse.Bags // of the batch that is prepared
}

// besides is the channel on which batches are prepared and pushed ahead.
const besides = 1

// newWaiting makes the mode of a trainer whose ranks have so many slots each. The first
// work has the lookup.
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

func (x *waiting) next(c *Coming) (*work, error) {
	if c.taken == len(c.Batches) {
		return nil, nil
	}
	w, b := x.works[x.turn], c.Batches[c.taken]
	if x.t.prepared == w && w.batch != b {
		return nil, fmt.Errorf("wdl: the batch of %d rows is not the one that was announced, of %d", b.Rows, w.batch.Rows)
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

// compute computes while the keys of the batch after this one travel, and those of its
// rows that the current step leaves alone.
func (x *waiting) compute(w *work) error {
	m := x.t.model
	if x.t.ahead && x.after != nil && !x.t.copiesAfter(x.step) {
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
	return x.t.model.store.Pipeline().Push(w.lookup)
}

func (x *waiting) settle(*Coming) error {
	x.t.rec.Enter(trace.Sync)
	return x.t.model.sums.finish(x.t.rec)
}
