package shm

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wdlrun/wdlrun/collective/internal/cores"
)

// TestRanksOfOneCoreMoveApart: if a rank waits for a rank on the same core, the higher rank
// moves to another core. It may still run on all its cores.
func TestRanksOfOneCoreMoveApart(t *testing.T) {
	const tries = 20
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var may, after unix.CPUSet
	if unix.SchedGetaffinity(0, &may) != nil || may.Count() < 2 {
		t.Skip("this process may run on one core only")
	}
	for _, k := range []struct{ own, peer, least, most int }{{1, 0, tries / 2, tries}, {0, 1, 0, tries / 4}} {
		moved := 0
		for range tries {
			tr, s, theirs := &Transport{rank: k.own}, &slot{mine: new(desk), spins: spins}, new(desk)
			for s.spins > 1 { // successive waits on the same core
				theirs.core.Store(cores.Own())
				s.adapt(tr, &peer{rank: k.peer}, theirs)
			}
			was := cores.Own()
			theirs.core.Store(was)
			s.mover.Last = time.Time{}
			if s.adapt(tr, &peer{rank: k.peer}, theirs); cores.Own() != was {
				moved++
			}
		}
		if moved < k.least || moved > k.most {
			t.Errorf("rank %d, which waits for rank %d, moved %d times of %d", k.own, k.peer, moved, tries)
		}
	}
	if unix.SchedGetaffinity(0, &after) != nil || after != may {
		t.Errorf("the thread may now run on %v, before on %v", after, may)
	}
}
