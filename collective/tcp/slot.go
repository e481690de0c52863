package tcp

import (
	"github.com/wdlrun/wdlrun/collective"
)

func (s *slot) init(streams int) {
	s.left.L = &s.mu
	s.lanes = make([]lane, streams)
	for k := 1; k < streams; k++ {
		s.lanes[k].jobs, s.lanes[k].done = make(chan collective.Tag, 1), make(chan error, 1)
	}
}

// reserve allocates lanes for n exchanges at once.
func (s *slot) reserve(n int) {
	if n > len(s.posts) {
		s.mu.Lock()
		s.posts = make([]lane, n)
		s.mu.Unlock()
	}
}

// enter begins an exchange, or several at once. It returns false if the slot is shut.
func (s *slot) enter(t *Transport, tag collective.Tag, posts []collective.Post) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shutting {
		return false
	}
	s.waiting = true
	s.serial++
	for i := range posts {
		if to := posts[i].To; to >= 0 {
			t.peers[to].begun[tag.Channel].sends++
		}
		if from := posts[i].From; from >= 0 {
			t.peers[from].begun[tag.Channel].awaits++
		}
	}
	return true
}

// end ends the exchange.
func (s *slot) end() {
	s.mu.Lock()
	s.waiting = false
	s.mu.Unlock()
	s.left.Signal()
}

// block records that the caller is about to sleep until bytes can be sent (out) or received
// (in) on the lanes. If both are false it is awake.
func (s *slot) block(lanes []lane, out, in bool) {
	s.mu.Lock()
	for k := range lanes {
		n := &lanes[k]
		n.blockedOut, n.blockedIn = out && n.out.sending(), in && n.in.receiving()
		if n.blockedOut || n.blockedIn {
			n.naps++
		}
	}
	s.mu.Unlock()
}

// blocked reports whether the exchange sleeps until bytes can move. The caller holds mu.
func (s *slot) blocked() bool {
	for _, lanes := range [2][]lane{s.lanes, s.posts} {
		for k := range lanes {
			if s.waiting && (lanes[k].blockedOut || lanes[k].blockedIn) {
				return true
			}
		}
	}
	return false
}

// shut lets no more exchanges begin and waits for the one in progress.
func (s *slot) shut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shutting = true
	for s.waiting {
		s.left.Wait()
	}
}

// stalled returns the number of earlier looks at which the current exchange was seen.
func (s *slot) stalled() uint {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting && s.seen == s.serial {
		s.stall++
	} else {
		s.stall = 0
	}
	s.seen = s.serial
	return s.stall
}

// countStalled counts the lanes that are in the same sleep as at the last call. A lane whose socket
// is ready is not asleep: an overloaded system has not run it yet.
func (s *slot) countStalled() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, lanes := range [2][]lane{s.lanes, s.posts} {
		for k := range lanes {
			n := &lanes[k]
			if s.waiting && (n.blockedOut || n.blockedIn) && n.naps == n.napsSeen && !n.ready() {
				n.still++
			} else {
				n.still = 0
			}
			n.napsSeen = n.naps
		}
	}
}

// minStill is the number of consecutive looks in one sleep after which a lane has
// stalled: one second.
const minStill = 4
