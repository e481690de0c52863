package shm

import (
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// bound binds this goroutine's thread to one core as long as the test lasts, and
// returns it, with all that the thread could run on. The thread ends with the test.
func bound(t *testing.T) (core int, all unix.CPUSet) {
	t.Helper()
	runtime.LockOSThread() // for good: a thread that was bound serves nobody else
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	if all.Count() < 2 {
		t.Skip("this process may run on one core only")
	}
	for !all.IsSet(core) {
		core++
	}
	bind(t, core)
	return core, all
}

func bind(t testing.TB, core int) {
	t.Helper()
	var one unix.CPUSet
	one.Set(core)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		t.Fatal(err)
	}
}

// TestRanksBoundToCoresOfTheirOwn starts a process on one core and looks from
// another: together they have two, alone each has one.
func TestRanksBoundToCoresOfTheirOwn(t *testing.T) {
	first, all := bound(t)
	other := exec.Command("sleep", "60") // it inherits the bounds of this thread
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer other.Wait()
	defer other.Process.Kill()
	if n := countCores([]int{other.Process.Pid}); n != 1 {
		t.Errorf("two processes on core %d have %d cores", first, n)
	}
	second := first + 1
	for !all.IsSet(second) {
		second++
	}
	bind(t, second)
	if n := countCores(nil); n != 1 {
		t.Errorf("this thread, bound to core %d, has %d", second, n)
	}
	if n := countCores([]int{other.Process.Pid}); n != 2 {
		t.Errorf("processes on cores %d and %d have %d cores", first, second, n)
	}
	if n := countCores([]int{1 << 30}); n != 1 {
		t.Errorf("with a process that is not to be seen: %d cores", n)
	}
}

// TestRanksOfOneCoreMoveApart lets a rank wait on the core of the one that it waits
// for: the one of the greater number moves to another core, and stays free to return.
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
			for s.spins > 1 { // one wait after the other on the same core
				theirs.core.Store(core())
				s.adapt(tr, &peer{rank: k.peer}, theirs)
			}
			was := core()
			theirs.core.Store(was)
			s.moved = time.Time{}
			if s.adapt(tr, &peer{rank: k.peer}, theirs); core() != was {
				moved++
			}
		}
		if moved < k.least || moved > k.most {
			t.Errorf("rank %d, which waits for rank %d, moved %d times of %d", k.own, k.peer, moved, tries)
		}
	}
	if unix.SchedGetaffinity(0, &after) != nil || after != may {
		t.Errorf("it may run on %v now, before on %v", after, may)
	}
}
