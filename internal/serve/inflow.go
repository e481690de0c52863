package serve

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/stats"
)

// inflow limits the memory of gRPC messages that have arrived in part, which the gRPC library holds
// before it calls a method. It counts the bytes that connections have read and subtracts those
// of complete messages. Over the limit, connections with less than readBytes and the one with the most
// continue to read, and if nothing arrives on the latter for stallWait while others wait, it is
// closed: its client has stalled.
type inflow struct {
	most int64

	mu     sync.Mutex
	total  int64
	conns  map[*inConn]bool
	byAddr map[string]*inConn
	moved  *sync.Cond // total fell, or a connection was closed
	closed int64      // connections closed because they stalled
}

const (
	// stallWait is how long the largest incomplete message may pause while others wait.
	stallWait = 2 * time.Second
	// overhead is about the size of the headers of a request, which count as read too, as do
	// frames: at most a 512th of the bytes.
	overhead = 256
)

func newInflow(most int64) *inflow {
	f := &inflow{most: most, conns: map[*inConn]bool{}, byAddr: map[string]*inConn{}}
	f.moved = sync.NewCond(&f.mu)
	return f
}

// held returns the bytes of incomplete messages, and how many connections were closed.
func (f *inflow) held() (bytes, closed int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.total, f.closed
}

// listener counts the connections of a listener.
func (f *inflow) listener(l net.Listener) net.Listener { return inListener{l, f} }

type inListener struct {
	net.Listener
	flow *inflow
}

func (l inListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &inConn{Conn: conn, flow: l.flow, at: time.Now(), addr: conn.RemoteAddr().String()}
	l.flow.mu.Lock()
	defer l.flow.mu.Unlock()
	if c.addr == "" || c.addr == "@" || l.flow.byAddr[c.addr] != nil {
		return conn, nil // a Unix socket has no address by which TagConn finds the connection
	}
	l.flow.conns[c], l.flow.byAddr[c.addr] = true, c
	return c, nil
}

// inConn is a connection. flow.mu protects its fields.
type inConn struct {
	net.Conn
	flow  *inflow
	addr  string
	bytes int64     // read since the last moment without incomplete messages, minus complete ones
	open  int       // requests whose message is incomplete
	at    time.Time // of the last read
	gone  bool
}

var errStalled = errors.New("serve: the client sends no more of a message, and other clients need the memory")

func (c *inConn) Read(p []byte) (int, error) {
	if err := c.flow.admit(c); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p)
	c.flow.mu.Lock()
	defer c.flow.mu.Unlock()
	c.at = time.Now()
	c.add(int64(n))
	return n, err
}

func (c *inConn) Close() error {
	c.flow.mu.Lock()
	c.remove()
	c.flow.mu.Unlock()
	return c.Conn.Close()
}

// add changes the bytes of a connection.
func (c *inConn) add(n int64) {
	if c.gone {
		return
	}
	n = max(n, -c.bytes)
	c.bytes += n
	if c.flow.total += n; n < 0 {
		c.flow.moved.Broadcast()
	}
}

// remove removes a connection.
func (c *inConn) remove() {
	if c.gone {
		return
	}
	c.add(-c.bytes)
	c.gone = true
	delete(c.flow.conns, c)
	if c.flow.byAddr[c.addr] == c {
		delete(c.flow.byAddr, c.addr)
	}
	c.flow.moved.Broadcast()
}

// admit waits until a connection may read.
func (f *inflow) admit(c *inConn) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for !c.gone && c.bytes > readBytes && f.total > f.most {
		largest := f.largest()
		if largest == c {
			break
		}
		left := stallWait - time.Since(largest.at)
		if left <= 0 {
			f.closed++
			largest.remove()
			go largest.Conn.Close() // may wait for the network
			continue
		}
		timer := time.AfterFunc(left, f.wake)
		f.moved.Wait()
		timer.Stop()
	}
	if c.gone {
		return errStalled
	}
	return nil
}

func (f *inflow) wake() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.moved.Broadcast()
}

// largest returns the connection with the most bytes.
func (f *inflow) largest() (most *inConn) {
	for c := range f.conns {
		if most == nil || c.bytes > most.bytes {
			most = c
		}
	}
	return most
}

type inflowKey struct{}

// TagConn, TagRPC, HandleConn and HandleRPC make an inflow a stats.Handler, which learns when
// messages begin and are complete.
func (f *inflow) TagConn(ctx context.Context, about *stats.ConnTagInfo) context.Context {
	f.mu.Lock()
	defer f.mu.Unlock()
	return context.WithValue(ctx, inflowKey{}, f.byAddr[about.RemoteAddr.String()])
}

func (f *inflow) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (f *inflow) HandleConn(context.Context, stats.ConnStats) {}

func (f *inflow) HandleRPC(ctx context.Context, event stats.RPCStats) {
	c, _ := ctx.Value(inflowKey{}).(*inConn)
	if c == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch e := event.(type) {
	case *stats.Begin:
		c.open++
	case *stats.InPayload:
		c.add(-int64(e.WireLength) - int64(e.WireLength)/512 - overhead)
	case *stats.End:
		if c.open--; c.open == 0 {
			c.add(-c.bytes)
		}
	}
}
