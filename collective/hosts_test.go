package collective_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/internal/kernel/raw"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// plans returns placements of ranks: the host of each rank.
func plans() [][]int {
	return [][]int{
		nil, // unknown hosts
		{0},
		{0, 0, 0},
		{0, 1, 2},
		{0, 0, 1, 1},
		{0, 1, 0, 1, 0, 1},
		{0, 0, 0, 1},
		{1, 0, 0, 1, 2, 2, 2},
		{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2},
	}
}

// inOrder returns the sum of a group without hosts: each chunk in the order of the ring.
func inOrder[T collective.Number](all [][]T, join func(a, b T) T) []T {
	size, n := len(all), len(all[0])
	out := make([]T, n)
	for owner := range size {
		lo, hi := collective.Chunk(n, size, owner)
		for i := lo; i < hi; i++ {
			v := all[(owner+1)%size][i]
			for k := 2; k <= size; k++ {
				v = join(v, all[(owner+k)%size][i])
			}
			out[i] = v
		}
	}
	return out
}

// inHosts sums in the documented order of a plan: each host as a flat group, then each rail's
// chunk as a group of hosts.
func inHosts[T collective.Number](all [][]T, hostOf []int, join func(a, b T) T) []T {
	if hostOf == nil {
		return inOrder(all, join)
	}
	var hosts [][][]T
	for r, h := range hostOf {
		for h >= len(hosts) {
			hosts = append(hosts, nil)
		}
		hosts[h] = append(hosts[h], all[r])
	}
	rails := len(all)
	var sums [][]T
	for _, h := range hosts {
		rails = min(rails, len(h))
		sums = append(sums, inOrder(h, join))
	}
	var out []T
	for rail := range rails {
		lo, hi := collective.Chunk(len(all[0]), rails, rail)
		var parts [][]T
		for _, s := range sums {
			parts = append(parts, s[lo:hi])
		}
		out = append(out, inOrder(parts, join)...)
	}
	return out
}

