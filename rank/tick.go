package rank

import (
	"fmt"
	"slices"
	"time"
)

const (
	// early is the silence of a rank after which a line is printed. It is a dozen
	// heartbeats of a small world and longer than a busy host delays one. It counts only
	// time for which the driver ran, and each tick adds at most maxTick: if all processes of
	// a host are stopped together, no rank is more silent than the others.
	early   = 2 * time.Second
	maxTick = 50 * time.Millisecond
	// recent is the age up to which a heartbeat shows that a rank is alive.
	recent = 500 * time.Millisecond
)

// silenceWarning returns a line about a rank whose heartbeats have stopped for a while, although
// another rank's have not, and another line when they resume, at most once per Timeout.
// It returns nothing if all ranks are silent, which points to the network or the host.
func (g *Group) silenceWarning(now time.Duration) Decision {
	for i := range g.states {
		s := &g.states[i]
		switch quiet := now - s.beat; {
		case !s.active():
		case s.missed && quiet <= recent:
			s.missed = false
			return Decision{Act: Tell, Word: fmt.Sprintf("%s is there again after %s", s.who(), (s.beat - s.lastSeen).Round(100*time.Millisecond))}
		case !s.missed && !s.silent && s.runSilent > early && (!s.printed || now-s.printedAt > g.cfg.Timeout) && slices.ContainsFunc(g.states, func(s rankState) bool { return s.active() && s.beat >= now-recent }):
			s.missed, s.printed, s.printedAt, s.lastSeen = true, true, now, s.beat
			return Decision{Act: Tell, Word: fmt.Sprintf("%s has given no sign of life for %s%s; after %s it counts as lost",
				s.who(), quiet.Round(100*time.Millisecond), s.where(), s.allowedSilence(g.cfg.Silence, g.formed).Round(100*time.Millisecond))}
		}
	}
	return Decision{}
}

// who returns the name of a rank as in verdicts.
func (s *rankState) who() string {
	return (&Verdict{Rank: s.member.Rank, Host: s.member.Host, Pid: s.member.Pid}).who()
}

// where returns what the rank was doing at its last heartbeat.
func (s *rankState) where() string {
	return (&Verdict{Kind: Silent, Phase: s.status.Phase, Step: s.status.Step, Position: s.status.Position}).where()
}

// dozed is the least delay of a tick that shows that the driver was stopped. A busy host
// delays a tick by less.
const dozed = 250 * time.Millisecond

// wake detects whether the driver was stopped since the last tick, by a debugger, Ctrl-Z, a
// closed laptop or a busy machine. Silence during that time has no meaning, and reports of
// the ranks are queued behind this event. The time therefore does not count for any rank,
// and signs are gathered again. It does not count as a heartbeat of any rank: if the driver is
// stopped repeatedly, a lost rank would never be detected.
func (g *Group) wake(now time.Duration) {
	asleep := now - g.tick
	if !g.ticked || g.ended || asleep <= max(g.cfg.Silence/8, dozed) {
		return
	}
	if asleep >= leaves {
		g.pause = pause{end: now, length: asleep}
	}
	later := func(at time.Duration) time.Duration { return min(at+asleep, now) }
	g.tick, g.since, g.began, g.lastJoin, g.doneSince = now, now, later(g.began), later(g.lastJoin), later(g.doneSince)
	for i := range g.states {
		s := &g.states[i]
		s.beat, s.moved, s.silent, s.stuck = later(s.beat), later(s.moved), false, false
	}
}
