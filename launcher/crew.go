package launcher

import (
	"github.com/wdlrun/wdlrun/rank"
)

// crew is the set of processes of a job's ranks, on any host.
type crew interface {
	start(o order) (pid int, err error)
	signal(s sign, rank int) // to one rank, or everyone
	ended() <-chan exit      // one exit for each process
	close()                  // called when all processes have ended
}

// exit describes how the process of a rank ended.
type exit struct {
	rank, code, signal int
	why                string // reason, if known

	lost *loss // the process was lost with its host
}

// order describes how to start a rank.
type order struct {
	placed  Placed
	command []string
	dir     string
	world   rank.World // place of the rank in the job
	base    []string   // rest of its environment; nil: the launcher's
	out     [2]*lines
	input   *input // nil: none
}

// sign is a request to processes.
type sign string

// loss is a lost host and its ranks whose processes had not ended.
type loss struct {
	host  string
	ranks []int
}
