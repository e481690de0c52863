package rank

import (
	"fmt"
	"slices"
	"time"
)

const (
	// MaxWaits and MaxBegun bound a report.
	MaxWaits = 64
	MaxBegun = 4096

	// cutAfter is how long a message must be stalled before its link counts as broken:
	// several retransmissions of TCP at any round trip below half a second.
	cutAfter = 3 * time.Second
	// begunFor is how long the coordinator must know that the peer has begun the message
	// before the rank reports the stall again. If a slow peer has only just begun the
	// message, it is still in transit, and the waiting rank's last report is older.
	begunFor = 1500 * time.Millisecond
	// askEvery is the interval at which the ranks are asked while a message is stalled.
	askEvery = 500 * time.Millisecond
	// smallAfter is how long after the start of a stall a small message must arrive to show
	// that small messages pass. One sent earlier may arrive later.
	smallAfter = 250 * time.Millisecond
	// freshTraffic is the largest age of an answer.
	freshTraffic = 1500 * time.Millisecond
)

// disagree ends the group if ranks disagree about a call. While signs are being gathered it
// waits for them.
func (g *Group) disagree() Decision {
	if g.differ == nil || g.trouble {
		return Decision{}
	}
	s := &g.states[g.differ.Ranks[0]]
	return g.condemn(&Verdict{Kind: Disagree, Rank: -1, Phase: s.status.Phase, Step: s.status.Step, Cause: g.differ.String()})
}

// links searches for a broken link between two ranks that both reach the coordinator. A
// rank that computes, or waits for a third one, has not begun the message that its peer
// waits for, and is not at fault. While a message is stalled, all ranks are asked which
// messages they have begun.
func (g *Group) links(now time.Duration) Decision {
	ask, suspects := false, []suspect(nil)
	for i := range g.states {
		a := &g.states[i]
		if !a.active() || now-a.trafficAt > freshTraffic {
			continue
		}
		for _, w := range a.traffic.Waits {
			b := g.state(w.Peer)
			if b == nil || b == a || !b.active() || b.member.Host == a.member.Host {
				continue
			}
			if b.begun(i, w) && now-b.trafficAt <= freshTraffic {
				s := g.suspect(i, w, now)
				if w.For >= cutAfter && a.trafficAt-s.since >= begunFor {
					return g.condemn(g.cut(i, w))
				}
				suspects = append(suspects, s)
			}
			ask = true
		}
	}
	g.suspects = suspects
	if ask && (g.askedAt == 0 || now-g.askedAt >= askEvery) {
		g.askedAt = now
		return Decision{Act: Ask}
	}
	return Decision{}
}

// suspect returns the suspected message of a wait, with the time of the first suspicion.
func (g *Group) suspect(rank int, w Wait, now time.Duration) suspect {
	s := suspect{rank, w.Peer, w.Channel, w.Sends, w.Message, now}
	for _, old := range g.suspects {
		if s.since = old.since; s == old {
			return s
		}
	}
	s.since = now
	return s
}

// begun reports whether this rank has begun the message that peer waits for.
func (s *rankState) begun(peer int, w Wait) bool {
	i := slices.IndexFunc(s.traffic.Begun, func(b Begun) bool { return b.Peer == peer && b.Channel == w.Channel })
	switch {
	case i < 0:
		return false
	case w.Sends:
		return s.traffic.Begun[i].Received >= w.Message
	}
	return s.traffic.Begun[i].Sent >= w.Message
}

// hears reports whether a small message has arrived from peer since a time.
func (s *rankState) hears(peer int, since time.Duration) bool {
	return slices.ContainsFunc(s.traffic.Begun, func(b Begun) bool { return b.Peer == peer && s.trafficAt-b.Quiet > since })
}

// cut returns the verdict on a broken link.
func (g *Group) cut(rank int, w Wait) *Verdict {
	lo, hi := min(rank, w.Peer), max(rank, w.Peer)
	a, b := &g.states[lo], &g.states[hi]
	does := "from"
	if w.Sends {
		does = "to"
	}
	text := fmt.Sprintf("ranks %d and %d no longer reach each other (host %s ↔ host %s); both answer the coordinator; nothing has moved %s rank %d at rank %d for %s",
		lo, hi, a.member.Host, b.member.Host, does, w.Peer, rank, w.For.Round(100*time.Millisecond))
	// Small messages that pass in one direction only show that the other direction is
	// broken.
	since := g.states[rank].trafficAt - w.For + smallAfter
	if a.hears(hi, since) && b.hears(lo, since) {
		text += "; small messages pass and large ones do not: does a device on the way drop packets of the MTU's size?"
	}
	s := &g.states[rank]
	return &Verdict{Kind: Cut, Rank: -1, Phase: s.status.Phase, Step: s.status.Step, Quiet: w.For, Cause: text}
}
