package control

import (
	"net"
	"slices"
	"sync"

	"google.golang.org/grpc/credentials"
)

// gate is a listener that bounds the number of connections that have not proved the key. It
// closes the oldest one if there are too many. A rank proves the key within milliseconds, so
// many silent connections do not keep ranks out.
type gate struct {
	net.Listener
	most int

	mu       sync.Mutex
	unproven []*gatedConn // oldest first
	closed   bool
}

func newGate(ln net.Listener, most int) *gate { return &gate{Listener: ln, most: most} }

func (g *gate) Accept() (net.Conn, error) {
	conn, err := g.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &gatedConn{conn, g}
	g.mu.Lock()
	g.unproven = append(g.unproven, c)
	var excess *gatedConn
	if g.closed {
		excess = c
	} else if len(g.unproven) > g.most {
		excess = g.unproven[0]
	}
	g.mu.Unlock()
	if excess != nil {
		excess.Close()
	}
	return c, nil
}

// Close also closes unproven connections, so that the end of a job does not wait for their time-out.
func (g *gate) Close() error {
	err := g.Listener.Close()
	g.mu.Lock()
	g.closed = true
	unproven := slices.Clone(g.unproven)
	g.mu.Unlock()
	for _, c := range unproven {
		c.Close()
	}
	return err
}

// gatedConn is a connection accepted by a gate.
type gatedConn struct {
	net.Conn
	gate *gate
}

// proved records that the peer has proved the key, or that the connection is closed.
func (c *gatedConn) proved() {
	g := c.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.unproven, c); i >= 0 {
		g.unproven = slices.Delete(g.unproven, i, i+1)
	}
}

func (c *gatedConn) Close() error {
	c.proved()
	return c.Conn.Close()
}

// proof wraps credentials and reports to the gate which connections have proved the key.
type proof struct {
	credentials.TransportCredentials
}

func (p proof) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secure, info, err := p.TransportCredentials.ServerHandshake(conn)
	if c, ok := conn.(*gatedConn); ok && err == nil {
		c.proved()
	}
	return secure, info, err
}

func (p proof) Clone() credentials.TransportCredentials {
	return proof{p.TransportCredentials.Clone()}
}
