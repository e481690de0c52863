package commit

// mutant breaks one rule on purpose, in tests that show that the rule is needed.
type mutant uint8

const (
	sound        mutant = iota
	noFence             // owners obey any term
	anyOwner            // a slot counts when one owner has staged it
	perOwner            // each owner counts what it has itself
	forgetStaged        // owners drop what is staged when a term begins
	lateWithdraw        // owners obey a withdrawal of an earlier term
	ignoreRecord        // a new term chooses anew though some owner has applied
	loseLate            // late microbatches are not put back
	keepChunks          // workers keep dense chunks from one term to the next
)

// each is deciding per variable: every owner has enough slots of its own.
func (c *Coordinator) each() bool {
	for i := range c.owners {
		n := 0
		for _, s := range c.slots {
			if len(s.attempts) > 0 && s.attempts[0].staged[i] {
				n++
			}
		}
		if n < c.need() {
			return false
		}
	}
	return true
}

// own makes r the record of the pieces that an owner has itself.
func (c *Coordinator) own(rank int, r *Record) {
	r.Pieces, r.Samples = nil, 0
	for n, s := range c.slots {
		if len(s.attempts) > 0 && s.attempts[0].staged[c.owner(rank)] && len(r.Pieces) < c.need() {
			r.Pieces = append(r.Pieces, Piece{Slot: n, Attempt: s.attempts[0].number, Batch: s.Batch})
			r.Samples += s.Rows
		}
	}
}
