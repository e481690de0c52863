package commit

import (
	"fmt"
	"slices"
	"time"
)

// state takes an owner's answer: while gathering one of those that are needed to
// begin, later a repair of what was lost.
func (c *Coordinator) state(now time.Duration, m Message) {
	i := c.owner(m.From)
	if i < 0 || m.Record == nil {
		return
	}
	o := &c.owners[i]
	o.version = max(o.version, m.Record.Step)
	if c.stage == gathering {
		o.answered, o.state = true, m
		if !slices.ContainsFunc(c.owners, func(o owner) bool { return !o.answered }) {
			c.open(now)
		}
		return
	}
	c.applied(m.From, m.Record.Step)
	if m.Record.Step == c.record.Step-1 {
		c.order(o.rank)
	}
	if c.stage == running && m.Record.Step == c.record.Step {
		for _, p := range m.Staged {
			c.staged(now, i, p.Slot, p.Attempt)
		}
		c.advance(now)
	}
	c.rest()
}

// open begins the term's work: it finishes what any owner applied, or what this
// coordinator had decided, and counts what all have staged for the step after.
func (c *Coordinator) open(now time.Duration) {
	for i := range c.owners {
		r := c.owners[i].state.Record
		if !c.known || r.Step > c.record.Step {
			c.record, c.known = *r, true
		}
	}
	if c.cfg.mutant == ignoreRecord {
		for i := range c.owners {
			if r := c.owners[i].state.Record; r.Step < c.record.Step {
				c.record = *r
			}
		}
	}
	for i := range c.owners {
		o := &c.owners[i]
		o.version = o.state.Record.Step
		if o.version < c.record.Step-1 {
			c.stage = over
			c.note(Note{Event: Lost, Rank: o.rank, Text: fmt.Sprintf(
				"rank %d holds version %d, others version %d: restore the last checkpoint", o.rank, o.version, c.record.Step)})
			return
		}
		if o.version < c.record.Step {
			c.order(o.rank)
		}
	}
	c.told = max(c.told, c.record.Step-1)
	c.queue = c.record.Queue
	c.step(now, func() {
		for i := range c.owners {
			if c.owners[i].version == c.record.Step {
				for _, p := range c.owners[i].state.Staged {
					c.adopt(now, i, p)
				}
			}
			c.owners[i].state = Message{}
		}
	})
	if c.allApplied() {
		c.finished()
	}
	c.rest()
}

// order tells an owner to apply what is decided.
func (c *Coordinator) order(rank int) {
	r := c.record
	c.send(rank, Commit, Tag{Term: c.term, Step: r.Step}).Record = &r
}

// adopt counts a piece that was staged in an earlier term.
func (c *Coordinator) adopt(now time.Duration, i int, p Piece) {
	if p.Slot >= len(c.slots) || c.slots[p.Slot].Batch != p.Batch {
		return
	}
	s := &c.slots[p.Slot]
	if !slices.ContainsFunc(s.attempts, func(a attempt) bool { return a.number == p.Attempt }) {
		s.attempts = append(s.attempts, attempt{number: p.Attempt, rank: -1, staged: make([]bool, len(c.owners))})
	}
	c.next = max(c.next, p.Attempt+1)
	c.staged(now, i, p.Slot, p.Attempt)
}

// step lays out the slots of the step after the record's, and rests instead if
// there is nothing to do or a pause is wanted. first runs before leases are given.
func (c *Coordinator) step(now time.Duration, first func()) {
	c.slots, c.next, c.begun, c.rested = c.slots[:0], 0, now, false
	if c.queue.Left() == 0 && !c.lastEpoch() && !c.cfg.PauseEpochs {
		c.queue = c.queue.NextEpoch()
	}
	if c.pause || c.queue.Left() == 0 {
		c.stage = resting
		return
	}
	for _, it := range c.queue.Lease(c.cfg.Slots) {
		c.slots = append(c.slots, slot{Item: it})
	}
	c.stage = running
	if first != nil {
		first()
	}
	c.advance(now)
}

func (c *Coordinator) lastEpoch() bool {
	return c.cfg.Epochs > 0 && c.queue.Epoch+1 >= c.cfg.Epochs
}

