// Package colltest is the conformance suite of collective transports. The test of a transport is
// one line:
//
// The function creates a group of size ranks in this process with at least two channels and
// returns the transports by rank. The suite closes them. It compares all results bit for bit
// with a serial reference that every rank computes from a seed. A rank that hangs fails the
// test, with the stacks of all goroutines. During a test, the calls of the ranks are compared as
// a coordinator does (see Compare).
package colltest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/collective"
)

// Make creates the transports of a group, in the order of ranks.
type Make func(t *testing.T, size int) []collective.Transport

// hangTime is the time limit of a group in one test, far above the time on a loaded
// machine.
const hangTime = 2 * time.Minute

// Run tests the transports that newGroup creates, in groups of the given sizes. Without sizes it
// uses every size at which the behaviour changes. With -short, groups have at most five ranks.
func Run(t *testing.T, newGroup Make, sizes ...int) {
	for _, size := range []int{1, 2, 3, 4, 5, 8} {
		if len(sizes) > 0 && !slices.Contains(sizes, size) || testing.Short() && size > 5 {
			continue
		}
		t.Run(fmt.Sprintf("P=%d", size), func(t *testing.T) { ofSize(t, newGroup, size) })
	}
}

// ofSize runs all tests with groups of one size.
func ofSize(t *testing.T, newGroup Make, size int) {
	for _, k := range []struct {
		name  string
		test  func(t *testing.T, newGroup Make, size int)
		sizes []int // nil means all sizes
	}{
		{"World", world, nil},
		{"Results", results, nil},
		{"Large", large, nil},
		{"Windows", windows, nil},
		{"Random", random, nil},
		{"Channels", channels, nil},
		{"Pairs", pairs, []int{1, 2, 5}},
		{"Split", split, nil},
		{"Barrier", barrier, nil},
		{"Limit", limit, nil},
		{"Abort", abort, nil},
		{"Mistakes", mistakes, []int{3}},
		{"Thousand", thousand, []int{4}},
		{"Algorithms", algorithms, []int{2, 5}},
		{"Mismatch", mismatches, []int{2, 3, 5}},
		{"Close", closes, []int{2, 3, 5}},
	} {
		if k.sizes == nil || slices.Contains(k.sizes, size) {
			t.Run(k.name, func(t *testing.T) { k.test(t, newGroup, size) })
		}
	}
}

