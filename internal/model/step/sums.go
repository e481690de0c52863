package step

import (
	"slices"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/kernel/f32"
	"github.com/wdlrun/wdlrun/internal/model/slots"
	"github.com/wdlrun/wdlrun/trace"
)

// sumGradients sums the gradients of the slots that count. The order of the sums depends only on
// the microbatches, not on the ranks that computed them: gradients of rows are summed by
// slot, dense ones by home rank.
func (x *Tolerant) sumGradients(c *Input) error {
	t, store, r := x.t, x.t.model.store, *x.decided
	t.rec.Enter(trace.Push)
	counted := make([]int, len(r.Pieces))
	for i, p := range r.Pieces {
		counted[i] = p.Slot
	}
	for _, w := range x.pulls {
		err := error(nil)
		if w.assigned && counts(r, w.Lease) {
			t.rec.Count(w.gradients, 0)
			err = store.Slots().Push(w.lookup, w.Slot)
		} else {
			err = store.Slots().PushNone(w.lookup)
		}
		if err != nil {
			return err
		}
	}
	if err := store.Slots().Commit(counted); err != nil {
		return err
	}
	if err := x.gather(r); err != nil {
		return err
	}
	c.Requests.write(t.model.arena.Tail())
	t.rec.Enter(trace.Sync)
	if err := t.model.sums.finish(t.rec); err != nil {
		return err
	}
	x.clear(r)
	x.decided, x.last, x.ended = nil, r, r.Queue.Left() == 0
	return nil
}

// counts reports whether a lease is in a commit set.
func counts(r slots.Record, l slots.Lease) bool {
	return slices.ContainsFunc(r.Pieces, func(p slots.Piece) bool { return p.Slot == l.Slot && p.Attempt == l.Attempt })
}

// gather sends dense gradients to the home ranks. Each sums the gradients of its microbatches in
// slot order, in the arena.
func (x *Tolerant) gather(r slots.Record) error {
	grads, p := x.t.model.arena.Grads(), &x.forwardBuffers
	p.reset()
	away := false
	for _, piece := range r.Pieces {
		home, by := x.readerOf(piece.Batch.First), x.rankOf(piece)
		if home == by {
			continue
		}
		away = true
		if by == x.rank {
			p.sendCounts[home] += len(grads)
		}
		if home == x.rank {
			p.recvCounts[by] += len(grads)
		}
	}
	if away {
		if err := x.exchangeMoved(r); err != nil {
			return err
		}
	}
	clear(grads)
	first := true
	for _, piece := range r.Pieces {
		if x.readerOf(piece.Batch.First) != x.rank {
			continue
		}
		from := x.gradients(r, piece, len(grads))
		if first {
			copy(grads, from)
			first = false
		} else {
			f32.AddTo(grads, from)
		}
	}
	return nil
}

// exchangeMoved exchanges the gradients of microbatches that were not computed by their home rank.
func (x *Tolerant) exchangeMoved(r slots.Record) error {
	p := &x.forwardBuffers
	p.sendFloats = p.sendFloats[:0]
	for to := range x.size {
		for _, piece := range r.Pieces {
			if x.readerOf(piece.Batch.First) == to && to != x.rank && x.rankOf(piece) == x.rank {
				p.sendFloats = append(p.sendFloats, x.workOn(piece).grads...)
			}
		}
	}
	total := 0
	for _, n := range p.recvCounts {
		total += n
	}
	p.recvFloats = slices.Grow(p.recvFloats[:0], total)[:total]
	return collective.AllToAllV(x.t.comm, p.sendFloats, p.sendCounts, p.recvFloats, p.recvCounts)
}

// gradients returns the dense gradients of a piece whose home is this rank.
func (x *Tolerant) gradients(r slots.Record, piece slots.Piece, width int) []float32 {
	by := x.rankOf(piece)
	if by == x.rank {
		return x.workOn(piece).grads
	}
	at := 0
	for _, n := range x.forwardBuffers.recvCounts[:by] {
		at += n
	}
	for _, other := range r.Pieces { // the pieces of one rank are in slot order
		if other.Slot < piece.Slot && x.readerOf(other.Batch.First) == x.rank && x.rankOf(other) == by {
			at += width
		}
	}
	return x.forwardBuffers.recvFloats[at : at+width]
}

// rankOf returns the rank that computed a piece; -1 if there is none.
func (x *Tolerant) rankOf(p slots.Piece) int {
	for _, l := range x.leased {
		if l.Slot == p.Slot && l.Attempt == p.Attempt {
			return l.Rank
		}
	}
	return -1
}

// workOn returns this rank's work on a piece; nil if there is none.
func (x *Tolerant) workOn(p slots.Piece) *work {
	for _, w := range x.pulls {
		if w.assigned && w.Slot == p.Slot && w.Attempt == p.Attempt {
			return w
		}
	}
	return nil
}

// clear prepares for the next step. It keeps a microbatch that a late worker still reads.
func (x *Tolerant) clear(r slots.Record) {
	for _, w := range x.pulls {
		if w != x.current {
			x.spare = append(x.spare, w)
		}
	}
	x.pulls, x.leased = x.pulls[:0], x.leased[:0]
	for _, p := range r.Pieces {
		if x.readerOf(p.Batch.First) == x.rank {
			x.undone = append(x.undone, p.Batch.First)
		}
	}
	left := x.undone[:0]
	for _, item := range x.undone {
		if x.current != nil && x.current.Batch.First == item {
			left = append(left, item)
		} else {
			x.source.Done(item / int64(x.size))
		}
	}
	x.undone = left
	x.clock.end()
}
