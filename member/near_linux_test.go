package member

import (
	"context"
	"sync"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/rank"
)

// TestNoRankSharesMemoryAlone: one rank leaves after it has connected, as a rank does that
// cannot map the memory of the others. No other rank may then use shared memory.
func TestNoRankSharesMemoryAlone(t *testing.T) {
	const size = 3
	key := rank.NewKey()
	for leaves := range size + 1 { // in the last round no rank leaves
		all := make([]*near, size)
		for r := range all {
			m := &Member{World: rank.World{Rank: r, Size: size, LocalRank: r, LocalSize: size, Key: key}}
			all[r] = m.listenEarly()
			fatal.If(t, all[r].cause)
			defer all[r].close()
		}
		shares := make([]bool, size)
		var wg sync.WaitGroup
		for r, n := range all {
			wg.Go(func() {
				if r != leaves {
					shares[r] = new(Member).connectAlone(t.Context(), n)
					return
				}
				n.connect(context.Background())
				n.close()
			})
		}
		wg.Wait()
		for r, shared := range shares {
			if shared != (leaves == size) {
				t.Errorf("rank %d leaves: rank %d shares memory: %t", leaves, r, shared)
			}
		}
	}
}
