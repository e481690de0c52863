package step

import (
	"fmt"

	"github.com/wdlrun/wdlrun/internal/wdl/slots"
)

// Replay makes the trainer repeat the steps of a log, in which microbatches counted
// that a later run would not choose again: nothing is decided.
func (t *Trainer) Replay(how Tolerance, record slots.Record, script []slots.Record, source Source) (*Tolerant, error) {
	x, _, err := t.tolerant(how, record, source)
	if err == nil {
		x.script = script
	}
	return x, err
}

// Last reports whether the step to come is the last that a replayed log has: where the
// run was stopped, its replay stops too.
func (x *Tolerant) Last() bool {
	return len(x.script) == 1 && x.script[0].Queue.Left() > 0
}

// act computes what counted in a step of the script. Everything is done at home:
// who did it then made no difference.
func (x *Tolerant) act(n int64) error {
	if len(x.script) == 0 {
		return fmt.Errorf("wdl: replay: the log ends before step %d: was the run resumed elsewhere?", n)
	}
	r := x.script[0]
	x.script = x.script[1:]
	for left := r.Pieces; len(left) > 0; {
		var later []slots.Piece
		taken := make([]bool, x.size)
		for _, p := range left {
			if home := x.home(p.Batch.First); taken[home] {
				later = append(later, p)
			} else {
				taken[home] = true
				x.leases = append(x.leases, slots.Lease{Step: r.Step, Slot: p.Slot, Attempt: p.Attempt, Rank: home, Batch: p.Batch})
			}
		}
		left = later
		if err := x.deal(n); err != nil {
			return err
		}
		if x.current != nil {
			<-x.hand.ended
			if w := x.end(); w.err != nil {
				return w.err
			}
		}
	}
	x.decided = &r
	return nil
}
