// Package gate bounds the number of connections that have not proved the job's key.
//
// A Gate may be used by several goroutines.
package gate

import (
	"net"
	"slices"
	"sync"
)

// Gate is a listener that bounds the number of connections that have not proved the key. It
// closes the oldest one if there are too many. A rank proves the key within milliseconds, so
// many silent connections do not keep ranks out.
type Gate struct {
	net.Listener
	most int

	mu       sync.Mutex
	unproven []*Conn // oldest first
	closed   bool
}

// New returns a Gate in front of ln that allows most unproven connections.
func New(ln net.Listener, most int) *Gate { return &Gate{Listener: ln, most: most} }

// Accept returns the next connection, a *Conn.
func (g *Gate) Accept() (net.Conn, error) {
	conn, err := g.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &Conn{conn, g}
	g.mu.Lock()
	g.unproven = append(g.unproven, c)
	var excess *Conn
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
func (g *Gate) Close() error {
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

// Conn is a connection accepted by a Gate.
type Conn struct {
	net.Conn
	gate *Gate
}

// Proved records that the peer has proved the key, or that the connection is closed.
func (c *Conn) Proved() {
	g := c.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.unproven, c); i >= 0 {
		g.unproven = slices.Delete(g.unproven, i, i+1)
	}
}

// Close closes the connection.
func (c *Conn) Close() error {
	c.Proved()
	return c.Conn.Close()
}
