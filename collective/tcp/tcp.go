package tcp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/machine/ports"
)

// defaultTimeout bounds Connect. It is long enough for a host that starts its ranks late.
const defaultTimeout = 30 * time.Second

// defaultChannels is one channel for training and one for concurrent work.
const defaultChannels = 2

// MaxStreams is the largest value of Config.Streams. Fewer fill any link.
const MaxStreams = 16

// Config describes the group to join.
type Config struct {
	Rank       int
	Peers      []string      // address of every rank, by rank; this rank's own is not dialed
	Key        []byte        // the job's key, 32 bytes
	Generation int           // formation of the group; ranks of another one are rejected
	Channels   int           // 0: 2
	Timeout    time.Duration // of Connect; 0: 30 s

	// Streams is the number of connections for the data of a channel between two ranks.
	// Each is served by its own goroutine. 0: 1. More help if one core cannot fill the
	// link, as with Secure, or if the network limits single connections. It is the same on
	// all ranks.
	Streams int

	// Secure, if not nil, encrypts each link after the proof of the key. It returns the
	// connection to use instead of conn, whose other end is rank peer. Secure must
	// authenticate that rank, as package peertls does, because the proof of the key is not
	// bound to the encryption. server is true on the accepting side. Deadlines are set on
	// conn meanwhile. Afterwards Reads of conn may fail with a temporary net.Error. The
	// returned connection must continue with the next Read, as crypto/tls does, and must
	// write to conn inside Write. Either all ranks set Secure or none does.
	Secure func(conn net.Conn, peer int, server bool) (net.Conn, error)

	// Refused, if not nil, is called with the reason for each rejected connection. Calls do
	// not overlap. It must not block.
	Refused func(error)

	stripe int // bytes per stream; 0: stripeBytes
}

// validate reports all faults.
func (c Config) validate() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf("tcp: config: "+format, args...)) }
	if n := len(c.Peers); n < 1 || n > collective.MaxSize {
		fault("%d peers, want 1 to %d", n, collective.MaxSize)
	} else if c.Rank < 0 || c.Rank >= n {
		fault("rank %d of %d", c.Rank, n)
	}
	for i, p := range c.Peers {
		if _, _, err := net.SplitHostPort(p); err != nil && i != c.Rank {
			fault("address of rank %d: %v", i, err)
		}
	}
	if len(c.Key) != keySize {
		fault("job key of %d bytes, want %d", len(c.Key), keySize)
	}
	if c.Generation < 0 {
		fault("generation %d is negative", c.Generation)
	}
	if c.Channels < 0 || c.Channels > maxChannels {
		fault("%d channels, want 1 to %d", c.Channels, maxChannels)
	}
	if c.Streams < 0 || c.Streams > MaxStreams {
		fault("%d streams, want 1 to %d", c.Streams, MaxStreams)
	}
	if c.Timeout < 0 {
		fault("timeout %v is negative", c.Timeout)
	}
	return errors.Join(errs...)
}

// withDefaults returns c with zero options replaced by their defaults.
func (c Config) withDefaults() Config {
	if c.Channels == 0 {
		c.Channels = defaultChannels
	}
	if c.Streams == 0 {
		c.Streams = 1
	}
	if c.stripe == 0 {
		c.stripe = stripeBytes
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	return c
}

// Listener waits for the peers of a group that is not formed yet.
type Listener struct{ ln *net.TCPListener }

// Listen opens any free port on one address of this host.
func Listen(ip string) (*Listener, error) { return ListenWithin(ip, "") }

// ListenWithin opens a port of a range such as "20000-20100" on one address of this host.
// If the range is "", it opens any free port.
func ListenWithin(ip, within string) (*Listener, error) {
	allowed, err := ports.Parse(within)
	if err != nil {
		return nil, fmt.Errorf("tcp: listen: %w", err)
	}
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		return nil, fmt.Errorf("tcp: listen: %q is not an IP address: %w", ip, err)
	}
	if addr.IsUnspecified() {
		return nil, fmt.Errorf("tcp: listen: %v means every network of this host: name the one that peers use", addr)
	}
	ln, err := allowed.Listen(addr.String())
	if err != nil {
		return nil, fmt.Errorf("tcp: listen: %w", err)
	}
	return &Listener{ln}, nil
}

// Addr returns the address that peers dial, as IP:PORT.
func (l *Listener) Addr() string { return l.ln.Addr().String() }

// Close stops listening. Connect does so too.
func (l *Listener) Close() error {
	if err := l.ln.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("tcp: close listener: %w", err)
	}
	return nil
}
