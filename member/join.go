package member

import (
	"context"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/tcp"
	"github.com/wdlrun/wdlrun/internal/control"
	"github.com/wdlrun/wdlrun/internal/machine/peertls"
	"github.com/wdlrun/wdlrun/rank"
)

// Join reads the rank of this process from getenv, meets the other ranks and connects
// to them. A process without a launcher is a group of one rank. If opts leaves out
// Transport, Encrypt or Streams, the environment determines them (rank.Links).
func Join(ctx context.Context, getenv func(string) string, opts Options) (*Member, error) {
	opts, err := opts.Completed(getenv)
	if err != nil {
		return nil, err
	}
	world, _, err := rank.FromEnv(getenv)
	if err != nil {
		return nil, err
	}
	m := &Member{World: world, opts: opts}
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	return m, nil
}

// enter meets the other ranks of this generation and connects to them.
func (m *Member) enter(ctx context.Context) error {
	ip, err := m.World.ListenIP()
	if err != nil {
		return err
	}
	ln, err := tcp.ListenWithin(ip, m.opts.Control.Ports)
	if err != nil {
		return err
	}
	near := m.listenEarly()
	opts := m.opts.Control
	opts.Note = m.note(near)
	session, err := control.Enter(ctx, m.World, ln.Addr(), opts)
	if err != nil {
		ln.Close()
		near.close()
		return err
	}
	m.World, m.Session, m.local, m.calls, m.closed = session.World(), session, nil, nil, make(chan struct{})
	connecting, stop := m.untilVerdict(ctx)
	defer stop()
	if err := m.connect(connecting, ln, near); err != nil {
		err = m.verdict(err)
		session.Close()
		return err
	}
	m.left = false
	if m.World.Size > 1 {
		m.calls = newTraffic(m.Comm, m.links)
		m.Session.WatchLinks(m.calls.report)
	}
	if !m.World.Launched { // wdlrun ends its ranks itself
		m.siblings = newSiblings(session.Members(), near.place, m.World.Rank)
	}
	go abortOnVerdict(m.Session, m.Comm, m.closed)
	return nil
}

// connect links this rank with the others: over shared memory if all are on one host and
// listen there, otherwise over TCP, and over shared memory inside hosts of several ranks. It
// closes the listeners.
func (m *Member) connect(ctx context.Context, ln *tcp.Listener, n *near) error {
	defer ln.Close()
	defer n.close()
	shares, err := m.choose(n)
	if err != nil {
		return err
	}
	if n.alone && m.connectAlone(ctx, n) {
		m.links, m.Transport, m.Comm = n.t, Shared, collective.New(n.t)
		n.t = nil
	} else {
		if err := m.connectFar(ctx, ln); err != nil {
			return err
		}
		if shares {
			err = m.share(ctx, n)
		}
	}
	if err == nil {
		err = m.weigh()
	}
	if err != nil {
		m.closeLinks()
	}
	return err
}

// connectFar links this rank with all others over TCP.
func (m *Member) connectFar(ctx context.Context, ln *tcp.Listener) error {
	cfg := tcp.Config{
		Rank: m.World.Rank, Peers: m.Session.Roster(), Key: m.World.Key.Derive("bulk"),
		Generation: m.World.Generation, Timeout: m.Session.Timeout(), Streams: m.opts.Streams,
	}
	if m.opts.Encrypt {
		id, err := peertls.New(m.World.Key.Derive("peer tls"), m.World.Rank, m.World.Size)
		if err != nil {
			return err
		}
		cfg.Secure = id.Secure
	}
	links, err := ln.Connect(ctx, cfg)
	if err != nil {
		return err
	}
	m.links, m.Transport, m.Comm = links, TCP, collective.New(links)
	return nil
}

// weigh measures the costs that determine the algorithms of Comm's calls, which takes
// milliseconds. If all ranks share memory, there is one algorithm for each call.
func (m *Member) weigh() error {
	if m.Transport == Shared {
		return nil
	}
	costs, err := collective.Measure(m.Comm)
	if err != nil {
		return err
	}
	m.Comm.SetCosts(costs)
	return nil
}