// staged notes that owner i holds an attempt; when all do, the slot is complete
// and its workers are free. It reports whether that is so now.
func (c *Coordinator) staged(now time.Duration, i, number, at int) bool {
	if number < 0 || number >= len(c.slots) || c.slots[number].complete && c.cfg.mutant != perOwner {
		return false
	}
	s := &c.slots[number]
	k := slices.IndexFunc(s.attempts, func(a attempt) bool { return a.number == at })
	if k < 0 {
		return false // cancelled meanwhile, or never leased
	}
	a := &s.attempts[k]
	a.staged[i] = true
	if s.complete || slices.Contains(a.staged, false) && c.cfg.mutant != anyOwner && c.cfg.mutant != perOwner {
		return c.cfg.mutant == perOwner
	}
	s.complete, s.counted = true, at
	if a.rank >= 0 {
		c.gaps.arrive(now-c.begun, now-a.since)
		c.seats[a.rank].strikes = 0
		c.release(a.rank)
	}
	for _, other := range s.attempts {
		if other.number != at {
			c.forget(number, other)
		}
	}
	s.attempts = append(s.attempts[:0], *a)
	return true
}

// forget cancels an attempt at its worker and frees what is staged of it.
func (c *Coordinator) forget(number int, a attempt) {
	t := Tag{Term: c.term, Step: c.record.Step + 1, Slot: number, Attempt: a.number}
	if a.rank >= 0 && c.seats[a.rank].life == busy && c.seats[a.rank].tag == t {
		c.seats[a.rank].life = leaving
		c.send(a.rank, Cancel, t)
	}
	for i, staged := range a.staged {
		if staged {
			c.send(c.owners[i].rank, Withdraw, t)
		}
	}
}

// release makes a worker idle.
func (c *Coordinator) release(rank int) {
	if s := &c.seats[rank]; s.life != idle && s.life != barred {
		s.life = idle
		c.free = append(c.free, rank)
	}
}

// advance commits if enough slots are complete, and gives idle workers work.
func (c *Coordinator) advance(now time.Duration) {
	for c.stage == running && c.ripe() {
		c.decide(now)
	}
	c.assign(now)
}

// need returns how many slots of the step must be complete. At the end of an
// epoch, where fewer are left than count in a step, that is all of them.
func (c *Coordinator) need() int {
	return min(c.cfg.Slots-c.cfg.Backup, len(c.slots))
}

// must reports whether the step cannot do without a slot.
func (c *Coordinator) must(s *slot) bool {
	return s.Tries >= c.cfg.Retries
}

func (c *Coordinator) ripe() bool {
	complete := 0
	for i := range c.slots {
		s := &c.slots[i]
		if s.complete {
			complete++
		} else if c.must(s) {
			return false
		}
	}
	return complete >= c.need() && (c.cfg.mutant != perOwner || c.each())
}

// decide chooses A_t: the lowest complete slots, which are those that were late
// before, then begins the next step.
func (c *Coordinator) decide(now time.Duration) {
	r := Record{Step: c.record.Step + 1, Leased: len(c.slots), Cut: c.cut}
	var counted []int
	for i := range c.slots {
		if s := &c.slots[i]; s.complete && len(counted) < c.need() {
			counted = append(counted, i)
			r.Pieces = append(r.Pieces, Piece{Slot: i, Attempt: s.counted, Batch: s.Batch})
			r.Samples += s.Rows
		}
	}
	r.Queue = c.queue.Commit(len(c.slots), counted)
	if c.cfg.mutant == loseLate {
		r.Queue.Late = nil
	}
	c.retire(now)
	late := len(c.slots) - len(counted)
	c.record, c.queue, c.cut = r, r.Queue, false
	c.note(Note{Event: Decided, Late: late, Record: &r})
	for _, o := range c.owners {
		c.order(o.rank)
		if c.cfg.mutant == perOwner {
			c.own(o.rank, c.out[len(c.out)-1].Record)
		}
	}
	c.adapt()
	c.step(now, nil)
}

