package tcp

import (
	"math/bits"
	"sync"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/internal/calls"
)

// stallTime is between one and two times how long an exchange waits before the
// peers are told what it waits for.
const stallTime = 250 * time.Millisecond

// slot is what is known of the exchange in progress on one channel.
type slot struct {
	ledger calls.Ledger // this rank's calls

	mu      sync.Mutex
	tag     collective.Tag
	waiting bool
	serial  uint64 // of the exchange
	seen    uint64 // serial at the last look
	stall   uint   // looks at which it was seen already

	lanes    []lane   // what carries an exchange, by stream
	posts    []lane   // what carries several at once
	mates    []int    // whom this rank meets elsewhere; nil: it does not
	meetings uint64   // begun elsewhere
	chased   []uint64 // by rank: the last probe that it began and this rank passed on
	probes   uint64   // begun by this rank

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
	if s.tag.Seq != tag.Seq {
		s.ledger.Note(t.rank, tag)
	}
	s.tag, s.waiting = tag, true
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

// Elsewhere says that this rank, in the call of tag, goes to meet other ranks by
// other means than this transport, such as memory that they share; Back, that it is
// back. So ranks are found that wait for each other partly there. mates are all who
// meet, by rank, with this one, and on a channel the same in every meeting.
func (t *Transport) Elsewhere(tag collective.Tag, mates []int) {
	s := &t.slots[tag.Channel]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tag.Seq != tag.Seq {
		s.ledger.Note(t.rank, tag)
	}
	s.tag, s.mates = tag, mates
	s.serial++
	s.meetings++
}

// Back is told of with Elsewhere.
func (t *Transport) Back(channel int) {
	s := &t.slots[channel]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mates = nil
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

// stalled returns at how many looks before this one the exchange in progress, or the
// meeting elsewhere, was seen, and its tag.
func (s *slot) stalled() (collective.Tag, uint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if (s.waiting || s.mates != nil) && s.seen == s.serial {
		s.stall++
	} else {
		s.stall = 0
	}
	s.seen = s.serial
	return s.tag, s.stall
}

// watch tells all peers of exchanges that wait for long, so that those in another
// call find out, and looks for circles of waiting ranks: at first soon, then ever
// less often.
func (t *Transport) watch() {
	tick := time.NewTicker(stallTime)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			for i := range t.slots {
				t.slots[i].look()
				tag, looks := t.slots[i].stalled()
				if looks == 1 && tag.Seq > 0 { // else it is no call yet, but what comes before the first
					t.tell(kindStalled, tag.Append(nil))
				}
				if bits.OnesCount(looks) == 1 {
					t.probe(&t.slots[i])
				}
			}
		case <-t.quit:
			return
		}
	}
}
