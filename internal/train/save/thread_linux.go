package save

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// threadTime returns the calling thread and the CPU time that it has used. Both are raw
// system calls, which cannot block, so the scheduler does not move the goroutine if the
// thread loses its core meanwhile.
func threadTime() (thread int, had time.Duration) {
	var t unix.Timespec
	if _, _, err := unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_THREAD_CPUTIME_ID, uintptr(unsafe.Pointer(&t)), 0); err != 0 {
		return noThread, 0
	}
	id, _ := unix.RawSyscallNoError(unix.SYS_GETTID, 0, 0, 0)
	return int(id), time.Duration(t.Nano())
}
