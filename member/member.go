// Package member makes a process a member of its job in one call. A member has a session
// with the coordinator, links to the other ranks, and a communicator over them.
//
//	err := member.Run(ctx, func(ctx context.Context, m *member.Member) error {
//		return collective.AllReduce(m.Comm, x, collective.Sum)
//	})
//
// A program that needs Options, or that has a result for the coordinator, calls Join,
// then Fail or Done, then Close.
//
// A program works the same under every launcher (see package rank). A process without a launcher is a
// group of one rank. Ranks of one host share memory (collective/shm) if all of them can;
// otherwise they use TCP. Ranks of several hosts use TCP between hosts, and shared memory
// inside them if every host has at least two ranks (collective.NewHosts).
// Options.Transport overrides this choice. Ranks that use TCP then measure the costs of
// calls, which determine the algorithms. Results do not depend on them.
//
// # How ranks meet
//
//	rank r                   coordinator                       rank q < r
//	 │ listens: a TCP port; a Unix socket if all are on one host      │
//	 ├─ TLS 1.3 with the job's key ►│                                 │
//	 ├─ Hello(address, note) ──────►│                                 │
//	 │◄────────── Welcome(timeout) ─┤                                 │
//	 │ … until all ranks have joined, as q does …                     │
//	 │◄────────── Roster of addresses and notes ─────────────────────►│
//	 │ choose: the notes determine the same transport on every rank   │
//	 │                                                                │
//	 │ shared memory (collective/shm), if chosen                      │
//	 ├─ hello(nonce) ────────────────────────────────────────────────►│
//	 │◄──────────────────────────────────────────────── hello(nonce) ─┤
//	 ├─ proof, then memory ──────────────────────────────────────────►│
//	 │◄────────────────────────────────────────── proof, then memory ─┤
//	 │                                                                │
//	 │ or TCP (collective/tcp), for each connection                   │
//	 ├─ hello(nonce) ────────────────────────────────────────────────►│
//	 │◄──────────────────────────────────────── answer(nonce, proof) ─┤
//	 ├─ proof ───────────────────────────────────────────────────────►│
//	 │◄───────────────────────────────────────────────────── verdict ─┤
//	 │ with Encrypt, TLS 1.3 (internal/machine/peertls)               │
//	 │                                                                │
//	 │ ranks that use TCP measure the costs of calls                  │
//
// A proof authenticates both nonces with a key derived from the job's. A process without the key
// is rejected.
//
// When a rank is lost, every pending call returns an error at once. Fail returns the
// verdict, the same on every rank.
package member

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/tcp"
	"github.com/wdlrun/wdlrun/internal/control"
	"github.com/wdlrun/wdlrun/rank"
)

// Member is this process's membership in a group that has formed.
type Member struct {
	World     rank.World
	Comm      *collective.Comm // channel 0; channel 1 is also free for the program
	Session   *control.Session
	Transport string // what carries the calls of Comm: TCP, Shared or Hosts

	opts     Options
	links    collective.Transport
	local    collective.Transport // with Hosts: transport inside this host
	calls    *traffic             // nil: a group of one rank
	closed   chan struct{}
	left     bool // Close was called
	siblings siblings
}

