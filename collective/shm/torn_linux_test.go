//go:build !race

package shm

import (
	"sync/atomic"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
)

// TestNoTornTagIsRead, which the race detector would stop: a rank that looks at what a peer is doing, while the peer posts
// one meeting after the other, sees tags that were posted and no mixture of two.
func TestNoTornTagIsRead(t *testing.T) {
	var d desk
	var over atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for seq := uint64(2); !over.Load(); seq += 2 {
			d.posts[0].post(seq, collective.Tag{Call: collective.CallBarrier, Seq: seq, Count: 3 * seq}, collective.Note{})
		}
	}()
	torn, seen := 0, 0
	for range 5_000_000 {
		if tag, ok := d.doing(); ok {
			if seen++; tag.Count != 3*tag.Seq {
				torn++
			}
		}
	}
	over.Store(true)
	<-done
	if torn > 0 || seen == 0 {
		t.Fatalf("%d of %d tags are mixtures", torn, seen)
	}
}
