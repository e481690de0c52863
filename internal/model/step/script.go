package step

import (
	"fmt"

	"github.com/wdlrun/wdlrun/internal/model/slots"
)

// Replay makes the trainer repeat the steps of a log. The log determines which microbatches
// count, so replayed steps do not depend on timing.
func (t *Trainer) Replay(how Tolerance, record slots.Record, log []slots.Record, source Source) (*Tolerant, error) {
	x, _, err := t.tolerant(how, record, source)
	if err == nil {
		x.script, x.ask = &script{records: log}, x.act
	}
	return x, err
}

// Last reports whether the next step is the last of the log and does not end its epoch. The
// run was stopped after that step, so its replay stops too.
func (x *Tolerant) Last() bool {
	return x.script != nil && len(x.script.records) == 1 && x.script.records[0].Queue.Left() > 0
}

// act leases the microbatches that counted in step n of the script, at most one per rank at
// a time. The home rank computes each of them, since results do not depend on the rank.
func (x *Tolerant) act(n int64) error {
	s := x.script
	if x.current != nil {
		<-x.async.ended
		if w := x.end(); w.err != nil {
			return w.err
		}
	}
	if s.now == nil {
		if len(s.records) == 0 {
			return fmt.Errorf("replay: the log ends before step %d: was the run resumed elsewhere?", n)
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
		if home := x.readerOf(p.Batch.First); taken[home] {
			later = append(later, p)
		} else {
			taken[home] = true
			x.leases = append(x.leases, slots.Lease{Step: s.now.Step, Slot: p.Slot, Attempt: p.Attempt, Rank: home, Batch: p.Batch})
		}
	}
	s.left = later
	return nil
}
