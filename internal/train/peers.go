package train

import (
	"net"
	"time"

	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/rank"
)

// Peers are the hosts of a job, and how their ranks read each other's files.
type Peers struct {
	Hosts        []string                     // host of each rank, for messages and the placement of copies; nil: unknown
	Addresses    map[string]string            // address of the ranks of each host; nil if there is one host
	Key          rank.Key                     // of the job
	Listen       func() (net.Listener, error) // opens a port for the other hosts; nil: the hosts must share the run directory
	DiskPatience time.Duration                // how late a shared disk may show what another host has written
	Resent       report.Resenter              // packets of this rank to other hosts since the last call; nil: not counted
	Away         bool                         // ranks run on other hosts, for Check
}
