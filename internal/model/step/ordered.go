package step

import (
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/kernel/f32"
	"github.com/wdlrun/wdlrun/trace"
)

// ordered is the mode whose bits do not depend on the number of ranks. A global batch
// consists of S microbatches, one per slot. Rank r of P has the slots S·r/P to S·(r+1)/P.
// Gradients of rows are summed in slot order (sparse.Slots.Commit). Dense gradients are
// summed along the balanced binary tree over the slots, in which each rank's slots form a
// subtree:
//
//	((g0 + g1) + (g2 + g3)) + ((g4 + g5) + (g6 + g7))      S = 8; P = 4: a pair per rank
//
// S and P must therefore be powers of two. A step costs S/P exchanges of rows in sequence,
// and as many bytes of dense gradients as an allreduce.
type ordered struct {
	*waiting
	mine    []int       // slots of this rank
	grads   [][]float32 // by slot of this rank: dense gradients and the tail
	all     []int       // every slot
	counts  []int       // by rank: length of its chunk of the dense gradients
	own     []int       // by rank: length of this rank's chunk
	arrived []float32   // this rank's chunk, from every rank
}

// InSlots divides every step into the given number of slots, a power of two not smaller
// than the number of ranks, which must also be a power of two. It returns the slots of this
// rank.
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
	x.t.rec.Count(w.gradients, 0)
	return m.store.Slots().Push(w.lookup, x.mine[w.own])
}

func (x *ordered) sumGradients(*Input) error {
	if err := x.t.model.store.Slots().Commit(x.all); err != nil {
		return err
	}
	x.t.rec.Enter(trace.Sync)
	if len(x.own) > 1 {
		x.t.rec.Count(4*int64(len(x.grads[0])), 0)
	}
	return x.reduce(tree(x.grads))
}

// tree sums vectors, whose number is a power of two, along the balanced binary tree into
// the first.
func tree(of [][]float32) []float32 {
	for half := 1; half < len(of); half *= 2 {
		for i := 0; i < len(of); i += 2 * half {
			f32.AddTo(of[i], of[i+half])
		}
	}
	return of[0]
}

// reduce sums the ranks' vectors along the rest of the tree into the arena. Each rank sums
// one chunk and sends it to all others.
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
