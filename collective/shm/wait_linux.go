package shm

import (
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/internal/cores"
)

const (
	// spins is how often a waiting rank polls before it yields: a few microseconds, many
	// times the duration of a meeting of ranks with a core each.
	spins = 4000
	// yields is how often it polls, yielding in between, before it sleeps.
	yields = 300
	// crowdedYields replaces yields if ranks outnumber cores. Each yield is then a switch of
	// processes. Sleeping still earlier saves nothing: a rank sleeps up to once per peer.
	crowdedYields = 30
	// turnTime is longer than a rank of this group keeps a core before it waits itself. If
	// a yield takes longer, another program has the core. The scheduler then prefers a
	// thread that wakes from a sleep to one that polls.
	turnTime = 500 * time.Microsecond
	// Every goschedEvery-th yield is to goroutines of this process instead of other
	// processes, so that its other work continues. It costs several times more, because the
	// runtime wakes a thread to look for work.
	goschedEvery = 64
	// sleepTime bounds one sleep, in case a wake-up is missed.
	sleepTime = 20 * time.Millisecond

	futexWait = 0
	futexWake = 1
)

// sleep waits until word differs from value, a wake-up, or sleepTime. It enters the
// scheduler, so that other goroutines can use the core.
func sleep(word *atomic.Uint32, value uint32) {
	ts := unix.NsecToTimespec(int64(sleepTime))
	syscall.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWait, uintptr(value), uintptr(unsafe.Pointer(&ts)), 0, 0)
}

// wakeAll wakes all threads that sleep on word, in any process.
func wakeAll(word *atomic.Uint32) {
	syscall.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWake, 1<<30, 0, 0, 0)
}

// yield lets another thread run. Every goschedEvery-th time, and always if ranks are
// goroutines of this process, it lets another goroutine run.
func (t *Transport) yield(i int) {
	if t.together || i%goschedEvery == goschedEvery-1 {
		runtime.Gosched()
		return
	}
	syscall.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
}

// adapt reduces spins if this rank waits on the same core as theirs, and increases it
// otherwise: ranks may share a core even if there are enough. A long yield is no reason to
// reduce it: the peer may answer a thousand times sooner than the program that has the core
// finishes.
func (s *slot) adapt(t *Transport, p *peer, theirs *desk) {
	if t.crowded {
		return
	}
	own := cores.Own()
	s.mine.core.Store(own)
	if theirs.core.Load() == own {
		if s.spins = max(s.spins/2, 1); s.spins == 1 && t.rank > p.rank {
			s.mover.Leave(own)
		}
	} else {
		s.spins = min(2*s.spins, spins)
	}
}

// low returns the half of word on which a futex sleeps.
func low(word *atomic.Uint64) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(word)) }

// await waits until peer p has stored serial or a later number in word.
func (t *Transport) await(s *slot, p *peer, theirs *desk, word *atomic.Uint64, serial uint64) error {
	for range s.spins {
		if word.Load() >= serial {
			return nil
		}
	}
	for i := range t.yields {
		if i == 0 {
			s.adapt(t, p, theirs)
		}
		begin := time.Now()
		t.yield(i)
		if word.Load() >= serial {
			return nil
		}
		if t.over.Load() || i == 0 && p.hasLeft() || !t.crowded && time.Since(begin) > turnTime {
			break
		}
	}
	for {
		left := p.hasLeft()
		seen := word.Load()
		if seen >= serial {
			return nil
		}
		if err := t.standing(); err != nil {
			return err
		}
		if left {
			return t.end(&collective.LostError{Rank: p.rank, By: t.rank, Cause: collective.ErrLeft})
		}
		s.sleeping.Store(low(word))
		theirs.sleepers.Add(1)
		if word.Load() == seen && !t.over.Load() && !p.hasLeft() {
			sleep(low(word), uint32(seen))
		}
		theirs.sleepers.Add(^uint32(0))
		s.sleeping.Store(nil)
	}
}

// wake ends every wait of this process, so that it checks the state of the group. Waking
// other processes as well is harmless.
func (t *Transport) wake() {
	for i := range t.slots {
		if word := t.slots[i].sleeping.Load(); word != nil {
			wakeAll(word)
		}
	}
}

// waitIdle waits until no call touches shared memory.
func (t *Transport) waitIdle() {
	for i := range t.slots {
		for k := 0; t.slots[i].in.Load(); k++ {
			if k < yields {
				runtime.Gosched()
			} else {
				t.wake()
				time.Sleep(500 * time.Microsecond)
			}
		}
	}
}
