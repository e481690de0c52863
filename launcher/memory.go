package launcher

import (
	"fmt"
	"math"
	"syscall"

	"github.com/wdlrun/wdlrun/internal/machine/cgroup"
	"github.com/wdlrun/wdlrun/internal/text/plural"
)

// memory detects processes that the kernel killed because memory ran out. Ranks are in the
// control group of the process that started them.
type memory struct {
	seen cgroup.Memory // state before the ranks started, or at the last kill
}

func newMemory() memory { return memory{cgroup.Read()} }

// enough returns an error if there is not enough memory for the given number of ranks.
func (m *memory) enough(ranks int, each int64) error {
	need := int64(ranks) * each
	if m.seen.Available >= need {
		return nil
	}
	limit := ""
	if m.seen.Limit != math.MaxInt64 {
		limit = fmt.Sprintf(" of the %d MiB of its control group", m.seen.Limit>>20)
	}
	return fmt.Errorf("%d MiB of memory are needed for %s of %d MiB, and %d MiB%s are available there: place fewer ranks on it, or lower -mem",
		need>>20, plural.Of(ranks, "rank"), each>>20, m.seen.Available>>20, limit)
}

// why returns an explanation if the kernel killed a process for memory, otherwise "".
func (m *memory) why(signal int) string {
	if signal != int(syscall.SIGKILL) {
		return ""
	}
	now := cgroup.Read()
	if now.Kills <= m.seen.Kills {
		return ""
	}
	m.seen = now
	if now.Limit == math.MaxInt64 {
		return "the kernel killed it because the machine was out of memory"
	}
	return fmt.Sprintf("the kernel killed it because its control group had used up its %d MiB of memory", now.Limit>>20)
}
