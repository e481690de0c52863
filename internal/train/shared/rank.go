// Package shared has what all parts of a job on one rank share and what never changes while it runs.
package shared

import (
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/trace"
)

// Rank is a rank of a job: its group, its timeline, and where its lines go.
type Rank struct {
	Comm *collective.Comm // nil where one process checks a job before it begins
	Rec  *trace.Recorder

	PrintWarning, PrintProgress func(line string) // called on rank 0; nil: nothing is printed
}

// Warn prints a warning of one line on rank 0.
func (r *Rank) Warn(line string) {
	if r.prints() && r.PrintWarning != nil {
		r.PrintWarning(line)
	}
}

// Say prints a line of progress on rank 0.
func (r *Rank) Say(line string) {
	if r.prints() && r.PrintProgress != nil {
		r.PrintProgress(line)
	}
}

func (r *Rank) prints() bool { return r.Comm == nil || r.Comm.Rank() == 0 }
