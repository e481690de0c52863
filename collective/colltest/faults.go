package colltest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/collective"
)

// untilError repeats a call until it fails.
func untilError(c *collective.Comm, call func(*collective.Comm) error) error {
	for {
		if err := call(c); err != nil {
			return err
		}
	}
}

func allReduce(c *collective.Comm) error {
	x := make([]float32, 1000)
	err := collective.AllReduce(c, x, collective.Max)
	for i := range x { // after the call the caller may write to x; the race detector checks this
		x[i] = 1
	}
	return err
}

// again checks that later calls of a group that has ended return the same cause.
func again(c *collective.Comm, err error) error {
	for _, later := range []error{collective.Barrier(c), collective.AllReduce(c, []int32{1}, collective.Sum), c.Err()} {
		if later == nil {
			return fmt.Errorf("after %q a call succeeded", err)
		}
		rank, ok := collective.Blamed(err)
		if r, k := collective.Blamed(later); r != rank || k != ok {
			return fmt.Errorf("after %q a call returns %q", err, later)
		}
	}
	return err
}

// limit checks that a byte string above the limit is an error on all ranks and that the group
// remains usable.
func limit(t *testing.T, newGroup Make, size int) {
	allWell(t, onRanks(t, newGroup, size, func(c *collective.Comm, _ collective.Transport) error {
		b := make([]byte, 10)
		if c.Rank() == size-1 {
			b = make([]byte, 11)
		}
		_, err1 := collective.AllGatherBytes(c, b, 10)
		_, err2 := collective.GatherBytes(c, b, 0, 10)
		_, err3 := collective.BroadcastBytes(c, b, size-1, 10)
		for _, err := range []error{err1, err2, err3} {
			var over *collective.LimitError
			if !errors.As(err, &over) || over.Rank != size-1 || over.Bytes != 11 || over.Limit != 10 {
				return fmt.Errorf("11 bytes with limit 10: %v", err)
			}
		}
		if err := c.Err(); err != nil {
			return fmt.Errorf("exceeding a limit has ended the group: %w", err)
		}
		return checkAllGatherBytes(c, rand.New(rand.NewPCG(5, 5)), 100)
	}))
}

// abort checks that Abort of one rank ends the pending calls of all.
func abort(t *testing.T, newGroup Make, size int) {
	blamed := size / 2
	errs := onRanks(t, newGroup, size, func(c *collective.Comm, _ collective.Transport) error {
		if c.Rank() != blamed {
			return again(c, untilError(c, allReduce))
		}
		if err := collective.AllReduce(c, make([]float32, 1000), collective.Max); err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
		c.Abort(errors.New("the moon is full"))
		return again(c, collective.Barrier(c))
	})
	for i, err := range errs {
		var abort *collective.AbortError
		if !errors.As(err, &abort) || abort.By != blamed || !strings.Contains(abort.Cause.Error(), "the moon is full") {
			t.Errorf("rank %d: %v, want the abort of rank %d", i, err, blamed)
		}
	}
}

