//go:build unix

package step

import (
	"syscall"
	"time"
)

// processTime is how long the process has had a core, all its threads together; 0
// if that is not known.
func processTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
