package member

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/shm"
	"github.com/wdlrun/wdlrun/rank"
)

// near is the shared memory of this rank while it connects.
type near struct {
	place
	listener *shm.Listener
	t        *shm.Transport // nil: not connected
	cause    error          // why this rank cannot share memory
	who      int            // a rank that could not listen before the group formed
	why      string         // its reason; "": all could, or did not try
	alone    bool           // all ranks listen, and are on one host
}

// listenEarly listens for shared memory before the group forms, if the launcher reports that
// all ranks are on this host. The ranks then need no TCP.
func (m *Member) listenEarly() *near {
	n, w := &near{}, m.World
	if w.Size > 1 && w.LocalSize == w.Size && w.Key != (rank.Key{}) && m.opts.Host == "" && m.opts.Transport != TCP {
		n.hosts, n.index, n.size = 1, w.Rank, w.Size
		n.listen(w)
	}
	return n
}

// listen listens for the ranks of this host.
func (n *near) listen(w rank.World) {
	purpose := "shared memory"
	if n.hosts > 1 {
		purpose += fmt.Sprintf(" of host %d", n.hostOf[w.Rank])
	}
	n.listener, n.cause = shm.Listen(shm.Config{Rank: n.index, Size: n.size, Key: w.Key.Derive(purpose), Generation: w.Generation})
}

// connect links the ranks of this host.
func (n *near) connect(ctx context.Context) {
	n.t, n.cause = n.listener.Connect(ctx)
}

// close closes what is not used.
func (n *near) close() {
	if n.listener != nil {
		n.listener.Close()
	}
	if n.t != nil {
		n.t.Close()
	}
}

// note returns the note of this rank.
func (m *Member) note(n *near) string {
	out := note{Transport: cmp.Or(m.opts.Transport, Auto), Host: m.opts.Host, Listens: n.listener != nil}
	if out.Host == "" {
		out.Host, out.Local = m.World.Host, m.World.LocalSize
	}
	out.Host = out.Host[:min(len(out.Host), maxHost)]
	if n.cause != nil {
		out.Why = n.cause.Error()
		out.Why = out.Why[:min(len(out.Why), maxWhy)]
	}
	b, _ := json.Marshal(out) // cannot fail
	return string(b)
}

// choose reads the notes of all ranks, which determine whether and how this rank shares
// memory. It reports whether TCP links are to be joined by shared memory.
func (m *Member) choose(n *near) (shares bool, err error) {
	members := m.Session.Members()
	notes := make([]note, len(members))
	for r, member := range members {
		if err := json.Unmarshal([]byte(member.Note), &notes[r]); err != nil {
			return false, fmt.Errorf("member: connect: rank %d: the note of rank %d cannot be read: %w", m.World.Rank, r, err)
		}
	}
	own := notes[m.World.Rank]
	if slices.ContainsFunc(notes, func(o note) bool { return o.Transport != own.Transport }) {
		return false, fmt.Errorf("member: connect: rank %d: ranks have different transports; give all the same", m.World.Rank)
	}
	n.place = newPlace(notes, m.World.Rank)
	switch {
	case m.World.Size == 1, own.Transport == TCP, own.Transport == Auto && n.least == 1:
		return false, nil
	case own.Transport == Shared && n.hosts > 1:
		return false, fmt.Errorf("member: connect: rank %d: ranks are on %d hosts, which share no memory; use transport %s or %s", m.World.Rank, n.hosts, Auto, TCP)
	}
	n.alone = n.hosts == 1 && !slices.ContainsFunc(notes, func(o note) bool { return !o.Listens })
	if r := slices.IndexFunc(notes, func(o note) bool { return o.Why != "" }); r >= 0 {
		n.who, n.why = r, notes[r].Why
	} else if !n.alone {
		n.close() // not all ranks listen at this place
		n.listen(m.World)
	}
	return true, nil
}

// connectAlone links all ranks by shared memory, and reports whether it could. After the
// meeting, every rank could: one that cannot leaves instead of meeting the others.
func (m *Member) connectAlone(ctx context.Context, n *near) bool {
	if n.connect(ctx); n.cause != nil {
		return false
	}
	stop := context.AfterFunc(ctx, func() { n.t.Abort(context.Cause(ctx)) })
	defer stop()
	err := n.t.Meet(collective.Tag{}, collective.Note{})
	n.t.Leave(0)
	if err != nil {
		n.t.Close()
		n.t = nil
		return false
	}
	return true
}

// share adds shared memory inside the hosts to the TCP links of this rank, or reports why
// not. The ranks agree over TCP, so that all decide alike.
func (m *Member) share(ctx context.Context, n *near) error {
	who, why, err := n.who, n.why, error(nil)
	if why == "" && !n.alone { // this rank does not know yet whether the others listen
		if who, why, err = m.agree(n.cause); err != nil {
			return err
		}
		if why == "" {
			n.connect(ctx)
		}
	}
	if why == "" {
		if who, why, err = m.agree(n.cause); err != nil {
			return err
		}
	}
	if why == "" && n.alone {
		why = "it left"
	}
	switch t := n.t; {
	case why == "" && n.hosts > 1:
		n.t = nil
		m.local, m.Comm, m.Transport = t, collective.NewHosts(m.links, t, n.hostOf).After(m.Comm), Hosts
		return nil
	case why == "":
		n.t = nil
		links := m.links
		m.links, m.Comm, m.Transport = t, collective.New(t), Shared
		return links.Close()
	case m.opts.Transport == Shared:
		return fmt.Errorf("member: connect: rank %d cannot share memory: %s; use transport %s or %s", who, why, Auto, TCP)
	}
	if m.opts.Warn != nil && m.World.Rank == 0 {
		m.opts.Warn(fmt.Sprintf("ranks exchange over TCP %s: rank %d cannot share memory: %s", n.where(), who, why))
	}
	return nil
}

// agree returns the first rank with a cause, and its message, the same on every rank.
func (m *Member) agree(cause error) (who int, why string, err error) {
	var own []byte
	if cause != nil {
		own = []byte(cause.Error())
		own = own[:min(len(own), maxWhy)]
	}
	all, err := collective.AllGatherBytes(m.Comm, own, maxWhy)
	if err != nil {
		return 0, "", err
	}
	for r, b := range all {
		if len(b) > 0 {
			return r, string(b), nil
		}
	}
	return 0, "", nil
}
