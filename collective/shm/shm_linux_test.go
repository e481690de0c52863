package shm

import (
	"context"
	"sync"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/colltest"
	"github.com/wdlrun/wdlrun/rank"
)

// newGroup connects size ranks of this process.
func newGroup(t *testing.T, size int) []collective.Transport {
	t.Helper()
	key := rank.NewKey()
	ts, errs := make([]collective.Transport, size), make([]error, size)
	var wg sync.WaitGroup
	for i := range size {
		wg.Go(func() {
			l, err := Listen(Config{Rank: i, Size: size, Key: key[:]})
			if err != nil {
				errs[i] = err
				return
			}
			tr, err := l.Connect(context.Background())
			ts[i], errs[i] = tr, err
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	return ts
}

func TestConformance(t *testing.T) { colltest.Run(t, newGroup) }
