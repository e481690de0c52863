package shm

import (
	"sync/atomic"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/internal/calls"
)

// Ranks that are in different calls may wait for each other in a circle without
// one of them ever seeing what another is in. A rank that sleeps tells in shared
// memory what for, and each that wakes from a sleep looks for a circle of sleepers
// (see calls.Waits).

// rest is what a rank sleeps for. It changes only while the rank is awake.
type rest struct {
	version atomic.Uint64 // odd: asleep; grows with each change
	tag     [tagWords]atomic.Uint64
	meeting atomic.Uint64 // serial of the posts that it waits for; 0: it is in an exchange
	to      atomic.Int32  // whose ring has no room for it; negative: nobody's
	from    atomic.Int32  // who has sent nothing more; negative: it waits for nobody
	_       [8]byte
}

// begin tells that the rank falls asleep, end that it is awake.
func (r *rest) begin(tag [tagWords]uint64, meeting uint64, to, from int) {
	for i := range tag {
		r.tag[i].Store(tag[i])
	}
	r.meeting.Store(meeting)
	r.to.Store(int32(to))
	r.from.Store(int32(from))
	r.version.Add(1)
}

func (r *rest) end() { r.version.Add(1) }

// sleeper is a rank as a search saw it.
type sleeper struct {
	version uint64 // even: it is awake
	looked  bool
	tag     collective.Tag
}

// search looks for a circle. As long as all ranks of one keep the versions that
// they had at the start, they slept all the time, so that none of the waits
// between them can have ended while they were looked at, or ever will.
type search struct {
	t       *Transport
	s       *slot
	channel int
	goal    int
	seen    []sleeper
	a, b    int // on the circle; if they differ, in different calls
}

// circle returns a mismatch if this rank is in a circle of ranks that wait for
// each other.
func (t *Transport) circle(s *slot, channel int) *collective.MismatchError {
	if s.seen == nil {
		s.seen = make([]sleeper, t.size)
	}
	for r, d := range s.desks {
		s.seen[r] = sleeper{version: d.rest.version.Load()}
		if s.seen[r].version&1 != 0 {
			var w [tagWords]uint64
			for i := range w {
				w[i] = d.rest.tag[i].Load()
			}
			s.seen[r].tag = tagOf(w)
		}
	}
	look := search{t: t, s: s, channel: channel, goal: t.rank, seen: s.seen}
	if !look.follow(t.rank) || look.a == look.b { // of one call: its schedule has no circle
		return nil
	}
	return &collective.MismatchError{
		Peer: collective.Side{Rank: look.b, Tag: s.seen[look.b].tag, Bytes: -1},
		Own:  collective.Side{Rank: look.a, Tag: s.seen[look.a].tag, Bytes: -1},
	}
}

// follow follows the waits from rank at and reports whether they lead to goal over
// ranks that still sleep.
func (l *search) follow(at int) bool {
	for next := range l.seen {
		n := &l.seen[next]
		if n.version&1 == 0 || n.looked && next != l.goal || !l.waits(at, next) {
			continue
		}
		n.looked = true
		if next != l.goal && !l.follow(next) {
			continue
		}
		if l.a == l.b && !calls.Alike(l.seen[at].tag, n.tag) {
			l.a, l.b = at, next
		}
		return l.s.desks[at].rest.version.Load() == l.seen[at].version
	}
	return false
}

// waits reports whether rank a, which sleeps, waits for rank b.
func (l *search) waits(a, b int) bool {
	r := &l.s.desks[a].rest
	if serial := r.meeting.Load(); serial != 0 {
		return a != b && l.s.desks[b].posts[serial&1].serial.Load() < serial
	}
	if int(r.to.Load()) == b {
		if g := l.ring(a, b); g.sent.Load()-g.taken.Load() == ringBytes {
			return true
		}
	}
	if int(r.from.Load()) == b {
		g := l.ring(b, a)
		return g.sent.Load() == g.taken.Load()
	}
	return false
}

// ring returns the ring from one rank to another.
func (l *search) ring(from, to int) *ring {
	if from == l.t.rank {
		return l.t.page.ring(l.channel, to)
	}
	return l.t.peers[from].page.ring(l.channel, to)
}
