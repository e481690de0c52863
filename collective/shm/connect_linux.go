package shm

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wdlrun/wdlrun/collective"
)

const (
	version   = 1
	magic     = "WDSM"
	helloSize = 64
	proofSize = sha256.Size
	roleDials = "wdlrun shm dial  "
	roleHears = "wdlrun shm listen"

	// handshakeTime is the time limit of a connection for proving the key.
	handshakeTime = 5 * time.Second
	// unprovenMax is the largest number of connections that prove the key at once.
	unprovenMax = 64
	// Pauses between attempts to dial a peer.
	pauseMin, pauseMax = time.Millisecond, 100 * time.Millisecond
)

// Listener waits for the peers of a group that is not formed yet.
type Listener struct {
	cfg Config
	ln  *net.UnixListener
}

// Listen opens the socket of this rank.
func Listen(cfg Config) (*Listener, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	ln, err := net.ListenUnix("unixpacket", cfg.address(cfg.Rank))
	if err != nil {
		return nil, fmt.Errorf("shm: listen: rank %d: %w", cfg.Rank, err)
	}
	return &Listener{cfg, ln}, nil
}

// Close stops listening. Connect does so too.
func (l *Listener) Close() error {
	if err := l.ln.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("shm: close listener: %w", err)
	}
	return nil
}

// address returns the abstract name of a rank's socket. It cannot be predicted without the
// key.
func (c Config) address(rank int) *net.UnixAddr {
	mac := hmac.New(sha256.New, c.Key)
	fmt.Fprintf(mac, "wdlrun shm name %d %d", c.Generation, rank)
	return &net.UnixAddr{Net: "unixpacket", Name: "@wdlrun-" + hex.EncodeToString(mac.Sum(nil)[:16])}
}

// Connect links this rank with all peers and returns when every page is mapped. It returns
// an error if memory cannot be allocated, if ctx ends, or if a peer is missing after the
// timeout. The listener is always closed.
func (l *Listener) Connect(ctx context.Context) (*Transport, error) {
	defer l.Close()
	ctx, cancel := context.WithTimeout(ctx, l.cfg.Timeout)
	defer cancel()
	conns, err := l.gather(ctx)
	if err == nil {
		var t *Transport
		if t, err = newTransport(ctx, l.cfg, conns); err == nil {
			return t, nil
		}
	}
	return nil, fmt.Errorf("shm: connect: rank %d of %d: %w", l.cfg.Rank, l.cfg.Size, err)
}

// gathering is a group that is being connected.
type gathering struct {
	cfg     Config
	proving chan struct{} // one token per connection that is proving the key
	wg      sync.WaitGroup

	mu    sync.Mutex
	conns []*net.UnixConn // by rank
	need  int
	last  error // error of the latest attempt
	done  chan struct{}
}

// gather dials the lower ranks and accepts the higher ones. All its goroutines have ended
// when it returns.
func (l *Listener) gather(ctx context.Context) ([]*net.UnixConn, error) {
	g := &gathering{
		cfg: l.cfg, proving: make(chan struct{}, unprovenMax+l.cfg.Size),
		conns: make([]*net.UnixConn, l.cfg.Size), need: l.cfg.Size - 1, done: make(chan struct{}),
	}
	if g.need == 0 {
		return g.conns, nil
	}
	dialing, stop := context.WithCancel(ctx)
	g.wg.Go(func() { g.accept(dialing, l.ln) })
	for p := range l.cfg.Rank {
		g.wg.Go(func() { g.dial(dialing, p) })
	}
	select {
	case <-g.done:
	case <-ctx.Done():
	}
	stop()
	l.ln.Close()
	g.wg.Wait()
	return g.outcome(ctx)
}

func (g *gathering) outcome(ctx context.Context) ([]*net.UnixConn, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.need == 0 {
		return g.conns, nil
	}
	missing := -1
	for r, c := range g.conns {
		if c != nil {
			c.Close()
		} else if missing < 0 && r != g.cfg.Rank {
			missing = r
		}
	}
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return nil, err
	}
	err := fmt.Errorf("no link with rank %d and %d more within %v", missing, g.need-1, g.cfg.Timeout)
	if g.last != nil {
		err = fmt.Errorf("%w (last attempt: %w)", err, g.last)
	}
	return nil, err
}

// addConn keeps a connection that has proved the key.
func (g *gathering) addConn(peer int, conn *net.UnixConn) {
	conn.SetDeadline(time.Time{})
	g.mu.Lock()
	defer g.mu.Unlock()
	if old := g.conns[peer]; old != nil {
		old.Close() // its dialer gave it up
	} else if g.need--; g.need == 0 {
		close(g.done)
	}
	g.conns[peer] = conn
}

func (g *gathering) failed(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last = err
}

