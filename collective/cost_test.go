package collective_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/colltest"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/internal/testkit/golden"
)

// TestChoices compares the algorithms chosen with the default costs, and the modelled times,
// with known values.
func TestChoices(t *testing.T) {
	shapes := []collective.Shape{
		{Size: 2}, {Size: 3}, {Size: 4}, {Size: 8}, {Size: 32}, {Size: 1024},
		{Size: 8, Hosts: 2, Most: 4, Least: 4, Windows: true},
		{Size: 32, Hosts: 4, Most: 8, Least: 8, Windows: true},
		{Size: 9, Hosts: 3, Most: 5, Least: 1, Windows: true},
		{Size: 8, Windows: true},
	}
	calls := []struct {
		call collective.Call
		op   collective.Op
		typ  collective.Type
	}{
		{collective.CallBarrier, collective.Sum, collective.Uint8},
		{collective.CallAllReduce, collective.Sum, collective.Float32},
		{collective.CallAllReduce, collective.Max, collective.Float32},
		{collective.CallAllReduce, collective.ExactSum, collective.Float32},
		{collective.CallReduceScatter, collective.Sum, collective.Float32},
		{collective.CallAllGather, collective.Sum, collective.Float32},
		{collective.CallBroadcast, collective.Sum, collective.Float32},
		{collective.CallAllToAll, collective.Sum, collective.Float32},
		{collective.CallAllToAllV, collective.Sum, collective.Float32},
	}
	var text strings.Builder
	fmt.Fprintln(&text, "# algorithm and modelled µs of calls on 0, 1 KiB, 64 KiB, 1 MiB and 64 MiB; ranks/hosts (most and least on a host)")
	for _, k := range calls {
		for _, s := range shapes {
			where := fmt.Sprint(s.Size)
			if s.Hosts > 0 {
				where += fmt.Sprintf("/%d (%d %d)", s.Hosts, s.Most, s.Least)
			} else if s.Windows {
				where += " windows"
			}
			fmt.Fprintf(&text, "%-14s %-9s %-12s", k.call, k.op, where)
			for _, bytes := range []int{0, 1 << 10, 64 << 10, 1 << 20, 64 << 20} {
				a, seconds := collective.DefaultCosts().Choose(s, k.call, k.op, k.typ, bytes)
				fmt.Fprintf(&text, " %8v %9.1f", a, seconds*1e6)
				if k.call == collective.CallBarrier {
					break
				}
			}
			fmt.Fprintln(&text)
		}
	}
	golden.Check(t, "choices.txt", text.String())
}

// TestMeasuredCostsAreTheSameOnAllRanks measures costs in groups with and without hosts. All
// ranks must get the same costs.
func TestMeasuredCostsAreTheSameOnAllRanks(t *testing.T) {
	for _, hostOf := range plans() {
		var mu sync.Mutex
		found := map[collective.Costs]bool{}
		for r, err := range onPlan(t, hostOf, true, func(c *collective.Comm) error {
			k, err := collective.Measure(c)
			mu.Lock()
			defer mu.Unlock()
			found[k] = true
			return err
		}) {
			if err != nil {
				t.Errorf("plan %v: rank %d: %v", hostOf, r, err)
			}
		}
		for k := range found {
			if len(found) != 1 || !(k.Links.Alpha > 0 && k.Links.Beta > 0 && k.Local.Gamma > 0) {
				t.Errorf("plan %v: %v", hostOf, found)
			}
		}
	}
}

