package mem

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/wdlrun/wdlrun/collective"
)

// mistakes are calls of one rank, of which no two fit together.
func mistakes() []func(c *collective.Comm) error {
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
		func(c *collective.Comm) error { return nil }, // leaves the call out
	}
}

// TestEveryMistakeOfThreeRanks makes every assignment of calls to three ranks,
// after which all go on alike: if the calls differ, every rank gets a mismatch. A
// rank that waited for ever would be a deadlock of the bubble, which panics.
func TestEveryMistakeOfThreeRanks(t *testing.T) {
	all := mistakes()
	n := len(all)
	synctest.Test(t, func(t *testing.T) {
		for k := range n * n * n {
			pick := [3]int{k % n, k / n % n, k / n / n}
			if pick[0] == pick[1] && pick[1] == pick[2] {
				continue
			}
			errs := [3]error{}
			var wg sync.WaitGroup
			for r, tr := range New(3, 1) {
				wg.Go(func() {
					c := collective.New(tr)
					errs[r] = all[pick[r]](c)
					for errs[r] == nil {
						errs[r] = collective.AllReduce(c, make([]float32, 5), collective.Min)
					}
				})
			}
			wg.Wait()
			for r, err := range errs {
				if m := (*collective.MismatchError)(nil); !errors.As(err, &m) || m.Own.Tag.SameCall(m.Peer.Tag) {
					t.Errorf("calls %v: rank %d: %v", pick, r, err)
				}
			}
		}
	})
}

// TestPartsOutOfOrder lets a rank call in a part of the ranks before the whole,
// and another one after it: nothing but the circle shows that.
func TestPartsOutOfOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var wg sync.WaitGroup
		for r, tr := range New(3, 1) {
			wg.Go(func() {
				c := collective.New(tr)
				part, err := c.Split(0, 0)
				if err != nil {
					t.Error(err)
					return
				}
				first, second := part, c
				if r == 1 {
					first, second = c, part
				}
				err = collective.Barrier(first)
				if err == nil {
					err = collective.Barrier(second)
				}
				if m := (*collective.MismatchError)(nil); !errors.As(err, &m) {
					t.Errorf("rank %d: %v", r, err)
				}
			})
		}
		wg.Wait()
	})
}
