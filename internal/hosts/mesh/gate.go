package mesh

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/control"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/wdlrun/wdlrun/internal/hosts/agent"
)

// gate admits the peers of the roster, and limits the concurrent handshakes. It is a
// connection gater and a resource manager of libp2p.
type gate struct {
	network.NullResourceManager
	self peer.ID
	log  func(format string, args ...any)

	mu     sync.Mutex
	roster agent.Roster
	logged map[peer.ID]time.Time // when a rejection was reported

	handshakes atomic.Int32
}

const (
	// maxHandshakes is the maximum number of handshakes of incoming connections.
	maxHandshakes = 64

	// logInterval is the time between two lines about the same stranger, and maxLogged the
	// maximum number of strangers reported within it.
	logInterval = time.Minute
	maxLogged   = 8
)

func newGate(self peer.ID, roster agent.Roster, log func(string, ...any)) *gate {
	return &gate{self: self, roster: roster, log: log, logged: map[peer.ID]time.Time{}}
}

// current returns the roster.
func (g *gate) current() agent.Roster {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.roster
}

// replace replaces the roster.
func (g *gate) replace(r agent.Roster) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.roster = r
}

// admits reports whether a peer is on the roster.
func (g *gate) admits(id peer.ID) bool { return g.current().Has(id) }

func (g *gate) InterceptPeerDial(id peer.ID) bool                 { return g.admits(id) }
func (g *gate) InterceptAddrDial(id peer.ID, _ ma.Multiaddr) bool { return true }
func (g *gate) InterceptAccept(network.ConnMultiaddrs) bool       { return true }

func (g *gate) InterceptSecured(dir network.Direction, id peer.ID, addrs network.ConnMultiaddrs) bool {
	if g.admits(id) {
		return true
	}
	if dir == network.DirInbound && id != g.self && g.reports(id) {
		g.log("rejected %s, peer %s: it is not on the roster; to admit it: wdlrun agent allow %[2]s", hostPort(addrs.RemoteMultiaddr()), id)
	}
	return false
}

func (g *gate) InterceptUpgraded(network.Conn) (bool, control.DisconnectReason) { return true, 0 }

// reports reports whether to log the rejection of a peer.
func (g *gate) reports(id peer.ID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	for p, at := range g.logged {
		if now.Sub(at) > logInterval {
			delete(g.logged, p)
		}
	}
	if _, logged := g.logged[id]; logged || len(g.logged) == maxLogged {
		return false
	}
	g.logged[id] = now
	return true
}

// OpenConnection counts a connection before its handshake.
func (g *gate) OpenConnection(dir network.Direction, _ bool, _ ma.Multiaddr) (network.ConnManagementScope, error) {
	s := &scope{gate: g}
	if dir == network.DirOutbound {
		s.counted.Store(true)
		return s, nil
	}
	if g.handshakes.Add(1) > maxHandshakes {
		g.handshakes.Add(-1)
		return nil, network.ErrResourceLimitExceeded
	}
	return s, nil
}

// scope is a connection whose peer is not yet known.
type scope struct {
	network.NullScope
	gate    *gate
	counted atomic.Bool // not counted as a handshake any more
	known   atomic.Bool
}

func (s *scope) PeerScope() network.PeerScope {
	if !s.known.Load() {
		return nil
	}
	return &s.NullScope
}

func (s *scope) SetPeer(peer.ID) error {
	s.known.Store(true)
	s.Done()
	return nil
}

func (s *scope) Done() {
	if !s.counted.Swap(true) {
		s.gate.handshakes.Add(-1)
	}
}

// hostPort returns an address as HOST:PORT.
func hostPort(a ma.Multiaddr) string {
	if _, text, err := manet.DialArgs(a); err == nil {
		return text
	}
	return a.String()
}