// TestForwardedLengthsAreCompared: in a subset, a rank sends another rank more than that rank
// expects, and the part is forwarded by a third rank. The error names both lengths.
func TestForwardedLengthsAreCompared(t *testing.T) {
	errs := make([]error, 6)
	var wg sync.WaitGroup
	for r, tr := range mem.New(len(errs), 1) {
		wg.Go(func() {
			c := collective.New(tr)
			part, err := c.Split(r%2, -r) // ranks 5, 3, 1 become 0, 1, 2
			if err != nil {
				errs[r] = err
				return
			}
			k := part.Costs()
			k.Take = collective.Bruck
			part.SetCosts(k)
			send := []int{2, 2, 2}
			if r == 3 {
				send[2] = 3 // more than rank 1 expects
			}
			if errs[r] = collective.AllToAllV(part, make([]uint16, send[0]+send[1]+send[2]), send, make([]uint16, 6), []int{2, 2, 2}); errs[r] == nil {
				errs[r] = collective.Barrier(c)
			}
		})
	}
	wg.Wait()
	for r, err := range errs {
		m := (*collective.MismatchError)(nil)
		if !errors.As(err, &m) || m.Peer.Rank != 3 || m.Peer.Bytes != 6 || m.Own.Rank != 1 || m.Own.Bytes != 4 {
			t.Errorf("rank %d: %v, want 6 bytes sent by rank 3 and 4 expected by rank 1", r, err)
		}
	}
}

// TestOtherCostsAreAMismatch: ranks with different costs choose different algorithms, which is
// reported as a mismatch.
func TestOtherCostsAreAMismatch(t *testing.T) {
	for a := collective.Ring; a <= collective.Doubling; a++ {
		for b := collective.Ring; b < a; b++ {
			errs := make([]error, 3)
			var comms []*collective.Comm
			for _, tr := range mem.New(3, 1) {
				comms = append(comms, collective.New(tr))
			}
			stop := colltest.Compare(comms, 1)
			var wg sync.WaitGroup
			for r, c := range comms {
				wg.Go(func() {
					k := c.Costs()
					if k.Take = a; r == 1 {
						k.Take = b
					}
					c.SetCosts(k)
					errs[r] = collective.AllReduce(c, make([]int32, 50), collective.Sum)
				})
			}
			wg.Wait()
			stop()
			for r, err := range errs {
				if err == nil || !strings.Contains(err.Error(), "calls differ") {
					t.Errorf("%v and %v: rank %d: %v", a, b, r, err)
				}
			}
		}
	}
}

// TestPostsMakeStraightCheaper: if small messages can be posted at once, parts are sent directly
// to their ranks. This takes more messages than forwarding.
func TestPostsMakeStraightCheaper(t *testing.T) {
	turns := collective.Costs{Links: collective.Level{Alpha: 20e-6, Beta: .5e-9, Gamma: .1e-9}}
	posts := turns
	posts.Links.Post = 2e-6
	for _, x := range []struct {
		call            collective.Call
		bytes           int
		inTurns, posted collective.Algorithm
	}{
		{collective.CallAllReduce, 16 << 10, collective.Bruck, collective.Direct},
		{collective.CallAllToAll, 1 << 10, collective.Bruck, collective.Pairwise},
		{collective.CallAllReduce, 8, collective.Bruck, collective.Bruck},
		{collective.CallAllReduce, 16 << 20, collective.Ring, collective.Ring},
	} {
		s := collective.Shape{Size: 8}
		a, slow := turns.Choose(s, x.call, collective.Sum, collective.Float32, x.bytes)
		b, fast := posts.Choose(s, x.call, collective.Sum, collective.Float32, x.bytes)
		if a != x.inTurns || b != x.posted || fast > slow {
			t.Errorf("%v of %d bytes: %v (%.1f µs) in turns and %v (%.1f µs) posted, want %v and %v", x.call, x.bytes, a, slow*1e6, b, fast*1e6, x.inTurns, x.posted)
		}
	}
	two := collective.Shape{Size: 2}
	if a, b := turns.Predict(two, collective.Pairwise, collective.CallAllToAll, collective.Sum, collective.Float32, 64), posts.Predict(two, collective.Pairwise, collective.CallAllToAll, collective.Sum, collective.Float32, 64); a != b {
		t.Errorf("two ranks with one message each: %v and %v, want the same", a, b)
	}
}
