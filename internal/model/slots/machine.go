package slots

import (
	"fmt"
	"slices"
	"time"
)

// New returns a machine that continues after a record, with all ranks idle, and its first
// leases.
func New(cfg Config, record Record) (*Machine, Decision, error) {
	if err := cfg.Validate(); err != nil {
		return nil, Decision{}, err
	}
	m := &Machine{cfg: cfg.Default(), record: record, queue: record.Queue, ranks: make([]rankState, cfg.Ranks)}
	for r := range cfg.Ranks {
		m.free = append(m.free, r)
	}
	m.step(0)
	return m, m.out, nil
}

// Backup returns the current b.
func (m *Machine) Backup() int { return m.cfg.Backup }

// Resume begins the next epoch. The queue must be empty.
func (m *Machine) Resume(now time.Duration) Decision {
	m.clear()
	if m.queue.Left() == 0 {
		m.queue = m.queue.NextEpoch()
		m.step(now)
	}
	return m.out
}

// Round processes the reports of all ranks at one time. All complete slots count before ranks
// get new work, so ranks that finish together do not get slots that the step does not need.
func (m *Machine) Round(now time.Duration, all []Report) Decision {
	m.clear()
	complete := false
	for _, n := range all {
		if n.Whole && m.ranks[n.Rank].life == busy {
			m.complete(now, n.Rank)
			complete = true
		}
	}
	if complete {
		m.advance(now)
	}
	for _, n := range all {
		if s := &m.ranks[n.Rank]; s.life != idle && !m.leasedNow(s) {
			m.left(now, n)
		}
	}
	m.assign(now) // a copy may be worthwhile now
	return m.out
}

func (m *Machine) clear() {
	m.out = Decision{Leases: m.out.Leases[:0], Cancelled: m.out.Cancelled[:0]}
}

// leasedNow reports whether a rank got its lease in this round, after its reports.
func (m *Machine) leasedNow(s *rankState) bool {
	return slices.ContainsFunc(m.out.Leases, func(l Lease) bool { return l == s.lease })
}

// step creates the slots of the step after the record; none at the end of an epoch.
func (m *Machine) step(now time.Duration) {
	m.slots, m.next, m.begun = m.slots[:0], 0, now
	for _, it := range m.queue.Lease(m.cfg.Ranks) {
		m.slots = append(m.slots, slot{Item: it})
	}
	m.assign(now)
}

// complete records that a rank has computed its slot. Other copies are cancelled.
func (m *Machine) complete(now time.Duration, rank int) {
	state := &m.ranks[rank]
	s := &m.slots[state.lease.Slot]
	s.complete = true
	m.gaps.arrive(now-m.begun, now-state.since)
	m.release(rank)
	for _, a := range s.attempts {
		if a.rank != rank {
			m.cancel(a.rank)
			continue
		}
		s.attempts[0] = a
	}
	s.attempts = s.attempts[:1]
}

func (m *Machine) cancel(rank int) {
	m.ranks[rank].life = leaving
	m.out.Cancelled = append(m.out.Cancelled, m.ranks[rank].lease)
}

// release makes a rank idle.
func (m *Machine) release(rank int) {
	m.ranks[rank].life = idle
	m.free = append(m.free, rank)
}

// left frees a rank whose lease was cancelled or that gave it up. In the second case another
// rank gets the slot.
func (m *Machine) left(now time.Duration, n Report) {
	s := &m.ranks[n.Rank]
	if s.life == leaving {
		m.gaps.left(now, now-s.since, s.lease.Step, n.Done)
	} else {
		sl := &m.slots[s.lease.Slot]
		sl.attempts = slices.DeleteFunc(sl.attempts, func(a attempt) bool { return a.number == s.lease.Attempt })
	}
	m.release(n.Rank)
	m.advance(now)
}

// advance commits if enough slots are complete, and gives idle ranks work.
func (m *Machine) advance(now time.Duration) {
	if m.decidable() {
		m.decide(now)
	}
	m.assign(now)
}

// decidable reports whether enough slots are complete, and all that the step must wait for.
func (m *Machine) decidable() bool {
	complete := 0
	for i := range m.slots {
		if s := &m.slots[i]; s.complete {
			complete++
		} else if m.mustWait(s) {
			return false
		}
	}
	return len(m.slots) > 0 && complete >= m.need()
}

// decide chooses the commit set: the complete slots with the lowest numbers, which hold the
// microbatches that were late before. Then it begins the next step.
func (m *Machine) decide(now time.Duration) {
	r := Record{Step: m.record.Step + 1, Leased: len(m.slots)}
	var counted []int
	for i := range m.slots {
		if s := &m.slots[i]; s.complete && len(counted) < m.need() {
			counted = append(counted, i)
			r.Pieces = append(r.Pieces, Piece{Slot: i, Attempt: s.attempts[0].number, Batch: s.Batch})
			r.Samples += s.Rows
		}
	}
	r.Queue = m.queue.Commit(len(m.slots), counted)
	m.retire(now)
	m.record, m.queue = r, r.Queue
	m.out.Commit = &r
	m.adapt()
	m.step(now)
}

// retire cancels the leases of slots that are not complete.
func (m *Machine) retire(now time.Duration) {
	open := 0
	for i := range m.slots {
		if m.slots[i].complete {
			continue
		}
		for _, a := range m.slots[i].attempts {
			m.cancel(a.rank)
			open++
		}
	}
	m.gaps.commit(now, m.begun, m.record.Step+1, len(m.slots), min(open, len(m.slots)))
}

// adapt changes b after each window of steps if that increases the speed.
func (m *Machine) adapt() {
	g := &m.gaps
	if !m.cfg.Auto || g.steps < window || len(g.sums) != m.cfg.Ranks {
		return
	}
	old, s := m.cfg.Backup, m.cfg.Ranks
	mean := func(k int) float64 { return 1000 * g.sums[k-1] / float64(g.steps) }
	most := max(1, s/4)
	b, gain := g.best(old, most)
	switch {
	case b > old && gain > worthMore || b < old && gain > worthFewer:
		m.cfg.Backup = b
		m.out.Text = fmt.Sprintf(
			"backups %d → %d: over %d steps slot %d of %d came after %.3g ms on average, slot %d after %.3g ms: %.2f× the samples per second",
			old, b, g.steps, s-old, s, mean(s-old), s-b, mean(s-b), gain)
	case !g.weighed && old < min(most, s-1):
		m.out.Text = fmt.Sprintf(
			"backups stay %d: over %d steps slot %d of %d came after %.3g ms on average, slot %d after %.3g ms: without waiting for the last, a step would have %d of %d microbatches, %.2f× the samples per second, and %.2f is worth a change",
			old, g.steps, s-old, s, mean(s-old), s-old-1, mean(s-old-1), s-old-1, s-old, g.speed(old+1)/g.speed(old), worthMore)
	}
	g.weighed = true
	clear(g.sums)
	g.steps = 0
}
