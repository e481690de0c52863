package tcp

import (
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
	told    uint64 // serial that peers were told of

	shutting bool      // no exchange begins any more
	left     sync.Cond // of an exchange that has ended

	waiter waiter // of the goroutine that exchanges
}

func (s *slot) init() { s.left.L = &s.mu }

// enter opens an exchange; it reports false if there is none any more.
func (s *slot) enter(rank int, tag collective.Tag) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shutting {
		return false
	}
	if s.tag.Seq != tag.Seq {
		s.ledger.Note(rank, tag)
	}
	s.tag, s.waiting = tag, true
	s.serial++
	return true
}

// leave closes it.
func (s *slot) leave() {
	s.mu.Lock()
	s.waiting = false
	s.mu.Unlock()
	s.left.Signal()
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

// stalled reports the exchange that was in progress at the last look already and
// that peers were not told of.
func (s *slot) stalled() (collective.Tag, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := s.waiting && s.seen == s.serial && s.told != s.serial
	s.seen = s.serial
	if is {
		s.told = s.serial
	}
	return s.tag, is
}

// watch tells all peers of exchanges that wait for long, so that those in
// another call find out.
func (t *Transport) watch() {
	tick := time.NewTicker(stallTime)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			for i := range t.slots {
				if tag, ok := t.slots[i].stalled(); ok {
					t.tell(kindStalled, tag.Append(nil))
				}
			}
		case <-t.quit:
			return
		}
	}
}
