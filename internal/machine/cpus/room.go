package cpus

import (
	"fmt"

	"github.com/wdlrun/wdlrun/internal/text/plural"
)

// Room is the CPU time that this process and its children may use. The zero value is unlimited.
type Room struct {
	Allowed []int   `json:"cpus_allowed,omitempty"` // CPUs on which they may run; nil: unknown
	Online  int     `json:"cpus_online,omitempty"`  // CPUs of this machine; 0: unknown
	Quota   float64 `json:"cpu_quota,omitempty"`    // CPU time per second that control groups allow, in CPUs; 0: unlimited
}

// Notes returns one line for each limit that makes a number of ranks share CPUs which this machine
// has for each of them.
func (r Room) Notes(ranks int) (lines []string) {
	allowed := len(r.Allowed)
	if allowed > 0 && allowed < min(ranks, r.Online) {
		lines = append(lines, fmt.Sprintf("%s share %s, %s of %d: taskset, a cpuset, Slurm or a launcher has bound them (mpirun: --bind-to none); allow more CPUs, or start fewer ranks",
			plural.Of(ranks, "rank"), plural.Of(allowed, "CPU"), List(r.Allowed), r.Online))
	}
	if most := float64(ranks); r.Quota > 0 && r.Quota < most && (r.Online == 0 || r.Quota < float64(r.Online)) && (allowed == 0 || r.Quota < float64(allowed)) {
		lines = append(lines, fmt.Sprintf("a quota of the control group allows %.3g CPUs to %s: raise it (cpu.max, docker --cpus, resources.limits.cpu), or start fewer ranks; ranks pause when it is used up", r.Quota, plural.Of(ranks, "rank")))
	}
	return lines
}
