package step

import (
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/f32"
	"github.com/wdlrun/wdlrun/trace"
)

// ordered is the mode whose bits do not depend on how many ranks take the steps. A global
// batch is S microbatches, one a slot, whichever rank computes them; rank r of P has the
// slots S·r/P to S·(r+1)/P. Gradients of rows are summed in the order of slots
// (sparse.Slots.Commit), dense ones along the balanced binary tree over the slots, of
// which each rank's are a subtree:
//
//	((g0 + g1) + (g2 + g3)) + ((g4 + g5) + (g6 + g7))      S = 8; P = 4: a pair a rank
//
// so that S and P must be powers of two. A step costs S/P exchanges of rows, one after
// the other, and as many bytes of dense gradients as an allreduce.
type ordered struct {
	*waiting
	mine    []int       // slots of this rank
	grads   [][]float32 // by own slot: dense gradients and the tail
	all     []int       // every slot
	counts  []int       // by rank: of a chunk of the dense gradients
	own     []int       // by rank: of this rank's chunk
	arrived []float32   // this rank's chunk of all ranks
}

// InSlots has the trainer's steps have so many slots, a power of two that is no less than
// the ranks, whose number is one too. It returns the slots of this rank.
func (t *Trainer) InSlots(slots int) (mine []int) {
	rank, size, width := t.comm.Rank(), t.comm.Size(), len(t.model.arena.Grads())
	x := &ordered{counts: make([]int, size), own: make([]int, size)}
	for s := range slots {
		x.all = append(x.all, s)
		if s*size/slots == rank {
			x.mine, x.grads = append(x.mine, s), append(x.grads, make([]float32, width))
		}
	}
	x.waiting = newWaiting(t, len(x.mine), t.model.lookup)
	lo, hi := collective.Chunk(width, size, rank)
	for r := range size {
		from, to := collective.Chunk(width, size, r)
		x.counts[r], x.own[r] = to-from, hi-lo
	}
	x.arrived = make([]float32, size*(hi-lo))
	t.mode, t.model.sums.open = x, false
	return x.mine
}

func (x *ordered) push(w *work) error {
	m := x.t.model
	copy(x.grads[w.own], m.arena.Grads())
	x.t.rec.Enter(trace.Push)
	return m.store.Slots().Push(w.lookup, x.mine[w.own])
}

func (x *ordered) settle(*Coming) error {
	if err := x.t.model.store.Slots().Commit(x.all); err != nil {
		return err
	}
	x.t.rec.Enter(trace.Sync)
	return x.reduce(tree(x.grads))
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
func (x *ordered) reduce(sum []float32) error {
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
