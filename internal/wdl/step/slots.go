package step

import (
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/f32"
	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/trace"
)

// Slots takes steps whose bits do not depend on how many ranks take them. A global
// batch is S microbatches, one a slot, whichever rank computes them; rank r of P has the
// slots S·r/P to S·(r+1)/P. Gradients of rows are summed in the order of slots
// (sparse.Slots.Commit), dense ones along the balanced binary tree over the slots, of
// which each rank's are a subtree:
//
//	((g0 + g1) + (g2 + g3)) + ((g4 + g5) + (g6 + g7))      S = 8; P = 4: a pair a rank
//
// so that S and P must be powers of two. A step costs S/P exchanges of rows, one after
// the other, and as many bytes of dense gradients as an allreduce.
type Slots struct {
	t       *Trainer
	slots   int
	mine    []int            // slots of this rank
	lookups []*sparse.Lookup // one for each own slot and the one that is prepared, in turn
	turn    int              // of lookups: the next to be taken
	grads   [][]float32      // by own slot: dense gradients and the tail
	all     []int            // every slot
	counts  []int            // by rank: of a chunk of the dense gradients
	own     []int            // by rank: of this rank's chunk
	arrived []float32        // this rank's chunk of all ranks
}

// NewSlots prepares a trainer's steps in so many slots, a power of two that is no less
// than the ranks, whose number is one too.
func NewSlots(t *Trainer, slots int) *Slots {
	rank, size, width := t.comm.Rank(), t.comm.Size(), len(t.model.arena.Grads())
	x := &Slots{t: t, slots: slots, counts: make([]int, size), own: make([]int, size)}
	for s := range slots {
		x.all = append(x.all, s)
		if s*size/slots == rank {
			x.mine = append(x.mine, s)
			x.lookups, x.grads = append(x.lookups, t.model.store.NewLookup()), append(x.grads, make([]float32, width))
		}
	}
	x.lookups = append(x.lookups, t.model.store.NewLookup())
	lo, hi := collective.Chunk(width, size, rank)
	for r := range size {
		from, to := collective.Chunk(width, size, r)
		x.counts[r], x.own[r] = to-from, hi-lo
	}
	x.arrived = make([]float32, size*(hi-lo))
	return x
}

// Mine are the slots of this rank.
func (x *Slots) Mine() []int { return x.mine }

// take returns a lookup that no slot of the step has.
func (x *Slots) take() *sparse.Lookup {
	l := x.lookups[x.turn]
	x.turn = (x.turn + 1) % len(x.lookups)
	return l
}

// pull brings the rows of a slot's batch, and where batches are prepared announces the
// one after it, nil for none.
func (x *Slots) pull(b, next *encode.Batch) error {
	m := x.t.model
	if m.next.batch == nil {
		m.lookup = x.take()
	}
	if err := m.pull(b, true); err != nil || next == nil || !x.t.ahead {
		return err
	}
	m.next.lookup = x.take()
	return m.prepare(next)
}

// Step takes step n on the batches of this rank's slots. next are those of the following
// Step, nil if they are not known. rate, next and w are as in Trainer.Step.
func (x *Slots) Step(n int64, rate float64, batches, next []*encode.Batch, w Wish) (Outcome, error) {
	t, m := x.t, x.t.model
	for i, b := range batches {
		t.rec.Enter(trace.Pull)
		var after *encode.Batch
		if i+1 < len(batches) {
			after = batches[i+1]
		} else if len(next) > 0 {
			after = next[0]
		}
		if err := x.pull(b, after); err != nil {
			return Outcome{}, err
		}
		t.rec.Enter(trace.Compute)
		if err := m.gradients(b, n); err != nil {
			return Outcome{}, err
		}
		copy(x.grads[i], m.arena.Grads())
		t.rec.Enter(trace.Push)
		if err := m.store.Slots().Push(m.lookup, x.mine[i]); err != nil {
			return Outcome{}, err
		}
	}
	if err := m.store.Slots().Commit(x.all); err != nil {
		return Outcome{}, err
	}
	t.rec.Enter(trace.Sync)
	sum := tree(x.grads)
	w.write(sum[len(sum)-len(m.arena.Tail()):])
	if err := x.reduce(sum); err != nil {
		return Outcome{}, err
	}
	out := t.outcome()
	return out, t.update(n, rate, t.weight())
}

// tree sums vectors, a power of two of them, along the balanced binary tree, into the
// first.
func tree(of [][]float32) []float32 {
	for half := 1; half < len(of); half *= 2 {
		for i := 0; i < len(of); i += 2 * half {
			f32.AddTo(of[i], of[i+half])
		}
	}
	return of[0]
}

// reduce sums the ranks' vectors along the rest of the tree into the arena: each rank
// one chunk of all, which then travel to everybody.
func (x *Slots) reduce(sum []float32) error {
	grads, comm := x.t.model.arena.Grads(), x.t.comm
	if err := collective.AllToAllV(comm, sum, x.counts, x.arrived, x.own); err != nil {
		return err
	}
	n := x.own[0]
	parts := make([][]float32, comm.Size())
	for r := range parts {
		parts[r] = x.arrived[r*n : (r+1)*n]
	}
	lo, hi := collective.Chunk(len(grads), comm.Size(), comm.Rank())
	copy(grads[lo:hi], tree(parts))
	return collective.AllGatherV(comm, grads, x.counts)
}
