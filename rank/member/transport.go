package member

import (
	"context"
	"fmt"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/shm"
	"github.com/wdlrun/wdlrun/rank/control"
)

// The transports: what carries collective calls between ranks.
const (
	Auto   = "auto" // shared memory where all ranks are on one host and can, else TCP
	Shared = "shm"  // shared memory, or an error
	TCP    = "tcp"
)

// Options of a member. The zero value is the default. All ranks must have the
// same Transport.
type Options struct {
	Control   control.Options
	Transport string // "": Auto

	// Encrypt has the ranks encrypt what they exchange over TCP (package peertls).
	// All ranks do, or none. Shared memory stays as it is: it never leaves the host.
	Encrypt bool

	// Warn, if not nil, is told on rank 0 why Auto falls back to TCP on one
	// host: one line, once.
	Warn func(line string)
}

// Validate reports a transport that there is not.
func (o Options) Validate() error {
	switch o.Transport {
	case "", Auto, Shared, TCP:
		return nil
	}
	return fmt.Errorf("member: transport %q is unknown; there are %s, %s and %s", o.Transport, Auto, Shared, TCP)
}

// What a rank wishes.
const (
	wishTCP = iota
	wishAuto
	wishShared
)

// maxWhy bounds the reason that a rank gives, in bytes.
const maxWhy = 1 << 10

// share replaces the TCP links by shared memory if every rank can. All ranks
// decide alike: each step is agreed on over TCP before the next.
func (m *Member) share(ctx context.Context, opts Options) error {
	wish := []int32{wishAuto}
	switch opts.Transport {
	case TCP:
		wish[0] = wishTCP
	case Shared:
		wish[0] = wishShared
	}
	most := []int32{-wish[0]}
	if err := collective.AllReduce(m.Comm, wish, collective.Min); err != nil {
		return err
	}
	if err := collective.AllReduce(m.Comm, most, collective.Min); err != nil {
		return err
	}
	if -most[0] != wish[0] {
		return fmt.Errorf("member: connect: rank %d: ranks have different transports; give all the same", m.World.Rank)
	}
	if m.World.Size == 1 || wish[0] == wishTCP || wish[0] == wishAuto && !m.World.OneHost() {
		return nil
	}
	t, who, why, err := m.tryShare(ctx)
	switch {
	case err != nil:
		return err
	case why == "":
		links := m.links
		m.links, m.Comm, m.Transport = t, collective.New(t), Shared
		return links.Close()
	case wish[0] == wishShared:
		return fmt.Errorf("member: connect: rank %d cannot share memory: %s; use transport %s or %s", who, why, Auto, TCP)
	}
	if opts.Warn != nil && m.World.Rank == 0 {
		opts.Warn(fmt.Sprintf("ranks exchange over TCP on this host: rank %d cannot share memory: %s", who, why))
	}
	return nil
}

// tryShare connects all ranks over shared memory. If one cannot, it returns on
// every rank who and why, and nothing is left of the attempt.
func (m *Member) tryShare(ctx context.Context) (t *shm.Transport, who int, why string, err error) {
	l, cause := shm.Listen(shm.Config{
		Rank: m.World.Rank, Size: m.World.Size, Key: m.World.Key.Derive("shared memory"), Generation: m.World.Generation,
	})
	if who, why, err = m.agree(cause); err != nil || why != "" {
		if l != nil {
			l.Close()
		}
		return nil, who, why, err
	}
	t, cause = l.Connect(ctx)
	if who, why, err = m.agree(cause); (err != nil || why != "") && t != nil {
		t.Close()
		t = nil
	}
	return t, who, why, err
}

// agree returns the first rank with a cause and its text, the same on every rank.
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
