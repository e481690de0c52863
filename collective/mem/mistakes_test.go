package mem

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/colltest"
)

// TestEveryMistakeOfThreeRanks makes every assignment of calls to three ranks, followed by equal
// calls. If the calls differ, every rank must return an error. A rank that waits for ever is a
// deadlock of the bubble, which panics.
func TestEveryMistakeOfThreeRanks(t *testing.T) {
	all := colltest.Mistakes()
	n := len(all)
	synctest.Test(t, func(t *testing.T) {
		for k := range n * n * n {
			pick := [3]int{k % n, k / n % n, k / n / n}
			if pick[0] == pick[1] && pick[1] == pick[2] {
				continue
			}
			errs := [3]error{}
			var comms []*collective.Comm
			for _, tr := range New(3, 1) {
				comms = append(comms, collective.New(tr))
			}
			stop := colltest.Compare(comms, 1)
			var wg sync.WaitGroup
			for r, c := range comms {
				wg.Go(func() {
					errs[r] = all[pick[r]](c)
					for errs[r] == nil {
						errs[r] = collective.AllReduce(c, make([]float32, 5), collective.Min)
					}
				})
			}
			wg.Wait()
			stop()
			for r, err := range errs {
				if !colltest.Disagree(err) {
					t.Errorf("calls %v: rank %d: %v", pick, r, err)
				}
			}
		}
	})
}