// retire cancels the workers of slots that are not complete.
func (c *Coordinator) retire(now time.Duration) {
	open := 0
	for i := range c.slots {
		for _, a := range c.slots[i].attempts {
			if a.rank < 0 || c.slots[i].complete {
				continue
			}
			s := &c.seats[a.rank]
			if t := (Tag{c.term, c.record.Step + 1, i, a.number}); s.life == busy && s.tag == t {
				s.life = leaving
				c.send(a.rank, Cancel, t)
				open++
			}
		}
	}
	c.gaps.commit(now, c.begun, c.record.Step+1, len(c.slots), min(open, len(c.slots)))
}

// applied notes an owner's version, and tells when a step is applied by all.
func (c *Coordinator) applied(rank int, step int64) {
	i := c.owner(rank)
	if i < 0 {
		return
	}
	c.owners[i].version = max(c.owners[i].version, step)
	if c.stage != gathering && c.allApplied() {
		c.finished()
	}
}

func (c *Coordinator) allApplied() bool {
	return !slices.ContainsFunc(c.owners, func(o owner) bool { return o.version < c.record.Step })
}

func (c *Coordinator) finished() {
	if c.told < c.record.Step {
		c.told = c.record.Step
		r := c.record
		c.note(Note{Event: Finished, Record: &r})
	}
}

// rest tells once that the boundary is reached by all owners.
func (c *Coordinator) rest() {
	if c.stage != resting || c.rested || !c.allApplied() {
		return
	}
	c.rested = true
	r := c.record
	n := Note{Event: Idle, Record: &r}
	if c.queue.Left() == 0 {
		n.Event = EpochEnd
		if c.lastEpoch() {
			n.Event = Done
		}
	}
	c.note(n)
}

// ready takes a worker's word that it is free again.
func (c *Coordinator) ready(now time.Duration, m Message) {
	if m.From < 0 || m.From >= len(c.seats) {
		return
	}
	s := &c.seats[m.From]
	if s.tag != m.Tag || s.life != busy && s.life != leaving {
		return
	}
	if s.life == leaving {
		c.gaps.left(now, now-s.since, m.Tag.Step, m.Done)
	} else {
		c.drop(m.From)
	}
	c.release(m.From)
	if m.Failed {
		c.strike(m.From, m.Tag)
	}
	c.advance(now)
}

// drop forgets the attempt that a rank is busy with, so that another rank does
// the slot.
func (c *Coordinator) drop(rank int) {
	s := &c.seats[rank]
	if s.life != busy || s.tag.Step != c.record.Step+1 || s.tag.Slot >= len(c.slots) {
		return
	}
	sl := &c.slots[s.tag.Slot]
	for i, a := range sl.attempts {
		if a.number == s.tag.Attempt && !sl.complete {
			sl.attempts = slices.Delete(sl.attempts, i, i+1)
			s.life = leaving
			c.forget(s.tag.Slot, a)
			return
		}
	}
}

// strike counts a failure against a rank and against its microbatch.
func (c *Coordinator) strike(rank int, t Tag) {
	s := &c.seats[rank]
	s.strikes++
	if s.strikes >= c.cfg.Strikes {
		c.free = without(c.free, rank)
		s.life = barred
		c.note(Note{Event: Excluded, Rank: rank, Text: fmt.Sprintf(
			"rank %d failed %d times in a row and gets no more microbatches; its shards stay", rank, s.strikes)})
	}
	if !slices.ContainsFunc(c.seats, func(s seat) bool { return s.life != absent && s.life != barred }) {
		c.stage = over
		c.note(Note{Event: Poisoned, Rank: rank, Text: "every rank failed again and again: see their errors for the cause"})
	}
	if t.Step != c.record.Step+1 || t.Slot >= len(c.slots) || c.stage == over {
		return
	}
	sl := &c.slots[t.Slot]
	if slices.Contains(sl.failed, rank) {
		return // one bad rank does not make a bad microbatch
	}
	if sl.failed = append(slices.Clone(sl.failed), rank); len(sl.failed) >= c.cfg.Strikes {
		c.stage = over
		c.note(Note{Event: Poisoned, Rank: rank, Text: fmt.Sprintf(
			"ranks %v failed on the microbatch of rows %d … %d of epoch %d: see their errors for the cause",
			sl.failed, sl.First, sl.First+sl.Rows-1, sl.Epoch)})
	}
}
