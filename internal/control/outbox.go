package control

import (
	"sync"

	"github.com/wdlrun/wdlrun/internal/control/controlpb"
)

// outbox holds the messages for one rank until its stream sends them. Adding one never
// blocks, so a rank that does not read cannot delay the others.
type outbox struct {
	mu    sync.Mutex
	queue []*controlpb.ToRank
	last  bool // the queue holds the last message
	wake  chan struct{}
}

func (b *outbox) put(m *controlpb.ToRank) { b.add(m, maxQueue, false) }

// offer adds an order.
func (b *outbox) offer(m *controlpb.ToRank) { b.add(m, maxOrders, false) }

// finish adds the last message, for which there is always space.
func (b *outbox) finish(m *controlpb.ToRank) { b.add(m, maxQueue+1, true) }

func (b *outbox) add(m *controlpb.ToRank, limit int, last bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last || len(b.queue) >= limit {
		return
	}
	b.queue, b.last = append(b.queue, m), last
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *outbox) take() (queue []*controlpb.ToRank, last bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	queue, b.queue = b.queue, nil
	return queue, b.last
}

// Limits of the messages that wait for a rank that does not read. Orders are dropped first,
// since such a rank will soon be declared silent. Other messages are few: more than maxQueue
// of them are only caused by a faulty rank.
const (
	maxOrders = 64
	maxQueue  = 128
)

func newOutbox() *outbox { return &outbox{wake: make(chan struct{}, 1)} }
