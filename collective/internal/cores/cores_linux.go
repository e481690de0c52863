package cores

import (
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// moveTime is between two moves of a thread to another core: a move takes some ten
// microseconds, and the scheduler may have its reasons to undo it.
const moveTime = 5 * time.Millisecond

// Count returns on how many cores any of the processes may run, or this one. What is
// not to be seen of one, as across containers, is taken to be as this one's.
func Count(pids []int) int {
	var all unix.CPUSet
	for _, pid := range append(pids, 0) { // 0 is this one
		var its unix.CPUSet
		if unix.SchedGetaffinity(pid, &its) != nil {
			continue
		}
		for i := range all {
			all[i] |= its[i]
		}
	}
	return max(all.Count(), 1)
}

// Own returns the number of the core that this thread runs on, from 1; 0 if it is not
// to be known.
func Own() uint32 {
	var cpu uint32
	if _, _, errno := syscall.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), 0, 0); errno != 0 {
		return 0
	}
	return cpu + 1
}

// Mover moves a thread away from a core now and then.
type Mover struct {
	Last time.Time // it did
}

// Leave moves this thread from its core to another one that it may run on, unless it
// has done so a moment ago. The scheduler was seen to leave two ranks that yield to
// each other on one core where other programs had the other one, even of the lowest
// priority.
func (m *Mover) Leave(own uint32) {
	if time.Since(m.Last) < moveTime || own == 0 {
		return
	}
	m.Last = time.Now()
	runtime.LockOSThread() // from here on it is one thread
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