// onRanks runs body on every rank of a new group, closes the group after all have returned, and
// returns the errors by rank.
func onRanks(t *testing.T, newGroup Make, size int, body func(c *collective.Comm, tr collective.Transport) error) []error {
	t.Helper()
	ts := newGroup(t, size)
	errs, comms := make([]error, size), make([]*collective.Comm, size)
	for i, tr := range ts {
		comms[i] = collective.New(tr)
	}
	_, _, channels := ts[0].World()
	defer Compare(comms, channels)()
	var wg sync.WaitGroup
	for i, tr := range ts {
		wg.Go(func() {
			if errs[i] = body(comms[i], tr); errs[i] != nil {
				tr.Abort(errs[i]) // otherwise the others wait for a rank that has returned
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(hangTime):
		stacks := make([]byte, 1<<20)
		t.Fatalf("some ranks do not return:\n%s", stacks[:runtime.Stack(stacks, true)])
	}
	for i, tr := range ts {
		if err := errors.Join(tr.Close(), tr.Close()); err != nil {
			t.Errorf("rank %d: second Close: %v", i, err)
		}
	}
	return errs
}

// allWell fails the test for each rank that returned an error.
func allWell(t *testing.T, errs []error) {
	t.Helper()
	for i, err := range errs {
		if err != nil {
			t.Errorf("rank %d: %v", i, err)
		}
	}
}

func world(t *testing.T, newGroup Make, size int) {
	ts := newGroup(t, size)
	for i, tr := range ts {
		if rank, n, channels := tr.World(); rank != i || n != size || channels < 2 {
			t.Errorf("World of rank %d = %d, %d, %d", i, rank, n, channels)
		}
	}
	for _, tr := range ts {
		tr.Close()
	}
}

// results checks every call with every type at the sizes where bounds change.
func results(t *testing.T, newGroup Make, size int) {
	allWell(t, onRanks(t, newGroup, size, func(c *collective.Comm, _ collective.Transport) error {
		for _, n := range []int{0, 1, size - 1, size, 2*size + 1, 1003} {
			for _, k := range checks() {
				if err := k(c, rand.New(rand.NewPCG(uint64(n), 1)), n); err != nil {
					return err
				}
			}
		}
		return nil
	}))
}

// large checks messages that fill every buffer in transit, in both directions concurrently.
func large(t *testing.T, newGroup Make, size int) {
	allWell(t, onRanks(t, newGroup, size, func(c *collective.Comm, _ collective.Transport) error {
		rng := rand.New(rand.NewPCG(2, 2))
		n := 1<<19/size + 5 // every rank computes the data of all ranks, so the work grows with size
		return errors.Join(
			checkAllReduce[float32](c, rng, n, collective.Sum),
			checkAllToAllV[float64](c, rng, n),
			checkBroadcast[uint8](c, rng, 4*n),
		)
	}))
}

// random makes mixed calls of random sizes. Ranks pause at random.
func random(t *testing.T, newGroup Make, size int) {
	allWell(t, onRanks(t, newGroup, size, func(c *collective.Comm, _ collective.Transport) error {
		return program(c, 3, 120)
	}))
}

// thousand makes a thousand mixed calls with random pauses. The results have the bits of the
// reference and therefore of package mem.
func thousand(t *testing.T, newGroup Make, size int) {
	allWell(t, onRanks(t, newGroup, size, func(c *collective.Comm, _ collective.Transport) error {
		return program(c, 11, 1000)
	}))
}

// algorithms runs every call with each algorithm that supports it, instead of the one that the
// cost model chooses. The results must have the same bits.
func algorithms(t *testing.T, newGroup Make, size int) {
	for a := collective.Ring; a <= collective.Rails; a++ {
		t.Run(a.String(), func(t *testing.T) {
			allWell(t, onRanks(t, newGroup, size, func(c *collective.Comm, _ collective.Transport) error {
				k := c.Costs()
				k.Take = a
				c.SetCosts(k)
				if err := program(c, 12, 60); err != nil {
					return err
				}
				n := 1<<16 + 5
				return checkAllReduce[float32](c, rand.New(rand.NewPCG(13, 13)), n, collective.Sum)
			}))
		})
	}
}

// program makes n random calls that are determined by seed.
func program(c *collective.Comm, seed uint64, n int) error {
	rng := rand.New(rand.NewPCG(seed, 4))
	dawdle := rand.New(rand.NewPCG(seed, uint64(c.Rank())))
	all := checks()
	for range n {
		if dawdle.IntN(8) == 0 {
			time.Sleep(time.Duration(dawdle.IntN(300)) * time.Microsecond)
		}
		if err := all[rng.IntN(len(all))](c, rng, rng.IntN(200)*rng.IntN(20)); err != nil {
			return err
		}
	}
	return nil
}

// channels runs a different program on every channel concurrently.
func channels(t *testing.T, newGroup Make, size int) {
	allWell(t, onRanks(t, newGroup, size, func(c *collective.Comm, tr collective.Transport) error {
		_, _, n := tr.World()
		errs := make([]error, n)
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() { errs[i] = program(c.Channel(i), uint64(100+i), 60) })
		}
		wg.Wait()
		return errors.Join(errs...)
	}))
}

// split runs different programs on even and odd ranks, in opposite order, and on subsets of both
// groups. Rank 0 is in no subset.
func split(t *testing.T, newGroup Make, size int) {
	allWell(t, onRanks(t, newGroup, size, func(c *collective.Comm, _ collective.Transport) error {
		color := c.Rank() % 2
		if c.Rank() == 0 {
			color = -1
		}
		part, err := c.Split(color, -c.Rank())
		if err != nil || (part == nil) != (color < 0) {
			return fmt.Errorf("Split of rank %d: %v, %v", c.Rank(), part, err)
		}
		if part != nil {
			wantSize, wantRank := (size-1+color)/2, (size-1-c.Rank())/2 // rank 0 is not in the subset of even ranks
			if part.Size() != wantSize || part.Rank() != wantRank {
				return fmt.Errorf("rank %d of %d is rank %d of %d in the subset, want %d of %d", c.Rank(), size, part.Rank(), part.Size(), wantRank, wantSize)
			}
			if err := program(part, uint64(color), 20+10*color); err != nil {
				return err
			}
			pair, err := part.Split(part.Rank()/2, 0)
			if err != nil {
				return err
			}
			if err := program(pair, uint64(10*color+part.Rank()/2), 10); err != nil {
				return err
			}
		}
		return program(c, 9, 20)
	}))
}

// barrier checks that no rank returns before the last one has entered.
func barrier(t *testing.T, newGroup Make, size int) {
	var came atomic.Int64
	allWell(t, onRanks(t, newGroup, size, func(c *collective.Comm, _ collective.Transport) error {
		for k := range 20 {
			if (k+c.Rank())%4 == 0 {
				time.Sleep(200 * time.Microsecond)
			}
			came.Add(1)
			if err := collective.Barrier(c); err != nil {
				return err
			}
			if n := came.Load(); n < int64((k+1)*size) {
				return fmt.Errorf("passed barrier %d after %d of %d calls", k, n, (k+1)*size)
			}
		}
		return nil
	}))
}
