package trace

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wdlrun/wdlrun/internal/regular"
)

// clockName names the clock behind time.Since: two processes with the same name read the
// same clock. The name is the boot of the kernel and the time namespace.
func clockName() string {
	boot, err := regular.ReadFile("/proc/sys/kernel/random/boot_id", 64)
	if err != nil {
		return ""
	}
	space, _ := os.Readlink("/proc/self/ns/time") // "" on kernels that have no such namespaces
	return strings.TrimSpace(string(boot)) + " " + space
}

// monotonic reads that clock.
func monotonic() (ns int64) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0
	}
	return t.Nano()
}
