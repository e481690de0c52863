package launcher

import (
	"slices"
	"sync"

	"github.com/wdlrun/wdlrun/internal/control"
	"github.com/wdlrun/wdlrun/rank"
)

// relay is the host of the job's coordinator. It keeps rank 0's result and status, and
// forwards events to the display and to the job's own host.
type relay struct {
	display *display     // or nil
	next    control.Host // or nil

	mu       sync.Mutex
	formed   bool
	result   []byte
	status   rank.Status
	reported bool  // rank 0 has reported a status
	first    int64 // step of the first status
	leaving  []int // ranks whose hosts have asked them to end
	ending   bool  // the launcher ends the ranks: none leaves by itself

	stepped chan struct{} // closed when rank 0 has completed a step in this generation; nil: without a launcher
	steps   bool          // it is closed
	reports []Report
	free    int // bytes of reports that may still be stored
}

// Report is a message of a rank at the end of its group, such as its stacks.
type Report struct {
	Rank  int
	About string // "stacks", or the program's own name
	Body  []byte
}

// maxReports bounds the bytes of reports stored per generation: the stacks of some hundred ranks.
const maxReports = 64 << 20

// Formed implements [control.Host].
func (r *relay) Formed(members []rank.Member) {
	r.mu.Lock()
	r.formed = true
	r.mu.Unlock()
	if r.next != nil {
		r.next.Formed(members)
	}
}

// Status implements [control.Host].
func (r *relay) Status(from int, s rank.Status) {
	if from == 0 {
		r.mu.Lock()
		if !r.reported {
			r.reported, r.first = true, s.Step
		}
		r.status = s
		if s.Samples > 0 && !r.steps && r.stepped != nil {
			r.steps = true
			close(r.stepped)
		}
		r.mu.Unlock()
		if r.display != nil {
			r.display.offer(s)
		}
	}
	if r.next != nil {
		r.next.Status(from, s)
	}
}

// Report implements [control.Host].
func (r *relay) Report(from int, about string, body []byte) {
	r.mu.Lock()
	switch {
	case about == "result":
		if from == 0 {
			r.result = body
		}
	case about == control.Leaving:
		r.leave(from)
	case r.free >= len(body):
		r.reports, r.free = append(r.reports, Report{from, about, body}), r.free-len(body)
	}
	r.mu.Unlock()
	if r.next != nil {
		r.next.Report(from, about, body)
	}
}

// leave records that the host of a rank has asked it to end.
func (r *relay) leave(from int) {
	if !r.ending {
		r.leaving = append(r.leaving, from)
	}
}

// hostLeaves records that the host of a rank ends its ranks.
func (r *relay) hostLeaves(from int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leave(from)
}

// ends records that the launcher ends the ranks.
func (r *relay) ends() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ending = true
}

// left returns the ranks whose hosts have asked them to end.
func (r *relay) left() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.leaving)
}

// Ended implements [control.Host].
func (r *relay) Ended(v *rank.Verdict) {
	if r.next != nil {
		r.next.Ended(v)
	}
}

// reset resets the relay for a new generation.
func (r *relay) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.formed, r.leaving, r.reports, r.free = false, nil, nil, maxReports
	r.stepped, r.steps = make(chan struct{}), false
}

// hasStacks reports whether a rank has reported its stacks.
func (r *relay) hasStacks(from int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.reports, func(w Report) bool { return w.Rank == from && w.About == string(control.Stacks) })
}

func (r *relay) isFormed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.formed
}

// gained returns the last status of rank 0, and whether it has completed a step since its
// first status.
func (r *relay) gained() (rank.Status, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status, r.status.Step > r.first
}

func (r *relay) got() (result []byte, status rank.Status, reports []Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.result, r.status, r.reports
}
