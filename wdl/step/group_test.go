package step

import (
	"sync"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
)

// group makes a group of goroutines.
func group(size int) (all []*collective.Comm) {
	for _, transport := range mem.New(size, 2) {
		all = append(all, collective.New(transport))
	}
	return all
}

// onRanks runs f on every rank of a group of goroutines. The first error ends
// all.
func onRanks(t testing.TB, size int, f func(*collective.Comm) error) {
	t.Helper()
	var all sync.WaitGroup
	for _, comm := range group(size) {
		all.Go(func() {
			if err := f(comm); err != nil {
				t.Errorf("rank %d: %v", comm.Rank(), err)
				comm.Abort(err)
			}
		})
	}
	all.Wait()
}

func single() *collective.Comm { return group(1)[0] }
