package rank

import (
	"fmt"
	"time"
)

// Join is the request of a rank to become a member. The error is the reason for a
// rejection; a rejection does not affect the group.
func (g *Group) Join(now time.Duration, m Member) (Decision, error) {
	g.wake(now)
	if err := g.refuse(m); err != nil {
		if len(g.refusals) < maxRefusals {
			g.refusals = append(g.refusals, refusal{m.Rank, err})
		}
		return Decision{}, fmt.Errorf("rank: join: %w", err)
	}
	if g.version == "" {
		g.version = m.Version
	}
	g.joined++
	g.lastJoin = now
	s := &g.states[m.Rank]
	s.member, s.joined, s.beat, s.moved = m, true, now, now
	if g.joined == len(g.states) && !g.formed {
		return g.form(now), nil
	}
	return g.decide(now), nil
}

func (g *Group) form(now time.Duration) Decision {
	members := make([]Member, len(g.states))
	for i := range g.states {
		s := &g.states[i]
		if s.sign() != "" {
			return g.decide(now) // a group with a dead member is never complete
		}
		members[i] = s.member
		s.moved, s.gap = now, startGap(g.cfg.Silence)
	}
	g.formed = true
	return Decision{Act: Form, Members: members}
}

// Beat is a heartbeat of a rank. It makes no decision, so its cost does not grow with the
// size of the group. The next Tick evaluates it.
func (g *Group) Beat(now time.Duration, rank int, status Status) {
	g.wake(now)
	s := g.state(rank)
	if s == nil || !s.joined {
		return
	}
	if status.mark() != s.status.mark() {
		s.moved, s.stuck = now, false
	}
	if s.status.Step == 0 && status.Step > 0 {
		s.gap = 0
	}
	s.status = status
	s.recordBeat(now)
}

// Done means that a rank has finished its work.
func (g *Group) Done(now time.Duration, rank int) Decision {
	g.wake(now)
	s := g.state(rank)
	if s == nil || !s.joined || s.failed || s.blames {
		return Decision{}
	}
	s.done, s.lost, s.silent, s.stuck = true, false, false, false
	g.doneSince = now
	return g.decide(now)
}

// Fail is a rank's report of an error. blamed is the rank that caused it: another rank,
// its own number, Own or ForGood if the error is its own, or Differs. status is what
// the rank was doing.
func (g *Group) Fail(now time.Duration, rank int, cause string, blamed int, status Status) Decision {
	g.wake(now)
	s := g.state(rank)
	if s == nil || !s.joined || s.failed || s.blames {
		return Decision{}
	}
	if status != (Status{}) {
		s.status = status
	}
	s.beat, s.runSilent = now, 0
	if blamed < 0 || blamed == rank || blamed >= len(g.states) {
		s.failed, s.cause, s.failedAt, s.blamed = true, cause, now, min(blamed, Own)
	} else {
		s.blames, s.blamed, s.blame, s.blameAt = true, blamed, cause, now
	}
	return g.decide(now)
}

// Exited means that the process of a rank ended, with an exit code or by a signal. why
// is the reason if the launcher knows it, otherwise "".
func (g *Group) Exited(now time.Duration, rank, code, signal int, why string) Decision {
	g.wake(now)
	s := g.state(rank)
	if s == nil || s.exited {
		return Decision{}
	}
	s.exited, s.code, s.signal, s.why, s.exitAt = true, code, signal, why, now
	return g.decide(now)
}

// HostLost means that the launcher has lost a host and with it the processes of these
// ranks, none of which has ended before. why is the reason.
func (g *Group) HostLost(now time.Duration, host string, ranks []int, why string) Decision {
	g.wake(now)
	for _, r := range ranks {
		if s := g.state(r); s != nil && !s.exited {
			s.member.Host = host
			s.exited, s.code, s.why, s.exitAt = true, withHost, why, now
			s.lost, s.lostAt, s.done = true, now, false
		}
	}
	return g.decide(now)
}

// Disconnected means that the connection of a rank broke. After Done this is the usual
// end.
func (g *Group) Disconnected(now time.Duration, rank int) Decision {
	g.wake(now)
	s := g.state(rank)
	if s == nil || !s.joined || s.done || s.lost {
		return Decision{}
	}
	s.lost, s.lostAt = true, now
	return g.decide(now)
}

// Traffic is the report of a rank about its links and its calls.
func (g *Group) Traffic(now time.Duration, rank int, t Traffic) {
	g.wake(now)
	s := g.state(rank)
	if s == nil || !s.joined {
		return
	}
	if d := g.calls.Report(rank, t.Calls); g.differ == nil {
		g.differ = d
	}
	t.Calls = nil
	s.traffic, s.trafficAt = t, now
}

// Tick reports the current time. Ranks may have become silent, and the gathered signs may
// lead to a verdict.
func (g *Group) Tick(now time.Duration) Decision {
	if g.ended {
		return Decision{}
	}
	g.wake(now)
	ran := min(now-g.tick, maxTick)
	g.tick, g.ticked = now, true
	alone := g.states.active() == 1
	for i := range g.states {
		s := &g.states[i]
		if !s.active() {
			continue
		}
		s.runSilent += ran
		if s.isSilent(now, g.cfg.Silence, g.formed) {
			s.silent, s.silentAt = true, now
		}
		if g.formed && !s.stuck && s.status.Phase != "" && (!s.status.Waits || alone) && now-max(s.moved, g.doneSince) > g.cfg.Timeout {
			s.stuck, s.stuckAt = true, now
		}
	}
	if d := g.decide(now); d.Act != Nothing || g.ended {
		return d
	}
	if d := g.disagree(); d.Act != Nothing {
		return d
	}
	if d := g.links(now); d.Act != Nothing {
		return d
	}
	return g.silenceWarning(now)
}
