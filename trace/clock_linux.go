package trace

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// clockName returns the name of the clock behind time.Since: the boot id of the kernel and
// the time namespace. Two processes with the same name read the same clock.
func clockName() string {
	boot, err := regular.ReadFile("/proc/sys/kernel/random/boot_id", 64)
	if err != nil {
		return ""
	}
	space, _ := os.Readlink("/proc/self/ns/time") // "" on kernels without time namespaces
	return strings.TrimSpace(string(boot)) + " " + space
}

// monotonic returns the time of that clock.
func monotonic() (ns int64) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0
	}
	return t.Nano()
}
