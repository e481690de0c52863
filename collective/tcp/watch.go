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

	blocked bool     // the exchange sleeps until one of these moves
	out, in *link    // nil: not that one
	chased  []uint64 // by rank: the last probe that it began and this rank passed on
	probes  uint64   // begun by this rank

	shutting bool      // no exchange begins any more
	left     sync.Cond // of an exchange that has ended

	waiter waiter // of the goroutine that exchanges
}

func (s *slot) init() { s.left.L = &s.mu }

// enter opens an exchange; it reports false if there is none any more.
func (s *slot) enter(rank int, tag collective.Tag, out, in *link) bool {
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
	if out != nil {
		out.sends++
	}
	if in != nil {
		in.awaits++
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

// block says that the exchange is about to sleep until out or in moves; unblock,
// that it is awake.
func (s *slot) block(out, in *link) {
	s.mu.Lock()
	s.blocked, s.out, s.in = true, out, in
	s.mu.Unlock()
}

func (s *slot) unblock() {
	s.mu.Lock()
	s.blocked = false
	s.mu.Unlock()
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

// stalled returns at how many looks before this one the exchange in progress was
// seen, and its tag.
func (s *slot) stalled() (collective.Tag, uint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting && s.seen == s.serial {
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
				tag, looks := t.slots[i].stalled()
				if looks == 1 {
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
