package mesh

import (
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
)

// book has the state of each machine.
type book struct {
	mu sync.Mutex
	of map[peer.ID]*known
}

// known is the state of a machine on the roster.
type known struct {
	bootstrap []string       // HOST:PORT, resolved at each attempt
	addrs     []ma.Multiaddr // from mDNS and other agents, the newest first
	host      string         // at the last connection
	fault     string         // of the last attempt
	wait      time.Duration  // after the next failed attempt
	next      time.Time      // of the next attempt
	dialing   bool
	twins     string  // why several machines seem to have this ID; "": one has it
	toldBy    peer.ID // of this machine's own ID: who has reported twins
}

func newBook() *book { return &book{of: map[peer.ID]*known{}} }

// with calls f with the state of a machine.
func (b *book) with(id peer.ID, f func(*known)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.of[id]
	if k == nil {
		k = &known{wait: minWait}
		b.of[id] = k
	}
	f(k)
}

// minWait and maxWait are the limits of the time between two attempts to reach a machine.
const (
	minWait = time.Second
	maxWait = 30 * time.Second
)
