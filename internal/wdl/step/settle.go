package step

import (
	"slices"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/f32"
	"github.com/wdlrun/wdlrun/internal/wdl/slots"
	"github.com/wdlrun/wdlrun/trace"
)

// home is the rank that has a microbatch's samples, and in whose place its
// gradients are summed.
func (x *Tolerant) home(item int64) int { return int(item % int64(x.size)) }

// settle takes the step that was decided: gradients of the slots that count are
// summed. The order of the sums depends on the microbatches alone, not on who computed
// them: rows by slot, dense ones in the place of the microbatch's home.
func (x *Tolerant) settle(c *Coming) error {
	t, store, r := x.t, x.t.model.store, *x.decided
	t.rec.Enter(trace.Push)
	counted := make([]int, len(r.Pieces))
	for i, p := range r.Pieces {
		counted[i] = p.Slot
	}
	for _, w := range x.pulls {
		err := error(nil)
		if w.given && counts(r, w.Lease) {
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

// gather brings dense gradients home and sums those of each home in slot order,
// in the arena.
func (x *Tolerant) gather(r slots.Record) error {
	grads, p := x.t.model.arena.Grads(), &x.parcels
	p.reset()
	away := false
	for _, piece := range r.Pieces {
		home, by := x.home(piece.Batch.First), x.by(piece)
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
		if err := x.carry(r, len(grads)); err != nil {
			return err
		}
	}
	clear(grads)
	first := true
	for _, piece := range r.Pieces {
		if x.home(piece.Batch.First) != x.rank {
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

// carry exchanges the gradients that were computed away from home.
func (x *Tolerant) carry(r slots.Record, width int) error {
	p := &x.parcels
	p.floats = p.floats[:0]
	for to := range x.size {
		for _, piece := range r.Pieces {
			if x.home(piece.Batch.First) == to && to != x.rank && x.by(piece) == x.rank {
				p.floats = append(p.floats, x.own(piece).grads...)
			}
		}
	}
	total := 0
	for _, n := range p.recvCounts {
		total += n
	}
	p.arrived = slices.Grow(p.arrived[:0], total)[:total]
	return collective.AllToAllV(x.t.comm, p.floats, p.sendCounts, p.arrived, p.recvCounts)
}

// gradients are those of a piece whose home is this rank.
func (x *Tolerant) gradients(r slots.Record, piece slots.Piece, width int) []float32 {
	by := x.by(piece)
	if by == x.rank {
		return x.own(piece).grads
	}
	at := 0
	for _, n := range x.parcels.recvCounts[:by] {
		at += n
	}
	for _, other := range r.Pieces { // those of one rank come in slot order
		if other.Slot < piece.Slot && x.home(other.Batch.First) == x.rank && x.by(other) == by {
			at += width
		}
	}
	return x.parcels.arrived[at : at+width]
}

// by is the rank that computed a piece.
func (x *Tolerant) by(p slots.Piece) int {
	for _, l := range x.dealt {
		if l.Slot == p.Slot && l.Attempt == p.Attempt {
			return l.Rank
		}
	}
	return -1
}

// own is this rank's work on a piece.
func (x *Tolerant) own(p slots.Piece) *work {
	for _, w := range x.pulls {
		if w.given && w.Slot == p.Slot && w.Attempt == p.Attempt {
			return w
		}
	}
	return nil
}

// clear makes room for the next step. What a late worker still reads stays.
func (x *Tolerant) clear(r slots.Record) {
	for _, w := range x.pulls {
		if w != x.current {
			x.spare = append(x.spare, w)
		}
	}
	x.pulls, x.dealt = x.pulls[:0], x.dealt[:0]
	for _, p := range r.Pieces {
		if x.home(p.Batch.First) == x.rank {
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
