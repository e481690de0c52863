package slots

import (
	"slices"
	"time"
)

// assign gives open slots to idle ranks: the lowest slot, which was late most often,
// to the rank that has been idle longest, which was the fastest. So a late
// microbatch does not go back to the rank that was late with it. In the worst case a
// step costs its slots squared, a few comparisons each.
func (m *Machine) assign(now time.Duration) {
	m.assignHome(now)
	for i := range m.slots {
		if len(m.free) == 0 {
			return
		}
		if s := &m.slots[i]; !s.complete && len(s.attempts) == 0 && (m.must(s) || !m.inVain(now)) {
			m.give(now, i)
		}
	}
	m.redo(now)
}

// inVain reports whether a lease of this step would come to nothing: half of what a
// lease takes is over, and as many slots as count are complete or will soon be. A
// rank that becomes free then begins with the next step, together with all others;
// else it would be late, and free too late again, in each step from now on.
func (m *Machine) inVain(now time.Duration) bool {
	if m.cfg.Mode != Drop || !m.gaps.late(now-m.begun, 0.5) {
		return false
	}
	soon := 0
	for i := range m.slots {
		s := &m.slots[i]
		going := slices.ContainsFunc(s.attempts, func(a attempt) bool {
			return !m.gaps.late(now-a.since, m.cfg.Patience)
		})
		if s.complete || going {
			soon++
		}
	}
	return soon >= m.need()
}

// assignHome looks at the lowest open slots, as many as there are idle ranks, and
// gives those that were never late to the rank that has their samples, if it is
// idle. The others, late ones first, are left to the other idle ranks.
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
			m.give(now, i)
		}
	}
}

// give leases a slot to the first idle rank.
func (m *Machine) give(now time.Duration, number int) {
	rank := m.free[0]
	m.free = append(m.free[:0], m.free[1:]...)
	s := &m.slots[number]
	l := Lease{Step: m.record.Step + 1, Slot: number, Attempt: m.next, Rank: rank, Batch: s.Batch}
	m.next++
	s.attempts = append(s.attempts, attempt{l.Attempt, rank, now})
	m.seats[rank] = seat{busy, l, now}
	m.out.Leases = append(m.out.Leases, l)
}

// maxCopies bounds how many ranks are at one slot.
const maxCopies = 2

// redo lets idle ranks compute late slots once more: in Speculate those that take
// longer than usual, in Drop those that the step must wait for.
func (m *Machine) redo(now time.Duration) {
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
		late := m.cfg.Mode == Speculate && m.gaps.late(now-s.attempts[len(s.attempts)-1].since, m.cfg.Patience)
		if late || m.cfg.Mode == Drop && m.must(s) {
			m.give(now, i)
		}
	}
}
