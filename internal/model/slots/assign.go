package slots

import (
	"slices"
	"time"
)

// assign leases open slots to idle ranks. The lowest slot, which was late most often, goes to
// the rank that has been idle longest, which was the fastest. So a late microbatch does not
// go back to the rank that was late with it. In the worst case a step costs a few comparisons
// per pair of slots.
func (m *Machine) assign(now time.Duration) {
	m.assignHome(now)
	for i := range m.slots {
		if len(m.free) == 0 {
			return
		}
		if s := &m.slots[i]; !s.complete && len(s.attempts) == 0 && (m.mustWait(s) || !m.inVain(now)) {
			m.lease(now, i)
		}
	}
	m.repeat(now)
}

// inVain reports whether a new lease of this step would have no effect: half of the usual
// time of a lease has passed, and enough slots are complete or will be soon. A rank that
// becomes free then waits for the next step and starts it together with all others. Otherwise
// it would be late in that step, and in every following one.
func (m *Machine) inVain(now time.Duration) bool {
	if m.cfg.Mode != Drop || !m.gaps.late(now-m.begun, 0.5) {
		return false
	}
	soon := 0
	for i := range m.slots {
		s := &m.slots[i]
		going := slices.ContainsFunc(s.attempts, func(a attempt) bool {
			return !m.gaps.late(now-a.since, repeatAfter)
		})
		if s.complete || going {
			soon++
		}
	}
	return soon >= m.need()
}

// assignHome considers as many of the lowest open slots as there are idle ranks. Slots that
// were never late go to the rank that has their samples, if it is idle. The remaining slots,
// late ones first, are left to the other idle ranks.
func (m *Machine) assignHome(now time.Duration) {
	if m.cfg.Home == nil {
		return
	}
	left := len(m.free)
	for i := range m.slots {
		if left == 0 {
			return
		}
		s := &m.slots[i]
		if s.complete || len(s.attempts) > 0 {
			continue
		}
		left--
		home := m.cfg.Home(s.Batch)
		if k := slices.Index(m.free, home); k >= 0 && s.Tries == 0 {
			copy(m.free[1:], m.free[:k])
			m.free[0] = home
			m.lease(now, i)
		}
	}
}

// lease leases a slot to the first idle rank.
func (m *Machine) lease(now time.Duration, number int) {
	rank := m.free[0]
	m.free = append(m.free[:0], m.free[1:]...)
	s := &m.slots[number]
	l := Lease{Step: m.record.Step + 1, Slot: number, Attempt: m.next, Rank: rank, Batch: s.Batch}
	m.next++
	s.attempts = append(s.attempts, attempt{l.Attempt, rank, now})
	m.ranks[rank] = rankState{busy, l, now}
	m.out.Leases = append(m.out.Leases, l)
}

// maxCopies is the largest number of ranks that compute the same slot.
const maxCopies = 2

// repeat leases late slots a second time, to idle ranks: in Speculate slots that take longer
// than usual, in Drop slots that the step must wait for.
func (m *Machine) repeat(now time.Duration) {
	if m.cfg.Mode == Wait {
		return
	}
	for i := range m.slots {
		if len(m.free) == 0 {
			return
		}
		s := &m.slots[i]
		if n := len(s.attempts); s.complete || n == 0 || n >= maxCopies {
			continue
		}
		late := m.cfg.Mode == Speculate && m.gaps.late(now-s.attempts[len(s.attempts)-1].since, repeatAfter)
		if late || m.cfg.Mode == Drop && m.mustWait(s) {
			m.lease(now, i)
		}
	}
}
