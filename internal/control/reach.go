package control

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/wdlrun/wdlrun/rank"
)

// locator returns the current address of the coordinator. It is called before each
// attempt, since a meeting file may belong to a dead job and be replaced.
type locator func() (addr string, key rank.Key, err error)

// link is a connection to the coordinator on which both sides have proved the
// key.
type link struct {
	addr string
	key  rank.Key
	conn *begun
}

// reach connects to the coordinator. It retries until a coordinator with the key answers, the
// timeout is over or ctx ends.
func reach(ctx context.Context, w rank.World, timeout time.Duration, where locator) (*link, error) {
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errors.New("timeout"))
	defer cancel()
	pause := 10 * time.Millisecond
	var last error // last error other than the end of the time
	for {
		l, err := try(ctx, where)
		if err == nil {
			return l, nil
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		select {
		case <-time.After(pause):
			pause = min(pause*3/2, 250*time.Millisecond)
		case <-ctx.Done():
			return nil, unreachable(w, timeout, last, context.Cause(ctx))
		}
	}
}

func try(ctx context.Context, where locator) (*link, error) {
	addr, key, err := where()
	if err != nil {
		return nil, err
	}
	secure, err := key.TLS()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	conn, err := (&tls.Dialer{NetDialer: &net.Dialer{Control: smallPackets}, Config: secure}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if c, ok := conn.(*tls.Conn).NetConn().(*net.TCPConn); ok && !local(c) {
		answeredWithin(c, hostTimeout)
	}
	b, err := awaitFirstByte(ctx, conn)
	if err != nil {
		return nil, err
	}
	return &link{addr, key, b}, nil
}

// awaitFirstByte waits for the first byte from the coordinator. In TLS 1.3 the handshake of the
// dialling side ends before the other side has checked its proof, and the other side may
// still reject the connection.
func awaitFirstByte(ctx context.Context, conn net.Conn) (*begun, error) {
	stop := context.AfterFunc(ctx, func() { conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var first [1]byte
	if _, err := conn.Read(first[:]); err != nil {
		conn.Close()
		return nil, fmt.Errorf("the coordinator at %s does not answer: %w", conn.RemoteAddr(), err)
	}
	return &begun{Conn: conn, first: first[:]}, nil
}

// begun is a connection whose first bytes are already read. It records whether it ended
// because the other host no longer answers.
type begun struct {
	net.Conn
	first      []byte
	unanswered atomic.Bool
}

func (c *begun) Read(p []byte) (int, error) {
	if len(c.first) > 0 {
		n := copy(p, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	n, err := c.Conn.Read(p)
	c.note(err)
	return n, err
}

// Write records errors like Read: the system reports the error of a connection once, to the
// first call.
func (c *begun) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.note(err)
	return n, err
}

func (c *begun) note(err error) {
	for _, of := range []error{syscall.ETIMEDOUT, syscall.EHOSTUNREACH, syscall.ENETUNREACH} {
		if errors.Is(err, of) {
			c.unanswered.Store(true)
		}
	}
}

// unreachable returns an error with the reason why there is no coordinator, and advice.
func unreachable(w rank.World, timeout time.Duration, err, why error) error {
	next := ""
	switch {
	case errors.Is(err, fs.ErrNotExist):
		next = "; rank 0 has not written it: see its output, and with several hosts set WDLRUN_RENDEZVOUS to a directory that all of them see"
	case errors.Is(err, rank.ErrWrongKey):
		next = "; another job listens there: give all ranks the same WDLRUN_KEY and the port of this job"
	}
	return fmt.Errorf("control: join: rank %d: no coordinator within %s (%w): %w%s%s", w.Rank, timeout, why, err, next, started(w))
}

// started says which variables of another launcher made this process a rank: they may be left over in
// a shell, and the other ranks may not exist.
func started(w rank.World) string {
	if w.Named == "" || w.Launched || w.Coordinator != "" {
		return ""
	}
	return fmt.Sprintf("; by the variables of %s, this is rank %d of %d (%s): if nothing starts the others, set WDLRUN_SIZE=1 to train alone", w.By, w.Rank, w.Size, w.Named)
}

// apart says what the ranks of several hosts need to meet, if this is not set.
func apart(w rank.World) string {
	if w.LocalSize == w.Size || w.Rendezvous != "" || w.Coordinator != "" {
		return ""
	}
	return "; if they are on other hosts, set WDLRUN_RENDEZVOUS to a directory that all of them see"
}

// local reports whether the other side is on this host. Then the kernel reports the end of
// its process, and a coordinator that does not answer is only stopped, by a debugger or
// Ctrl-Z.
func local(conn net.Conn) bool {
	a, ok := conn.RemoteAddr().(*net.TCPAddr)
	return ok && a.IP.IsLoopback()
}

// client returns a gRPC client of the connection. gRPC does not dial: it gets the connection
// that has proved the key, so that the errors above are reported. A broken connection is not
// restored, since a rank does not return.
func (l *link) client() (*grpc.ClientConn, error) {
	conn := make(chan net.Conn, 1)
	conn <- l.conn
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()), // l.conn is the secure layer
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			select {
			case c := <-conn:
				return c, nil
			default:
				return nil, errors.New("the connection broke")
			}
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(0),
		grpc.WithInitialWindowSize(streamWindow),
		grpc.WithInitialConnWindowSize(streamWindow),
	}
	if !local(l.conn) {
		options = append(options, grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepaliveTime}))
	}
	return grpc.NewClient("passthrough:///"+l.addr, options...)
}
