package launcher

import (
	"io"
	"time"

	"github.com/wdlrun/wdlrun/internal/control"
	"github.com/wdlrun/wdlrun/rank"
)

// NewProgress returns the host of a coordinator that runs in rank 0 of a job that
// mpirun or srun has started. It shows rank 0's progress on stderr as Run does.
func NewProgress(stderr io.Writer) control.Host {
	return progress{&relay{stepped: make(chan struct{}), display: newDisplay(&console{stderr: stderr}, time.Now())}}
}

type progress struct{ *relay }

// Ended implements [control.Host].
func (p progress) Ended(*rank.Verdict) { p.display.end() }