// onPlan runs body on every rank of a plan, with package mem between and inside the hosts.
func onPlan(t *testing.T, hostOf []int, local bool, body func(c *collective.Comm) error) []error {
	t.Helper()
	size := max(len(hostOf), 1)
	if hostOf == nil {
		size = 5
	}
	flat, inside := mem.New(size, 2), make([]collective.Transport, size)
	members := map[int][]int{}
	for r, h := range hostOf {
		members[h] = append(members[h], r)
	}
	for _, ranks := range members {
		for i, tr := range mem.New(len(ranks), 2) {
			inside[ranks[i]] = tr
		}
	}
	errs := make([]error, size)
	var wg sync.WaitGroup
	for r := range size {
		wg.Go(func() {
			var c *collective.Comm
			switch {
			case hostOf == nil:
				c = collective.New(flat[r])
			case local:
				c = collective.NewHosts(flat[r], inside[r], hostOf)
			default:
				c = collective.NewHosts(flat[r], nil, hostOf)
			}
			if errs[r] = body(c); errs[r] != nil {
				c.Abort(errs[r]) // the others wait for this rank
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(patient.Longest):
		t.Fatalf("plan %v: some ranks do not return", hostOf)
	}
	return errs
}

func sameBits[T collective.Number](what string, got, want []T) error {
	if !bytes.Equal(raw.Bytes(got), raw.Bytes(want)) {
		return fmt.Errorf("%s of %d %T: %v, want %v", what, len(want), want, got[:min(9, len(got))], want[:min(9, len(want))])
	}
	return nil
}

// checkPlan makes every call that has a choice of algorithms. Every rank knows the data of all
// ranks.
func checkPlan(c *collective.Comm, hostOf []int, n int) error {
	rng := rand.New(rand.NewPCG(uint64(n), 7))
	all, ints := make([][]float32, c.Size()), make([][]int64, c.Size())
	for r := range all {
		all[r], ints[r] = make([]float32, n), make([]int64, n)
		for i := range n {
			all[r][i], ints[r][i] = float32(rng.NormFloat64()), rng.Int64()
		}
	}
	add := func(a, b float32) float32 { return a + b }
	want := inHosts(all, hostOf, add)
	x := append([]float32(nil), all[c.Rank()]...)
	if err := collective.AllReduce(c, x, collective.Sum); err != nil {
		return err
	}
	if err := sameBits("AllReduce", x, want); err != nil {
		return err
	}
	copy(x, all[c.Rank()])
	lo, hi, err := collective.ReduceScatter(c, x, collective.Sum)
	if err != nil {
		return err
	}
	if err := sameBits("ReduceScatter", x[lo:hi], want[lo:hi]); err != nil {
		return err
	}
	if err := collective.AllGather(c, x); err != nil {
		return err
	}
	if err := sameBits("AllGather", x, want); err != nil {
		return err
	}
	return checkRest(c, rng, all, ints)
}

// checkRest makes the calls without an order of summation, on memory of Alloc.
func checkRest(c *collective.Comm, rng *rand.Rand, all [][]float32, ints [][]int64) error {
	n := len(all[0])
	y, err := collective.Alloc[int64](c, n)
	if err != nil {
		return err
	}
	for _, op := range []collective.Op{collective.Sum, collective.Max, collective.ExactSum} {
		want := inOrder(ints, func(a, b int64) int64 {
			if op == collective.Max {
				return max(a, b)
			}
			return a + b
		})
		copy(y, ints[c.Rank()])
		if err := collective.AllReduce(c, y, op); err != nil {
			return err
		}
		if err := sameBits("AllReduce "+op.String(), y, want); err != nil {
			return err
		}
	}
	x := append([]float32(nil), all[c.Rank()]...)
	if err := collective.AllReduce(c, x, collective.ExactSum); err != nil {
		return err
	}
	if err := sameBits("ExactSum", x, exactly(all)); err != nil {
		return err
	}
	root := rng.IntN(c.Size())
	copy(y, ints[c.Rank()])
	if err := collective.Broadcast(c, y, root); err != nil {
		return err
	}
	if err := sameBits("Broadcast", y, ints[root]); err != nil {
		return err
	}
	return collective.Barrier(c)
}

// TestEveryAlgorithmGivesTheSameBits runs every algorithm for every call that it supports,
// on every plan, with and without a separate transport inside the hosts.
func TestEveryAlgorithmGivesTheSameBits(t *testing.T) {
	for _, hostOf := range plans() {
		for _, local := range []bool{false, true} {
			for a := collective.Windows; a <= collective.Rails; a++ {
				for r, err := range onPlan(t, hostOf, local, func(c *collective.Comm) error {
					k := c.Costs()
					k.Take = a
					c.SetCosts(k)
					for _, n := range []int{0, 1, c.Size() + 1, 131} {
						if err := checkPlan(c, hostOf, n); err != nil {
							return err
						}
					}
					return nil
				}) {
					if err != nil {
						t.Errorf("%v on plan %v, local %v: rank %d: %v", a, hostOf, local, r, err)
					}
				}
			}
		}
	}
}

// TestHostsEndOnce ends one transport of a plan. Every rank on every host blames the same rank,
// by its number in the whole group.
func TestHostsEndOnce(t *testing.T) {
	hostOf := []int{0, 1, 0, 1, 0, 1}
	untilError := func(c *collective.Comm) error {
		for {
			if err := collective.AllReduce(c, make([]float32, 99), collective.Sum); err != nil {
				return err
			}
		}
	}
	for r, err := range onPlan(t, hostOf, true, func(c *collective.Comm) error {
		k := c.Costs()
		k.Take = collective.Rails
		c.SetCosts(k)
		if c.Rank() == 3 {
			if err := collective.AllReduce(c, make([]float32, 99), collective.Sum); err != nil {
				return err
			}
			c.Abort(errors.New("the moon is full"))
		}
		return untilError(c)
	}) {
		if who, ok := collective.Blamed(err); !ok || who != 3 {
			t.Errorf("rank %d: %v, want an error that blames rank 3", r, err)
		}
	}
	for r, err := range onPlan(t, hostOf, true, func(c *collective.Comm) error {
		k := c.Costs()
		k.Take = collective.Rails
		c.SetCosts(k)
		if c.Rank() == 4 { // its call differs only inside its host
			return collective.AllReduce(c, make([]float32, 98), collective.Sum)
		}
		return untilError(c)
	}) {
		var m *collective.MismatchError
		if !errors.As(err, &m) || m.Own.Rank != 4 && m.Peer.Rank != 4 {
			t.Errorf("rank %d: %v, want a mismatch with rank 4", r, err)
		}
	}
}

// TestHostsSteadyStateAllocatesNothing: after the first calls, no call with any algorithm
// allocates memory in a group with hosts.
func TestHostsSteadyStateAllocatesNothing(t *testing.T) {
	const runs = 30
	var allocs float64
	for r, err := range onPlan(t, []int{0, 0, 1, 1}, true, func(c *collective.Comm) error {
		x := make([]float32, 1001)
		step := func() error {
			var all error
			for a := collective.Windows; a <= collective.Rails; a++ {
				k := c.Costs()
				k.Take = a
				c.SetCosts(k)
				all = errors.Join(all, collective.AllReduce(c, x, collective.Max), collective.AllReduce(c, x, collective.ExactSum),
					collective.AllGather(c, x), collective.Broadcast(c, x, 3), collective.Barrier(c))
			}
			return all
		}
		if c.Rank() > 0 {
			var err error
			for range runs + 1 {
				err = errors.Join(err, step())
			}
			return err
		}
		var err error
		allocs = testing.AllocsPerRun(runs, func() { err = errors.Join(err, step()) })
		return err
	}) {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
	if allocs >= 1 {
		t.Errorf("%v allocations in every call with every algorithm, want none", allocs)
	}
}
