// Package mesh is the agent of a machine: it finds the other machines on its roster, keeps
// a connection to each, and starts host processes for them.
//
// # Connections
//
// A connection is TCP with TLS 1.3 and yamux, composed of libp2p's swarm and transports. A
// peer that is not on the roster is disconnected after the handshake, before it can open a
// stream. Every second an agent tries to reach the machines that are not connected, at the
// addresses from mDNS, -bootstrap and other agents. Both sides use a connection, whichever
// dialed, so a machine behind NAT is reached through the connection that it has opened.
//
// # Host processes
//
// A launcher asks the agent of its own machine, which passes the stream on to the agent of
// the other one (package agent). The host process ends when the stream ends, for
// example because the launcher, an agent or the connection is lost.
//
// # Limits
//
// 64 handshakes in progress, 256 streams per peer, 64 host processes.
//
// Nothing panics. Methods are safe for concurrent use.
package mesh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/sec"
	"github.com/libp2p/go-libp2p/p2p/host/eventbus"
	"github.com/libp2p/go-libp2p/p2p/host/peerstore/pstoremem"
	muxer "github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	"github.com/libp2p/go-libp2p/p2p/net/upgrader"
	libp2ptls "github.com/libp2p/go-libp2p/p2p/security/tls"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/wdlrun/wdlrun/internal/hosts/agent"
)

// Config configures an agent.
type Config struct {
	Folder    string   // of the key and the roster
	Listen    string   // HOST:PORT, or Nowhere for a machine that only dials
	Bootstrap []string // MACHINE@HOST:PORT
	MDNS      bool     // find machines of the local network
	Home      string   // of programs that are sent
	Version   string
	Command   []string                         // replaces the program's path as the command of the host process
	Log       func(format string, args ...any) // prints a line
}

// Nowhere is the address of an agent that only dials.
const Nowhere = "none"

// Mesh is a running agent.
type Mesh struct {
	cfg   Config
	id    peer.ID
	life  string // of this process, see examine
	host  string
	swarm *swarm.Swarm
	gate  *gate
	book  *book
	local *net.UnixListener
	every time.Duration // interval of checks of the roster

	mu   sync.Mutex
	jobs map[*exec.Cmd]peer.ID // host processes, by the machine that started them
	idle chan struct{}         // closed when jobs is empty
	stop bool                  // no more are started
}

const (
	// maxStreams is the maximum number of streams that a peer may open.
	maxStreams = 256

	// aliveTime is the interval of keep-alives on an idle connection, and the time limit of
	// their answers.
	aliveTime = 10 * time.Second

	// handshakeTime is the time limit of a handshake.
	handshakeTime = 10 * time.Second
)

// newSwarm composes TCP, TLS and yamux.
func newSwarm(key crypto.PrivKey, g *gate) (*swarm.Swarm, error) {
	mux := muxer.DefaultTransport.Config()
	own := *mux
	own.MaxIncomingStreams, own.KeepAliveInterval, own.ConnectionWriteTimeout = maxStreams, aliveTime, aliveTime
	own.MaxStreamWindowSize = 1 << 20
	muxers := []upgrader.StreamMuxer{{ID: muxer.ID, Muxer: (*muxer.Transport)(&own)}}
	secure, err := libp2ptls.New(libp2ptls.ID, key, muxers)
	if err != nil {
		return nil, err
	}
	up, err := upgrader.New([]sec.SecureTransport{secure}, muxers, nil, g, g, upgrader.WithAcceptTimeout(handshakeTime))
	if err != nil {
		return nil, err
	}
	transport, err := tcp.NewTCPTransport(up, g, nil, tcp.DisableReuseport())
	if err != nil {
		return nil, err
	}
	id, err := peer.IDFromPrivateKey(key)
	if err != nil {
		return nil, err
	}
	peers, err := pstoremem.NewPeerstore()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(peers.AddPrivKey(id, key), peers.AddPubKey(id, key.GetPublic())); err != nil {
		return nil, err
	}
	s, err := swarm.NewSwarm(id, peers, eventbus.NewBus(), swarm.WithConnectionGater(g), swarm.WithResourceManager(g), swarm.WithDialTimeout(handshakeTime))
	if err != nil {
		return nil, err
	}
	return s, s.AddTransport(transport)
}

// listen opens the port of Config.Listen.
func (m *Mesh) listen() error {
	if m.cfg.Listen == Nowhere {
		return nil
	}
	addrs, err := multiaddrs(m.cfg.Listen)
	if err != nil {
		return fmt.Errorf("agent: -listen %q: %w", m.cfg.Listen, err)
	}
	if err := m.swarm.Listen(addrs...); err != nil {
		why := fmt.Errorf("agent: -listen %s: %w", m.cfg.Listen, err)
		if strings.Contains(err.Error(), syscall.EADDRINUSE.Error()) { // the error is only available as text
			why = fmt.Errorf("agent: -listen %s: another process listens there; choose another port", m.cfg.Listen)
		}
		return why
	}
	return nil
}

// multiaddrs returns the addresses for HOST:PORT. Without a host they are all addresses of
// this machine.
func multiaddrs(text string) (all []ma.Multiaddr, err error) {
	host, n, err := splitPort(text)
	if err != nil {
		return nil, err
	}
	ips := []net.IP{net.IPv4zero, net.IPv6unspecified}
	if host != "" {
		ctx, cancel := context.WithTimeout(context.Background(), handshakeTime)
		defer cancel()
		if ips, err = net.DefaultResolver.LookupIP(ctx, "ip", host); err != nil {
			return nil, err
		}
	}
	for _, ip := range ips {
		a, err := manet.FromNetAddr(&net.TCPAddr{IP: ip, Port: int(n)})
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}

// splitPort splits HOST:PORT.
func splitPort(text string) (host string, port uint64, err error) {
	host, digits, err := net.SplitHostPort(text)
	if err != nil {
		return "", 0, errors.New("give HOST:PORT, such as 10.0.0.1:7345 or :7345")
	}
	if port, err = strconv.ParseUint(digits, 10, 16); err != nil {
		return "", 0, fmt.Errorf("%q is not the number of a port", digits)
	}
	return host, port, nil
}

// ID returns the peer ID of this machine.
func (m *Mesh) ID() peer.ID { return m.id }

// Addrs returns the addresses at which other machines may reach this one, as HOST:PORT.
func (m *Mesh) Addrs() (all []string) {
	for _, a := range m.addrs() {
		all = append(all, hostPort(a))
	}
	return all
}

func (m *Mesh) addrs() []ma.Multiaddr {
	all, err := m.swarm.InterfaceListenAddresses()
	if err != nil {
		return nil
	}
	all = slices.DeleteFunc(slices.Clone(all), func(a ma.Multiaddr) bool { return manet.IsIP6LinkLocal(a) })
	return all[:min(len(all), agent.MaxAddrs)]
}

// stopJobs asks the host processes to end and waits for them.
func (m *Mesh) stopJobs() {
	m.mu.Lock()
	m.stop = true
	n := len(m.jobs)
	for cmd := range m.jobs {
		cmd.Process.Signal(syscall.SIGTERM)
	}
	m.mu.Unlock()
	if n == 0 {
		return
	}
	m.cfg.Log("jobs are running (%d): their ranks are asked to end; a second signal kills them", n)
	<-m.idle
}

// Close ends the agent and its host processes.
func (m *Mesh) Close() {
	m.local.Close()
	if m.swarm != nil {
		m.swarm.Close()
		m.swarm.Peerstore().Close()
	}
}
