package commit

import (
	"slices"
	"time"
)

// assign gives open slots to idle workers: the lowest slot, which was late most
// often, to the worker that has been idle longest, which was the fastest. So a
// late microbatch does not go back to the rank that was late with it. The cost of
// a step is its slots squared in the worst case, a few comparisons each.
func (c *Coordinator) assign(now time.Duration) {
	if c.stage != running {
		return
	}
	c.assignHome(now)
	for i := range c.slots {
		if len(c.free) == 0 {
			return
		}
		if s := &c.slots[i]; !s.complete && s.copies() == 0 && (c.must(s) || !c.inVain(now)) {
			c.give(now, i)
		}
	}
	c.redo(now, false)
}

// inVain reports whether a lease of this step would come to nothing: half of what a
// lease takes is over, and as many slots as count are complete or will soon be. A
// worker that becomes free then had better begin with the next step, beside all
// others; else it would be late, and free too late again, in each step from now on.
func (c *Coordinator) inVain(now time.Duration) bool {
	if c.cfg.Mode != Drop || !c.gaps.late(now-c.begun, 0.5) {
		return false
	}
	soon := 0
	for i := range c.slots {
		s := &c.slots[i]
		going := slices.ContainsFunc(s.attempts, func(a attempt) bool {
			return a.rank >= 0 && !c.gaps.late(now-a.since, c.cfg.Patience)
		})
		if s.complete || going {
			soon++
		}
	}
	return soon >= c.need()
}

// assignHome looks at the lowest open slots, as many as there are idle workers, and
// gives those that were never late to the rank that has their samples, if it is
// idle. The others, late ones first, are left to whoever else is.
func (c *Coordinator) assignHome(now time.Duration) {
	if c.cfg.Home == nil {
		return
	}
	left := len(c.free)
	for i := range c.slots {
		if left == 0 {
			return
		}
		s := &c.slots[i]
		if s.complete || s.copies() > 0 {
			continue
		}
		left--
		home := c.cfg.Home(s.Batch)
		if k := slices.Index(c.free, home); k >= 0 && s.Tries == 0 {
			copy(c.free[1:], c.free[:k])
			c.free[0] = home
			c.give(now, i)
		}
	}
}

// copies returns how many workers are at a slot.
func (s *slot) copies() (n int) {
	for _, a := range s.attempts {
		if a.rank >= 0 {
			n++
		}
	}
	return n
}

// give leases a slot to the first idle worker.
func (c *Coordinator) give(now time.Duration, number int) {
	rank := c.free[0]
	c.free = append(c.free[:0], c.free[1:]...)
	s := &c.slots[number]
	t := Tag{Term: c.term, Step: c.record.Step + 1, Slot: number, Attempt: c.next}
	c.next++
	s.attempts = append(s.attempts, attempt{number: t.Attempt, rank: rank, since: now, staged: make([]bool, len(c.owners))})
	seat := &c.seats[rank]
	seat.life, seat.tag, seat.since = busy, t, now
	c.lease(rank, s, t)
}

func (c *Coordinator) lease(rank int, s *slot, t Tag) {
	m := c.send(rank, Lease, t)
	m.Batch, m.Owners = s.Batch, c.ranks
}

// maxCopies bounds how many ranks are at one slot.
const maxCopies = 2

// redo lets idle workers do late slots once more: in Speculate those that take
// longer than usual, in every mode those that the step must wait for. At once
// is for tests that let any slot be late.
func (c *Coordinator) redo(now time.Duration, atOnce bool) {
	if c.stage != running || c.cfg.Mode == Wait {
		return
	}
	for i := range c.slots {
		if len(c.free) == 0 {
			return
		}
		s := &c.slots[i]
		if n := s.copies(); s.complete || n == 0 || n >= maxCopies {
			continue
		}
		late := c.cfg.Mode == Speculate && (atOnce || c.gaps.late(now-s.attempts[len(s.attempts)-1].since, c.cfg.Patience))
		if late || c.cfg.Mode == Drop && c.must(s) {
			c.give(now, i)
		}
	}
}
