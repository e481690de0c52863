package step

import (
	"fmt"

	"github.com/wdlrun/wdlrun/internal/wdl/slots"
)

// script is a log that is replayed.
type script struct {
	records []slots.Record // of the steps to come
	now     *slots.Record  // of the current step; nil: it has not begun
	left    []slots.Piece  // of it, to be computed
}

// Replay makes the trainer repeat the steps of a log, in which microbatches counted
// that a later run would not choose again: nothing is decided.
func (t *Trainer) Replay(how Tolerance, record slots.Record, log []slots.Record, source Source) (*Tolerant, error) {
	x, _, err := t.tolerant(how, record, source)
	if err == nil {
		x.script, x.ask = &script{records: log}, x.act
	}
	return x, err
}

// Last reports whether the step to come is the last that a replayed log has: where the
// run was stopped, its replay stops too.
func (x *Tolerant) Last() bool {
	return x.script != nil && len(x.script.records) == 1 && x.script.records[0].Queue.Left() > 0
}

// act leases what counted in step n of the script, at most one microbatch a rank.
// Everything is done at home: who did it then made no difference.
func (x *Tolerant) act(n int64) error {
	s := x.script
	if x.current != nil {
		<-x.hand.ended
		if w := x.end(); w.err != nil {
			return w.err
		}
	}
	if s.now == nil {
		if len(s.records) == 0 {
			return fmt.Errorf("wdl: replay: the log ends before step %d: was the run resumed elsewhere?", n)
		}
		s.now, s.left, s.records = &s.records[0], s.records[0].Pieces, s.records[1:]
	}
	if len(s.left) == 0 {
		x.decided, s.now = s.now, nil
		return nil
	}
	var later []slots.Piece
	taken := make([]bool, x.size)
	for _, p := range s.left {
		if home := x.home(p.Batch.First); taken[home] {
			later = append(later, p)
		} else {
			taken[home] = true
			x.leases = append(x.leases, slots.Lease{Step: s.now.Step, Slot: p.Slot, Attempt: p.Attempt, Rank: home, Batch: p.Batch})
		}
	}
	s.left = later
	return nil
}
