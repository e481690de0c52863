package cores

import (
	"math"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/wdlrun/wdlrun/internal/machine/cgroup"
)

// moveTime is the least time between two moves of a thread to another core. A move takes
// some ten microseconds, and the scheduler may have reasons to undo it.
const moveTime = 5 * time.Millisecond

// Count returns the number of cores on which the given processes or this one may run. A
// process that cannot be inspected, for example in another container, is assumed to have
// the cores of this one. A quota of CPU time of this process's control group counts as that
// many cores, rounded up.
func Count(pids []int) int {
	var all unix.CPUSet
	for _, pid := range append(pids, 0) { // 0 is this process
		var its unix.CPUSet
		if unix.SchedGetaffinity(pid, &its) != nil {
			continue
		}
		for i := range all {
			all[i] |= its[i]
		}
	}
	n := all.Count()
	if quota := cgroup.CPUs(); quota > 0 {
		n = min(n, int(math.Ceil(quota)))
	}
	return max(n, 1)
}

// Own returns the number of the core that this thread runs on, from 1, or 0 if it is
// unknown.
func Own() uint32 {
	var cpu uint32
	if _, _, errno := syscall.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), 0, 0); errno != 0 {
		return 0
	}
	return cpu + 1
}

// Mover moves a thread to another core from time to time.
type Mover struct {
	Last time.Time // time of the last move
}

// Leave moves this thread to another core that it may use, unless it has moved recently.
// The scheduler may leave two ranks that yield to each other on one core while the other
// core runs programs, even of the lowest priority.
func (m *Mover) Leave(own uint32) {
	if time.Since(m.Last) < moveTime || own == 0 {
		return
	}
	m.Last = time.Now()
	runtime.LockOSThread() // the goroutine stays on this thread
	defer runtime.UnlockOSThread()
	var may, others unix.CPUSet
	if unix.SchedGetaffinity(0, &may) != nil {
		return
	}
	others = may
	if others.Clear(int(own - 1)); others.Count() == 0 {
		return
	}
	if unix.SchedSetaffinity(0, &others) == nil {
		unix.SchedSetaffinity(0, &may)
	}
}
