package tcp

import (
	"math/bits"
	"sync"
	"time"

	"github.com/wdlrun/wdlrun/collective"
)

// stallTime is how often exchanges are looked at.
const stallTime = 250 * time.Millisecond

// slot is what is known of the exchange in progress on one channel.
type slot struct {
	mu      sync.Mutex
	waiting bool
	serial  uint64 // of the exchange
	seen    uint64 // serial at the last look
	stall   uint   // looks at which it was seen already

	lanes []lane // what carries an exchange, by stream
	posts []lane // what carries several at once

	shutting bool      // no exchange begins any more
	left     sync.Cond // of an exchange that has ended
}

func (s *slot) init(streams int) {
	s.left.L = &s.mu
	s.lanes = make([]lane, streams)
	for k := 1; k < streams; k++ {
		s.lanes[k].jobs, s.lanes[k].done = make(chan collective.Tag, 1), make(chan error, 1)
	}
}

// room makes room for n exchanges at once.
func (s *slot) room(n int) {
	if n > len(s.posts) {
		s.mu.Lock()
		s.posts = make([]lane, n)
		s.mu.Unlock()
	}
}

// enter opens an exchange, or several; it reports false if there is none any more.
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

// leave closes it.
func (s *slot) leave() {
	s.mu.Lock()
	s.waiting = false
	s.mu.Unlock()
	s.left.Signal()
}

// block says that the caller is about to sleep until what some lanes send, or what
// they receive, moves; without either, that it is awake.
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

// blocked reports whether the exchange cannot end before what it sends, or what it
// receives, moves. The caller holds mu.
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

// shut lets no exchange begin any more, and waits for the one in progress.
func (s *slot) shut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shutting = true
	for s.waiting {
		s.left.Wait()
	}
}

// stalled returns at how many looks before this one the exchange in progress was seen.
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

// watch looks at the exchanges now and then. While one stands still, small frames go to the
// peers on other hosts, ever less often: a peer that gets them, and no message, learns that
// large packets alone are lost.
func (t *Transport) watch() {
	tick := time.NewTicker(stallTime)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			for i := range t.slots {
				t.slots[i].look()
				if looks := t.slots[i].stalled(); looks >= leastStill && bits.OnesCount(looks) == 1 {
					t.knock()
				}
			}
		case <-t.quit:
			return
		}
	}
}

// knock sends a small frame to every peer on another host.
func (t *Transport) knock() {
	for _, p := range t.peers {
		if p != nil && !p.near && !p.hasLeft() {
			p.control.write(appendControl(nil, kindKnock, nil))
		}
	}
}
