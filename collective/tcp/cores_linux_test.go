package tcp

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wdlrun/wdlrun/collective/internal/cores"
)

// TestRanksOfOneCoreMoveApart: if a rank waits for a rank on the same core, the higher rank
// moves to another core. A rank spins only on a core that it does not share.
func TestRanksOfOneCoreMoveApart(t *testing.T) {
	const tries = 20
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var may unix.CPUSet
	if unix.SchedGetaffinity(0, &may) != nil || may.Count() < 2 {
		t.Skip("this process may run on one core only")
	}
	for name, k := range map[string]struct {
		own, peer, length int
		crowded, far      bool
		least, most       int // moves
	}{
		"the greater number":  {own: 1, least: tries / 2, most: tries},
		"the lesser number":   {peer: 1, most: tries / 4},
		"more ranks or cores": {own: 1, crowded: true, most: tries / 4},
		"another host":        {own: 1, far: true, most: tries / 4},
		"a large message":     {own: 1, length: apartBytes + 1, most: tries / 4},
	} {
		moved := 0
		for range tries {
			tr, in := &Transport{rank: k.own}, &link{peer: &peer{rank: k.peer, near: !k.far}}
			tr.roomy.Store(!k.crowded)
			was := cores.Own()
			in.expect(k.length, nil, false)
			in.theirs = was
			if spins := tr.apart([]lane{{in: in}}); spins != 0 && cores.Own() == was {
				t.Errorf("%s: the rank spins on the core of the rank that it waits for", name)
			}
			if cores.Own() != was {
				moved++
			}
		}
		if moved < k.least || moved > k.most {
			t.Errorf("%s: rank %d, which waits for rank %d, moved %d times of %d", name, k.own, k.peer, moved, tries)
		}
	}
	tr, in := &Transport{}, &link{peer: &peer{rank: 1, near: true}}
	tr.roomy.Store(true)
	in.theirs = 1 << 20
	if tr.apart([]lane{{in: in}}) == 0 {
		t.Error("a rank with its own core yields at once")
	}
}

// TestRanksHaveRoomWhenAllHaveReported: ranks that are threads of one process, or outnumber
// their cores, do not spin. Their number is known when all ranks of this host have sent their
// process ids.
func TestRanksHaveRoomWhenAllHaveReported(t *testing.T) {
	if cores.Count(nil) < 2 {
		t.Skip("this process may run on one core only")
	}
	for _, k := range []struct {
		near int
		pids []int
		want bool
	}{
		{1, []int{1}, true},
		{1, nil, false},
		{1, []int{os.Getpid()}, false},
		{1 << 12, make([]int, 1<<12), false},
	} {
		tr := &Transport{near: k.near}
		for _, pid := range k.pids {
			tr.recordPeer(pid)
		}
		if got := tr.roomy.Load(); got != k.want {
			t.Errorf("%d peers on this host, %d of which have reported: room %v, want %v", k.near, len(k.pids), got, k.want)
		}
	}
}
