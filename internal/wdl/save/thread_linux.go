package save

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// threadTime is the thread of the caller and how long it has had a core. Neither call
// can wait, so the scheduler knows of none: where it is, and the thread loses its core
// just then, others take the goroutine's place.
func threadTime() (thread int, had time.Duration) {
	var t unix.Timespec
	if _, _, err := unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_THREAD_CPUTIME_ID, uintptr(unsafe.Pointer(&t)), 0); err != 0 {
		return noThread, 0
	}
	id, _ := unix.RawSyscallNoError(unix.SYS_GETTID, 0, 0, 0)
	return int(id), time.Duration(t.Nano())
}
