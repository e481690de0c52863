package copies

import (
	"fmt"
	"slices"
)

// Held is what a rank has in memory of a training whose group was lost.
type Held struct {
	Whole bool  // its shares and the rest of the state; else it comes back empty
	Step  int64 // the last that it has taken
	Epoch int64 // epochs that it has closed
	Ready int64 // a step of which it has all that it needs, 0 for none
	Ward  int   // whose copy it has, with that of Whole; see Ring
}

// Recovery is how a group continues from what its ranks hold.
type Recovery struct {
	Leader int    // the rank whose state is that of all, -1 for none: restore a checkpoint or begin
	Begins bool   // without a Leader: no rank holds anything
	Behind []int  // ranks that take the leader's step now; it is ready on them
	Empty  []bool // ranks that are filled from others (see Heal)
}

// Recover decides, from what all ranks of a new group hold, how they continue. A step
// that a rank which is left has taken is taken by all; one that none has is taken
// again. That this can be done follows from the barrier before a step is taken: it
// lets no rank pass until the step is ready on all ranks.
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

// covered reports whether the shares of every rank are with it or its buddy.
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

// after reports whether h is further in the training than x.
func (h Held) after(x Held) bool {
	return h.Step > x.Step || h.Step == x.Step && h.Epoch > x.Epoch
}