// untilVerdict returns a context that ends with the group's verdict, so that no rank waits
// for one that cannot connect.
func (m *Member) untilVerdict(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	session := m.Session
	go func() {
		select {
		case <-session.Aborted():
			cancel(session.Err())
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// abortOnVerdict ends the pending calls of a rank when the group gets its verdict.
func abortOnVerdict(s *control.Session, c *collective.Comm, closed <-chan struct{}) {
	select {
	case <-s.Aborted():
		c.Abort(s.Err())
	case <-closed:
	}
}

// Fail reports an error to the group, which ends on all ranks, and returns the verdict.
// If cause is an error of a collective call that another rank caused, it is reported as
// that rank's. If this rank itself was reported lost, it is reported as a lost link.
// After a rank.PermanentError no launcher restarts the job.
func (m *Member) Fail(cause error) error {
	if m.left {
		return cause
	}
	if m.Session.Err() == nil {
		defer m.Comm.Abort(cause)
	}
	return m.verdict(cause)
}

func (m *Member) verdict(cause error) error {
	if err := m.Session.Err(); err != nil {
		return err
	}
	err := m.Session.Fail(m.reported(cause), m.blame(cause))
	if r := (*report)(nil); errors.As(err, &r) { // no verdict arrived that names the lost rank
		return cause
	}
	return err
}

// reported returns an error in the form reported to the group. The verdict names the lost rank
// and the reporting one, so a loss between these two is reported by its cause only.
// Differing calls are reported likewise.
func (m *Member) reported(cause error) error {
	if differ := (*collective.MismatchError)(nil); errors.As(cause, &differ) {
		return &report{cause, differ.Error()}
	}
	var lost *collective.LostError
	if !errors.As(cause, &lost) || lost.Cause == nil || lost.Rank != m.World.Rank && lost.By != m.World.Rank {
		return cause
	}
	return &report{cause, strings.Replace(cause.Error(), lost.Error(), lost.Cause.Error(), 1)}
}

// report is an error with another message.
type report struct {
	error
	text string
}

func (r *report) Error() string { return r.text }

func (r *report) Unwrap() error { return r.error }

// blame returns the rank that caused an error, or rank.Own, rank.ForGood or rank.Differs.
// If this rank learns that it was reported lost, only the link to the reporting rank is
// lost.
func (m *Member) blame(cause error) int {
	var lost *collective.LostError
	if errors.As(cause, &lost) && lost.Rank == m.World.Rank {
		return lost.By
	}
	if who, ok := collective.Blamed(cause); ok {
		return who
	}
	if lasts := (*rank.PermanentError)(nil); errors.As(cause, &lasts) {
		return rank.ForGood
	}
	if differ := (*collective.MismatchError)(nil); errors.As(cause, &differ) {
		return rank.Differs
	}
	return rank.Own
}

// Done reports that this rank has finished its work and sends result, at most 4 MiB, to
// the process that hosts the coordinator. Only Close may follow.
func (m *Member) Done(result []byte) error {
	if err := m.Session.Done(result); err != nil {
		return fmt.Errorf("member: done: %w", err)
	}
	return nil
}

// Close leaves the group. Without Done before it, the others count this rank as lost.
func (m *Member) Close() error {
	if m.left {
		return nil
	}
	m.left = true
	close(m.closed)
	verdict := m.Session.Err()
	err := m.Session.Close()
	m.closeLinks()
	m.siblings.end(verdict) // now that it is printed: Hydra ends all ranks with this one
	m.siblings.release()
	return err
}

func (m *Member) closeLinks() {
	m.links.Close()
	if m.local != nil {
		m.local.Close()
	}
}

// Resent reports the packets that this rank has sent to other hosts since the last call, as
// [tcp.Transport.Resent] does. It is for the goroutine that makes the collective calls.
func (m *Member) Resent(report func(peer int, packets, again uint64)) {
	if t, ok := m.links.(*tcp.Transport); ok {
		t.Resent(report)
	}
}

// WatchCalls sets f to be called at each heartbeat of this generation. f returns at most
// limit collective calls that this rank has begun outside Comm, on other channels than those
// of Comm. The coordinator compares them with the calls of the other ranks (rank.Calls). f must
// not block, and reports each standstill once.
func (m *Member) WatchCalls(f func(now time.Time, limit int) []rank.Call) {
	if m.calls != nil {
		m.calls.watch(f)
	}
}

// Memory returns the number of bytes that this rank shares on its host, and how many of
// them are in preallocated huge pages.
func (m *Member) Memory() (bytes, huge int64) {
	for _, t := range []collective.Transport{m.links, m.local} {
		if s, ok := t.(interface{ Memory() (bytes, huge int64) }); ok {
			return s.Memory()
		}
	}
	return 0, 0
}
