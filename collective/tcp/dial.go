package tcp

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// Connect makes the links to all peers and returns when every one of them has
// proved the job's key in both directions. It returns an error if a peer rejects
// this rank, if ctx ends, or after the timeout. If peers are missing then, the error
// wraps a *collective.LostError that names the first. The listener is always closed.
func (l *Listener) Connect(ctx context.Context, cfg Config) (*Transport, error) {
	defer l.Close()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	f := newForming(cfg)
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	err := f.fits()
	if err == nil {
		err = f.gather(ctx, l)
	}
	if err != nil {
		f.abandon(err)
		return nil, fmt.Errorf("tcp: connect: rank %d of %d: %w", cfg.Rank, len(cfg.Peers), err)
	}
	t, err := newTransport(cfg, f.links)
	if err != nil {
		f.abandon(err)
		return nil, fmt.Errorf("tcp: connect: rank %d of %d: %w", cfg.Rank, len(cfg.Peers), err)
	}
	return t, nil
}

// gather dials the lower ranks and accepts the higher ones until all links are made. All
// its goroutines have ended when it returns.
func (f *forming) gather(ctx context.Context, l *Listener) error {
	var wg sync.WaitGroup
	dialing, stop := context.WithCancel(ctx)
	wg.Go(func() { f.accept(l.ln, &wg) })
	for p := range f.cfg.Rank {
		for _, link := range f.cfg.links() {
			id := linkID{p, link}
			wg.Go(func() { f.dial(dialing, id) })
		}
	}
	select {
	case <-f.complete:
	case <-f.failed:
	case <-ctx.Done():
	}
	stop()
	l.ln.Close()
	f.mu.Lock()
	f.over = true
	f.mu.Unlock()
	f.dropUnproven()
	wg.Wait()
	return f.outcome(ctx)
}

// dial makes one link. It retries as long as the peer does not answer.
func (f *forming) dial(ctx context.Context, id linkID) {
	for pause := pauseMin; ; pause = min(2*pause, pauseMax) {
		conn, fatal, err := f.dialOnce(ctx, id)
		if err == nil {
			f.addLink(id, conn)
			return
		}
		if ctx.Err() != nil {
			return
		}
		err = fmt.Errorf("rank %d at %s: %w", id.peer, f.cfg.Peers[id.peer], err)
		if fatal {
			f.fail(err)
			return
		}
		f.mu.Lock()
		f.last = err
		f.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause/2 + rand.N(pause)):
		}
	}
}

// dialOnce makes one attempt.
func (f *forming) dialOnce(ctx context.Context, id linkID) (_ net.Conn, fatal bool, err error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", f.cfg.Peers[id.peer])
	if err != nil {
		return nil, false, err
	}
	conn := c.(*net.TCPConn)
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	var secured net.Conn
	if fatal, err = f.introduce(conn, id); err == nil {
		secured, err = f.secure(conn, id, false)
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		return nil, fatal, err
	}
	return secured, false, nil
}