// mismatches lets one rank make a call that differs from the others.
func mismatches(t *testing.T, newGroup Make, size int) {
	even := func(n int) []int { // n elements for every rank
		counts := make([]int, size)
		for i := range counts {
			counts[i] = n
		}
		return counts
	}
	for _, k := range []struct {
		name      string
		odd, rest func(c *collective.Comm) error
	}{
		{"Length",
			func(c *collective.Comm) error { return collective.AllReduce(c, make([]float32, 11), collective.Sum) },
			func(c *collective.Comm) error { return collective.AllReduce(c, make([]float32, 10), collective.Sum) }},
		{"Call",
			func(c *collective.Comm) error { return collective.Barrier(c) },
			func(c *collective.Comm) error { return collective.AllReduce(c, []float32{}, collective.Sum) }},
		{"Type",
			func(c *collective.Comm) error { return collective.AllReduce(c, make([]int32, 20), collective.Sum) },
			func(c *collective.Comm) error { return collective.AllReduce(c, make([]float32, 20), collective.Sum) }},
		{"Op",
			func(c *collective.Comm) error { return collective.AllReduce(c, make([]float32, 20), collective.Max) },
			func(c *collective.Comm) error { return collective.AllReduce(c, make([]float32, 20), collective.Sum) }},
		{"Root",
			func(c *collective.Comm) error { return collective.Broadcast(c, make([]float32, 20), 1) },
			func(c *collective.Comm) error { return collective.Broadcast(c, make([]float32, 20), 0) }},
		{"Limit",
			func(c *collective.Comm) error { _, err := collective.AllGatherBytes(c, nil, 1); return err },
			func(c *collective.Comm) error { _, err := collective.AllGatherBytes(c, nil, 2); return err }},
		{"Counts",
			func(c *collective.Comm) error {
				return collective.AllToAllV(c, make([]uint8, 3*size), even(3), make([]uint8, 2*size), even(2))
			},
			func(c *collective.Comm) error {
				return collective.AllToAllV(c, make([]uint8, 2*size), even(2), make([]uint8, 2*size), even(2))
			}},
		{"Alloc",
			func(c *collective.Comm) error { _, err := collective.Alloc[float32](c, 10); return err },
			func(c *collective.Comm) error { return collective.Barrier(c) }},
		{"Order",
			func(c *collective.Comm) error { return collective.Barrier(c) },
			func(c *collective.Comm) error { return nil }},
	} {
		alongside(t, k.name, func(t *testing.T) { mismatch(t, newGroup, size, k.odd, k.rest) })
	}
	alongside(t, "Cycle", func(t *testing.T) { cycle(t, newGroup, size) })
	alongside(t, "PartsOutOfOrder", func(t *testing.T) { partsOutOfOrder(t, newGroup, size) })
	alongside(t, "PartsInCycle", func(t *testing.T) { partsInCycle(t, newGroup, size) })
}

// mismatch runs odd on the last rank and rest on the others.
func mismatch(t *testing.T, newGroup Make, size int, odd, rest func(c *collective.Comm) error) {
	errs := onRanks(t, newGroup, size, func(c *collective.Comm, _ collective.Transport) error {
		if err := collective.Barrier(c); err != nil {
			return err
		}
		call := rest
		if c.Rank() == size-1 {
			call = odd
		}
		err := call(c)
		if err == nil { // no message of this rank differed, so its next call fails
			err = collective.AllReduce(c, make([]float32, 1000), collective.Max)
		}
		if err == nil {
			return errors.New("no rank found the difference")
		}
		return again(c, err)
	})
	for i, err := range errs {
		if !Disagree(err) {
			t.Errorf("rank %d: %v, want calls that differ", i, err)
		}
		if m := (*collective.MismatchError)(nil); !errors.As(err, &m) {
			continue
		} else if m.Peer.Rank == m.Own.Rank || m.Peer.Tag == m.Own.Tag && m.Peer.Bytes == m.Own.Bytes {
			t.Errorf("rank %d: %v: both sides are equal", i, err)
		}
	}
}

// cycle makes the ranks wait for each other in a cycle, in which no received message shows the
// difference.
func cycle(t *testing.T, newGroup Make, size int) {
	if size < 3 {
		t.Skip("needs three ranks that wait for each other in a cycle")
	}
	for i, err := range onRanks(t, newGroup, size, func(c *collective.Comm, _ collective.Transport) error {
		return collective.Broadcast(c, make([]float32, 3), (c.Rank()+1)%size)
	}) {
		if !Disagree(err) {
			t.Errorf("rank %d: %v, want calls that differ", i, err)
		}
	}
}

// closes lets each rank in turn close its transport while the others continue.
func closes(t *testing.T, newGroup Make, size int) {
	for leaver := range size {
		errs := onRanks(t, newGroup, size, func(c *collective.Comm, tr collective.Transport) error {
			for range leaver {
				if err := collective.AllReduce(c, make([]float32, 1000), collective.Max); err != nil {
					return err
				}
			}
			// All ranks make the same call, because different calls would be a disagreement as
			// well as a loss.
			call := allReduce
			if leaver%2 == 1 {
				call = collective.Barrier
			}
			if c.Rank() != leaver {
				return again(c, untilError(c, call))
			}
			if err := tr.Close(); err != nil {
				return err
			}
			tr.Abort(errors.New("a rank that has left cannot abort"))
			return call(c)
		})
		for i, err := range errs {
			var lost *collective.LostError
			switch {
			case i == leaver && !errors.Is(err, collective.ErrClosed):
				t.Errorf("rank %d, which has closed its transport: %v", i, err)
			case i != leaver && (!errors.As(err, &lost) || lost.Rank != leaver || !errors.Is(err, collective.ErrLeft)):
				t.Errorf("rank %d: %v, want the loss of rank %d", i, err, leaver)
			}
		}
	}
}