// dial links with a lower rank. It retries as long as the peer does not listen.
func (g *gathering) dial(ctx context.Context, peer int) {
	for pause := pauseMin; ; pause = min(2*pause, pauseMax) {
		conn, err := net.DialUnix("unixpacket", nil, g.cfg.address(peer))
		if err == nil {
			if _, err = g.greet(ctx, conn, peer); err == nil {
				g.addConn(peer, conn)
				return
			}
			conn.Close()
		}
		if ctx.Err() != nil {
			return
		}
		g.failed(fmt.Errorf("rank %d: %w", peer, err))
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// accept accepts connections of higher ranks until the listener is closed.
func (g *gathering) accept(ctx context.Context, ln *net.UnixListener) {
	for {
		conn, err := ln.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // for example, no free file descriptor
			g.failed(err)
			time.Sleep(pauseMax)
			continue
		}
		select {
		case g.proving <- struct{}{}:
		default: // too many at once; real peers retry
			conn.Close()
			continue
		}
		g.wg.Go(func() {
			defer func() { <-g.proving }()
			peer, err := g.greet(ctx, conn, -1)
			if err != nil {
				g.failed(fmt.Errorf("a connection was rejected: %w", err))
				conn.Close()
				return
			}
			g.addConn(peer, conn)
		})
	}
}

// greet makes the handshake and returns the rank at the other end. peer is the rank that
// was dialed, or negative on the listening side.
func (g *gathering) greet(ctx context.Context, conn *net.UnixConn, peer int) (int, error) {
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	conn.SetDeadline(time.Now().Add(min(handshakeTime, g.cfg.Timeout)))
	if ctx.Err() != nil {
		return -1, ctx.Err()
	}
	if err := sameUser(conn); err != nil {
		return -1, err
	}
	dials := peer >= 0
	var own, theirs hello
	if dials {
		own = g.hello(peer)
		if err := send(conn, own.b[:]); err != nil {
			return -1, err
		}
	}
	if err := receive(conn, theirs.b[:]); err != nil {
		return -1, fmt.Errorf("no hello: %w", err)
	}
	if err := theirs.judge(g.cfg, peer); err != nil {
		return -1, err
	}
	if !dials {
		peer = theirs.from()
		own = g.hello(peer)
		if err := send(conn, own.b[:]); err != nil {
			return -1, err
		}
	}
	return peer, g.prove(conn, own, theirs, dials)
}

// prove exchanges proofs of the key.
func (g *gathering) prove(conn *net.UnixConn, own, theirs hello, dials bool) error {
	mine, his, first, second := roleHears, roleDials, theirs, own
	if dials {
		mine, his, first, second = roleDials, roleHears, own, theirs
	}
	if err := send(conn, proof(g.cfg.Key, mine, first, second)); err != nil {
		return err
	}
	var got [proofSize]byte
	if err := receive(conn, got[:]); err != nil {
		return fmt.Errorf("no proof of the job key: %w", err)
	}
	if !hmac.Equal(got[:], proof(g.cfg.Key, his, first, second)) {
		return errors.New("it has another job key")
	}
	return nil
}

func proof(key []byte, role string, dialer, listener hello) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(role))
	mac.Write(dialer.b[:])
	mac.Write(listener.b[:])
	return mac.Sum(nil)
}

// hello is the first message of both ends.
type hello struct{ b [helloSize]byte }

func (g *gathering) hello(peer int) (h hello) {
	b := append(h.b[:0], magic...)
	b = binary.LittleEndian.AppendUint16(b, version)
	b = append(b, 0, 0)
	for _, v := range []int{g.cfg.Rank, peer, g.cfg.Size} {
		b = binary.LittleEndian.AppendUint32(b, uint32(v))
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(g.cfg.Channels))
	binary.LittleEndian.AppendUint64(b, uint64(g.cfg.Generation))
	rand.Read(h.b[helloSize-32:]) // never fails: the program ends instead
	return h
}

func (h hello) from() int { return int(binary.LittleEndian.Uint32(h.b[8:])) }

// judge checks a hello against cfg. It must come from rank peer, or from any higher rank if
// peer is negative.
func (h hello) judge(cfg Config, peer int) error {
	u32 := func(at int) int { return int(binary.LittleEndian.Uint32(h.b[at:])) }
	from, generation := h.from(), binary.LittleEndian.Uint64(h.b[24:])
	switch v := binary.LittleEndian.Uint16(h.b[4:]); {
	case string(h.b[:4]) != magic:
		return fmt.Errorf("it began with %q: it is not a rank of a job", h.b[:4])
	case v != version:
		return fmt.Errorf("it speaks version %d of the protocol, this rank version %d: start all ranks from the same program", v, version)
	case u32(16) != cfg.Size || u32(20) != cfg.Channels:
		return fmt.Errorf("it has %d ranks and %d channels, this rank %d and %d", u32(16), u32(20), cfg.Size, cfg.Channels)
	case generation != uint64(cfg.Generation):
		return fmt.Errorf("it is of generation %d, this rank of %d", generation, cfg.Generation)
	case u32(12) != cfg.Rank || from >= cfg.Size || peer >= 0 && from != peer || peer < 0 && from <= cfg.Rank:
		return fmt.Errorf("it claims to be rank %d connecting to rank %d, this is rank %d of %d", from, u32(12), cfg.Rank, cfg.Size)
	}
	return nil
}

// credentials returns the credentials of the process at the other end.
func credentials(conn *net.UnixConn) (cred *unix.Ucred, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cerr error
	if err := raw.Control(func(fd uintptr) { cred, cerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return nil, err
	}
	return cred, cerr
}

// sameUser checks that the process at the other end belongs to this user.
func sameUser(conn *net.UnixConn) error {
	cred, err := credentials(conn)
	if err != nil {
		return err
	}
	if own := unix.Geteuid(); int(cred.Uid) != own {
		return fmt.Errorf("it belongs to user %d, this rank to user %d", cred.Uid, own)
	}
	return nil
}

func send(conn *net.UnixConn, b []byte) error {
	_, err := conn.Write(b)
	return err
}

// receive reads a packet that must have exactly len(b) bytes. It asks for one byte more, to
// detect a longer packet.
func receive(conn *net.UnixConn, b []byte) error {
	buf := make([]byte, len(b)+1)
	n, err := conn.Read(buf)
	if err != nil {
		return err
	}
	if n != len(b) {
		return fmt.Errorf("a packet of %d bytes, want %d", n, len(b))
	}
	copy(b, buf)
	return nil
}

var _ collective.Sharer = (*Transport)(nil)
