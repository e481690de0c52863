package tcp

import (
	"time"

	"github.com/wdlrun/wdlrun/collective"
)

// Stalled returns the messages from and to other hosts on which nothing has moved for at
// least one second. It never waits for an exchange.
func (t *Transport) Stalled() (all []collective.Stalled) {
	for c := range t.slots {
		s := &t.slots[c]
		s.mu.Lock()
		for _, lanes := range [2][]lane{s.lanes, s.posts} {
			for k := range lanes {
				n := &lanes[k]
				if !s.waiting || n.still < minStill {
					continue
				}
				if n.blockedOut {
					all = t.stalled(all, n.out.peer, c, true, n.still)
				}
				if n.blockedIn {
					all = t.stalled(all, n.in.peer, c, false, n.still)
				}
			}
		}
		s.mu.Unlock()
	}
	return all
}

// stalled appends one message, unless it stays on this host. The caller holds mu of the
// channel's slot.
func (t *Transport) stalled(all []collective.Stalled, p *peer, channel int, sends bool, still int) []collective.Stalled {
	if p.near {
		return all
	}
	x := collective.Stalled{Peer: p.rank, Channel: channel, Sends: sends, Message: p.begun[channel].awaits, For: time.Duration(still) * stallTime}
	if sends {
		x.Message = p.begun[channel].sends
	}
	return append(all, x)
}

// Begun returns how many messages this rank has begun to send to, and to receive from, its
// peers on other hosts. Messages that are moving now do not count yet. Small messages are
// control frames, which a rank sends from time to time while its exchange is stalled.
func (t *Transport) Begun() (all []collective.Begun) {
	for c := range t.slots {
		s := &t.slots[c]
		s.mu.Lock()
		moving := uint64(0)
		if s.waiting && !s.blocked() {
			moving = 1
		}
		for _, p := range t.peers {
			if p == nil || p.near {
				continue
			}
			if b := p.begun[c]; b.sends > moving || b.awaits > moving {
				all = append(all, collective.Begun{Peer: p.rank, Channel: c, Sent: b.sends - min(moving, b.sends), Received: b.awaits - min(moving, b.awaits),
					Quiet: time.Since(time.Unix(0, p.lastControl.Load()))})
			}
		}
		s.mu.Unlock()
	}
	return all
}

// Resent reports for each peer on another host the packets that were sent to it since the last call,
// and those of them that were sent again because they were not acknowledged. Only one goroutine may
// call it. Other systems than Linux do not count packets.
func (t *Transport) Resent(report func(peer int, packets, again uint64)) {
	t.linksMu.Lock()
	defer t.linksMu.Unlock()
	for _, p := range t.peers {
		if t.gone || p == nil || p.near {
			continue
		}
		var packets, again uint64
		for _, l := range p.data {
			if l.sock == nil {
				continue
			}
			p, a := l.sock.packets()
			packets, again = packets+uint64(p-l.packets), again+uint64(a-l.again)
			l.packets, l.again = p, a
		}
		report(p.rank, packets, again)
	}
}
