package mesh

import (
	"bufio"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// unmapProgram unmaps the pages of this program's file that are in memory. Those that are used
// again are mapped again. The start of a program touches pages in all of its packages, most of
// which an agent does not need.
//
// Mappings that are writable, or have pages of their own, such as relocated ones, are kept.
func unmapProgram() {
	f, err := regular.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer f.Close()
	var from, to uintptr
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var lo, hi uintptr
		var perm, offset, device string
		var inode int
		if n, _ := fmt.Sscanf(lines.Text(), "%x-%x %s %s %s %d", &lo, &hi, &perm, &offset, &device, &inode); n == 6 {
			from, to = lo, hi
			if perm[1] == 'w' || inode == 0 {
				to = from
			}
		}
		if own, ok := strings.CutPrefix(lines.Text(), "Anonymous:"); ok && from < to && strings.TrimSpace(own) == "0 kB" {
			unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED) // a hint
		}
	}
}
