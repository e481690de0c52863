package tcp

import (
	"math/bits"
	"sync"
	"time"

	"github.com/wdlrun/wdlrun/collective"
)

// stallTime is the interval between looks at the exchanges.
const stallTime = 250 * time.Millisecond

// slot is the state of the exchange in progress on one channel.
type slot struct {
	mu      sync.Mutex
	waiting bool
	serial  uint64 // number of the exchange
	seen    uint64 // serial at the last look
	stall   uint   // earlier looks at which the same exchange was seen

	lanes []lane // parts of an exchange, by stream
	posts []lane // exchanges made at once

	shutting bool      // no more exchanges may begin
	left     sync.Cond // signals that an exchange has ended
}

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

// leave ends the exchange.
func (s *slot) leave() {
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

// watch looks at the exchanges every stallTime. While one has stalled, it sends small
// frames to the peers on other hosts, less and less often. A peer that receives them and no
// message learns that only large packets are lost.
func (t *Transport) watch() {
	tick := time.NewTicker(stallTime)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			for i := range t.slots {
				t.slots[i].look()
				if looks := t.slots[i].stalled(); looks >= minStill && bits.OnesCount(looks) == 1 {
					t.probe()
				}
			}
		case <-t.quit:
			return
		}
	}
}

// probe sends a small frame to every peer on another host.
func (t *Transport) probe() {
	for _, p := range t.peers {
		if p != nil && !p.near && !p.hasLeft() {
			p.control.write(controlOf(kindProbe, nil))
		}
	}
}
