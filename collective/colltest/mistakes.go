package colltest

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
)

// Mistakes returns calls that are pairwise incompatible.
func Mistakes() []func(c *collective.Comm) error {
	return []func(c *collective.Comm) error{
		func(c *collective.Comm) error { return collective.Barrier(c) },
		func(c *collective.Comm) error { return collective.AllReduce(c, make([]float32, 3), collective.Sum) },
		func(c *collective.Comm) error { return collective.AllReduce(c, make([]float32, 3), collective.Max) },
		func(c *collective.Comm) error { return collective.AllReduce(c, make([]int64, 9000), collective.Sum) },
		func(c *collective.Comm) error { return collective.AllGather(c, make([]float32, 3)) },
		func(c *collective.Comm) error {
			return collective.AllToAll(c, make([]float32, 3), make([]float32, 3))
		},
		func(c *collective.Comm) error { return collective.Broadcast(c, make([]float32, 3), 0) },
		func(c *collective.Comm) error { return collective.Broadcast(c, make([]float32, 3), 2) },
		func(c *collective.Comm) error {
			return collective.Gather(c, make([]float32, 3), make([]float32, 9), 1)
		},
		func(c *collective.Comm) error { _, err := collective.Alloc[float32](c, 3); return err },
		func(c *collective.Comm) error { return nil }, // omits the call
	}
}

// mistakesTried is the number of tested assignments of calls to ranks. Package mem is fast
// enough to test all of them.
const mistakesTried = 24

// mistakes assigns different calls to three ranks, which then make equal calls. Every rank must
// return an error.
func mistakes(t *testing.T, newGroup Make, size int) {
	all, rng := Mistakes(), rand.New(rand.NewPCG(1, 2))
	for range mistakesTried {
		var pick [3]int // by rank
		for pick[0] == pick[1] && pick[1] == pick[2] {
			pick = [3]int{rng.IntN(len(all)), rng.IntN(len(all)), rng.IntN(len(all))}
		}
		alongside(t, fmt.Sprint(pick), func(t *testing.T) {
			wantMismatch(t, newGroup, size, func(c *collective.Comm) error {
				err := all[pick[c.Rank()]](c)
				for err == nil {
					err = collective.AllReduce(c, make([]float32, 5), collective.Min)
				}
				return err
			})
		})
	}
}

// alongside runs a test that mostly waits, in parallel with other tests.
func alongside(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		test(t)
	})
}

// partsOutOfOrder makes one rank call first in the whole group and then in a subset, and the
// others in the opposite order. Only the cycle of waiting ranks reveals the mistake.
func partsOutOfOrder(t *testing.T, newGroup Make, size int) {
	if size < 3 {
		t.Skip("with two ranks a message reveals the mistake")
	}
	wantMismatch(t, newGroup, size, func(c *collective.Comm) error {
		part, err := c.Split(0, 0)
		if err != nil {
			return err
		}
		first, second := part, c
		if c.Rank() == 1 {
			first, second = c, part
		}
		if err := collective.Barrier(first); err != nil {
			return err
		}
		return collective.Barrier(second)
	})
}

// partsInCycle forms a subset of each pair of three ranks. Each rank waits for a message of the
// next one in a call of another subset.
func partsInCycle(t *testing.T, newGroup Make, size int) {
	if size < 3 {
		t.Skip("with two ranks a message reveals the mistake")
	}
	wantMismatch(t, newGroup, size, func(c *collective.Comm) error {
		var mine *collective.Comm
		for first := range 3 { // subset k consists of ranks k and k+1
			color := -1
			if c.Rank() == first || c.Rank() == (first+1)%3 {
				color = 0
			}
			part, err := c.Split(color, (c.Rank()-first+3)%3)
			if err != nil {
				return err
			}
			if c.Rank() == first {
				mine = part
			}
		}
		if mine != nil {
			if err := collective.Broadcast(mine, make([]float32, 3), 1); err != nil {
				return err
			}
		}
		return collective.Barrier(c)
	})
}

// wantMismatch runs body on every rank of a new group. Every rank must return the error that
// calls differ.
func wantMismatch(t *testing.T, newGroup Make, size int, body func(c *collective.Comm) error) {
	t.Helper()
	for r, err := range onRanks(t, newGroup, size, func(c *collective.Comm, _ collective.Transport) error { return body(c) }) {
		if !Disagree(err) {
			t.Errorf("rank %d: %v, want calls that differ", r, err)
		}
	}
}
