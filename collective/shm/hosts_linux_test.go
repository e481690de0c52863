package shm

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
)

// onHosts runs body on ranks that share memory inside the hosts of a plan and exchange messages
// between the hosts.
func onHosts(t *testing.T, hostOf []int, body func(c *collective.Comm, local collective.Transport) error) []error {
	t.Helper()
	flat := mem.New(len(hostOf), 2)
	local := make([]collective.Transport, len(hostOf))
	for h := 0; ; h++ {
		var ranks []int
		for r, where := range hostOf {
			if where == h {
				ranks = append(ranks, r)
			}
		}
		if ranks == nil {
			break
		}
		for i, tr := range newGroup(t, len(ranks)) {
			local[ranks[i]] = tr
		}
	}
	errs := make([]error, len(hostOf))
	var wg sync.WaitGroup
	for r := range hostOf {
		wg.Go(func() { errs[r] = body(collective.NewHosts(flat[r], local[r], hostOf), local[r]) })
	}
	wg.Wait()
	for _, tr := range local {
		tr.Close()
	}
	return errs
}

// TestWindowsInsideHosts reduces in windows inside the hosts and in rails between them. The
// result has the bits of a reduction by messages on the same hosts.
func TestWindowsInsideHosts(t *testing.T) {
	for _, hostOf := range [][]int{{0, 0, 1, 1}, {0, 1, 0, 1, 0}, {0, 0, 0, 1}} {
		for _, n := range []int{1, 700, 100_003} {
			fill := func(x []float32, rank int) {
				for i := range x {
					x[i] = 1 / float32(i*7+rank+1)
				}
			}
			results := make([][]float32, 2*len(hostOf))
			for way, a := range []collective.Algorithm{collective.Rails, collective.Direct} {
				for r, err := range onHosts(t, hostOf, func(c *collective.Comm, _ collective.Transport) error {
					k := c.Costs()
					k.Take = a
					c.SetCosts(k)
					x, err := collective.Alloc[float32](c, n)
					if err != nil {
						return err
					}
					if count(hostOf, hostOf[c.Rank()]) > 1 && !collective.InWindow(c, x) {
						return fmt.Errorf("memory of Alloc is not in a window")
					}
					fill(x, c.Rank())
					err = collective.AllReduce(c, x, collective.Sum)
					results[way*len(hostOf)+c.Rank()] = slices.Clone(x)
					return err
				}) {
					if err != nil {
						t.Fatalf("plan %v: rank %d: %v", hostOf, r, err)
					}
				}
			}
			for i, x := range results {
				if !slices.Equal(x, results[0]) {
					t.Errorf("plan %v, %d elements: result %d differs", hostOf, n, i)
				}
			}
		}
	}
}

func count(x []int, want int) (n int) {
	for _, v := range x {
		if v == want {
			n++
		}
	}
	return n
}

// TestLossInsideAHost: a rank leaves the transport of its host. All ranks of all hosts must
// blame it.
func TestLossInsideAHost(t *testing.T) {
	for r, err := range onHosts(t, []int{0, 1, 0, 1, 0, 1}, func(c *collective.Comm, local collective.Transport) error {
		k := c.Costs()
		k.Take = collective.Rails
		c.SetCosts(k)
		for i := 0; ; i++ {
			if err := collective.AllReduce(c, make([]float32, 3000), collective.Sum); err != nil {
				return err
			}
			if c.Rank() == 3 && i == 5 {
				return local.Close()
			}
		}
	}) {
		var lost *collective.LostError
		if r != 3 && (!errors.As(err, &lost) || lost.Rank != 3) {
			t.Errorf("rank %d: %v, want the loss of rank 3", r, err)
		}
	}
}
