package copies

import (
	"fmt"
	"slices"
)

// Held is the state that a rank still has in memory of a training whose group was lost.
type Held struct {
	Whole bool  // it has its shards and the rest of the state; false: it has nothing
	Step  int64 // last step taken
	Epoch int64 // epochs completed
	Ready int64 // last step whose data are complete on this rank; 0: none
	Ward  int   // rank whose shards it has a copy of, if Whole; see Ring
}

// Recovery describes how a group continues.
type Recovery struct {
	Leader int    // rank whose state all take; -1: none, restore a checkpoint or start again
	Begins bool   // without a Leader: no rank has state, so the training starts
	Behind []int  // ranks that are ready for the leader's step and take it now
	Empty  []bool // ranks without state, which receive it from others (see Heal)
}

// Recover decides how a new group continues, given the state of all its ranks. If any
// remaining rank has taken a step, all take it; otherwise the step is computed again. All
// can take it because of the barrier before each update, which no rank passes until the
// step is ready on all ranks.
func Recover(held []Held) (r Recovery, err error) {
	r = Recovery{Leader: -1, Empty: make([]bool, len(held))}
	var owners []int
	for i, h := range held {
		if r.Empty[i] = !h.Whole; !h.Whole {
			continue
		}
		owners = append(owners, i)
		if r.Leader < 0 || h.after(held[r.Leader]) {
			r.Leader = i
		}
	}
	if r.Leader < 0 || !covered(held) {
		r.Begins = r.Leader < 0
		r.Leader = -1
		return r, nil
	}
	step := held[r.Leader].Step
	for _, i := range owners {
		switch h := held[i]; {
		case h.Step == step:
		case h.Step+1 == step && h.Ready == step:
			r.Behind = append(r.Behind, i)
		default:
			return r, fmt.Errorf("copies: recover: rank %d has taken step %d and is ready for %d, rank %d has taken step %d: it passed no barrier", i, h.Step, h.Ready, r.Leader, step)
		}
	}
	return r, nil
}

// covered reports whether the shards of every rank are held by that rank or its buddy.
func covered(held []Held) bool {
	with := make([]bool, len(held))
	for i, h := range held {
		if h.Whole {
			with[i] = true
			if h.Ward >= 0 && h.Ward < len(held) {
				with[h.Ward] = true
			}
		}
	}
	return !slices.Contains(with, false)
}

// after reports whether h is later in the training than x.
func (h Held) after(x Held) bool {
	return h.Step > x.Step || h.Step == x.Step && h.Epoch > x.Epoch
}
