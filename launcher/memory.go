package launcher

import (
	"fmt"
	"math"
	"syscall"

	"github.com/wdlrun/wdlrun/internal/cgroup"
)

// memory watches for processes that the kernel kills for memory. Ranks are in the control
// group of the process that started them.
type memory struct {
	kills int64 // processes of the control group that the kernel has killed
}

func newMemory() memory { return memory{cgroup.Read().Kills} }

// why explains the end of a process that the kernel killed for memory, "" for any other.
func (m *memory) why(signal int) string {
	if signal != int(syscall.SIGKILL) {
		return ""
	}
	now := cgroup.Read()
	if now.Kills <= m.kills {
		return ""
	}
	m.kills = now.Kills
	if now.Limit == math.MaxInt64 {
		return "the kernel killed it because the machine was out of memory"
	}
	return fmt.Sprintf("the kernel killed it because its control group had used up its %d MiB of memory", now.Limit>>20)
}
