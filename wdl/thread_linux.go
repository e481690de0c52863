package wdl

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime is the thread of the caller and how long it has had a core.
func threadTime() (thread int, had time.Duration) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return noThread, 0
	}
	return unix.Gettid(), time.Duration(t.Nano())
}
