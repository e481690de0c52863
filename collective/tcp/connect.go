package tcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/wdlrun/wdlrun/collective"
)

const (
	// handshakeTime is the time limit of a connection for proving the key.
	handshakeTime = 5 * time.Second
	// unprovenMax is the largest number of connections that have not proved the key, in
	// addition to the expected ones.
	unprovenMax = 64
	// acceptPause is the pause after accept has failed.
	acceptPause = 50 * time.Millisecond
	// partTime bounds the time for sending a rejected peer the reason.
	partTime = 200 * time.Millisecond
	// Pauses between attempts to dial a peer.
	pauseMin, pauseMax = 5 * time.Millisecond, 500 * time.Millisecond
)

// forming is a group that is being connected.
type forming struct {
	cfg      Config
	want     hello         // the contents of every hello of the group
	patience time.Duration // time for a connection to prove the key
	complete chan struct{} // closed when all links are made
	failed   chan struct{} // closed when fatal is set

	mu       sync.Mutex
	links    map[linkID]net.Conn
	missing  map[linkID]bool
	fatal    error
	last     error          // error of the latest attempt
	unproven []*net.TCPConn // oldest first
	over     bool           // no more connections are accepted

	telling sync.Mutex // serialises calls of Config.Refused
}

func newForming(cfg Config) *forming {
	f := &forming{
		cfg:      cfg,
		want:     hello{size: uint32(len(cfg.Peers)), channels: uint16(cfg.Channels), streams: uint8(cfg.Streams), secured: cfg.Secure != nil, generation: uint64(cfg.Generation)},
		patience: min(handshakeTime, cfg.Timeout/2),
		complete: make(chan struct{}),
		failed:   make(chan struct{}),
		links:    make(map[linkID]net.Conn),
		missing:  make(map[linkID]bool),
	}
	for p := range cfg.Peers {
		for _, link := range cfg.links() {
			if p != cfg.Rank {
				f.missing[linkID{p, link}] = true
			}
		}
	}
	if len(f.missing) == 0 {
		close(f.complete)
	}
	return f
}

// links returns the numbers of the links with a peer: data, and control last.
func (c Config) links() []uint16 {
	var all []uint16
	for i := range c.Channels * c.Streams {
		all = append(all, uint16(i))
	}
	return append(all, linkControl)
}

// fits returns an error if this process may not open as many files as it has links: the connections
// would only come to nothing after a time limit.
func (f *forming) fits() error {
	spare, limit := spareFiles()
	if need := len(f.missing); limit > 0 && need > spare {
		return fmt.Errorf("%d connections are needed, and this process may open %d more files, %d in all: raise the limit (ulimit -n), or give a smaller -streams", need, max(spare, 0), limit)
	}
	return nil
}

func (f *forming) outcome(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.missing) == 0 {
		return nil
	}
	if f.fatal != nil {
		return f.fatal
	}
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return context.Cause(ctx)
	}
	ranks := f.missingRanks()
	cause := fmt.Errorf("no link from rank %s within %v: did it start, and can it reach this address?", list(ranks), f.cfg.Timeout)
	if f.last != nil {
		cause = fmt.Errorf("%w (last attempt: %w)", cause, f.last)
	}
	return &collective.LostError{Rank: ranks[0], By: f.cfg.Rank, Cause: cause}
}

// missingRanks returns the ranks to which a link is missing, in order. The caller holds mu.
func (f *forming) missingRanks() []int {
	var ranks []int
	for id := range f.missing {
		ranks = append(ranks, id.peer)
	}
	slices.Sort(ranks)
	return slices.Compact(ranks)
}

// list formats ranks for an error message, shortened to fit a line.
func list(ranks []int) string {
	const shown = 8
	s := ""
	for i, r := range ranks[:min(len(ranks), shown)] {
		if i > 0 {
			s += ", "
		}
		s += fmt.Sprint(r)
	}
	if more := len(ranks) - shown; more > 0 {
		s += fmt.Sprintf(" and %d more", more)
	}
	return s
}

// abandon sends the connected peers the reason why this rank gives up and closes their
// links.
func (f *forming) abandon(err error) {
	cause := collective.Cause(f.cfg.Rank, err)
	frame := controlOf(kindAbort, collective.AppendCause(nil, cause))
	for id, conn := range f.links {
		if id.link == linkControl {
			conn.SetWriteDeadline(time.Now().Add(controlTime))
			conn.Write(frame)
		}
		conn.Close()
	}
}

// fail ends the forming with an error that another attempt cannot fix.
func (f *forming) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fatal == nil {
		f.fatal = err
		close(f.failed)
	}
}

// secure encrypts a link that has proved the key, if the group encrypts. It closes conn if
// that fails.
func (f *forming) secure(conn *net.TCPConn, id linkID, server bool) (net.Conn, error) {
	setOptions(conn, id)
	if f.cfg.Secure == nil {
		return conn, nil
	}
	conn.SetDeadline(time.Now().Add(f.patience))
	under := &pipe{TCPConn: conn}
	over, err := f.cfg.Secure(under, id.peer, server)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("securing the link: %w", err)
	}
	return &secured{over, under}, nil
}

// addLink keeps a link that has proved the key. A second link with the same ID replaces the
// first, which its dialer has given up.
func (f *forming) addLink(id linkID, conn net.Conn) {
	conn.SetDeadline(time.Time{})
	f.mu.Lock()
	defer f.mu.Unlock()
	if old := f.links[id]; old != nil {
		old.Close()
	}
	f.links[id] = conn
	if f.missing[id] {
		delete(f.missing, id)
		if len(f.missing) == 0 {
			close(f.complete)
		}
	}
}
