package nccl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/gpu/inventory"
	"github.com/wdlrun/wdlrun/member"
	"github.com/wdlrun/wdlrun/rank"
)

// AboutCalls is the launcher.Report.About of the last calls of a rank.
const AboutCalls = "calls"

// maxHello is the maximum size of a rank's message about its library, in bytes.
const maxHello = 1 << 10

// Join makes a communicator of all ranks of m, on the device of this rank. Every rank calls
// it, and makes no other call on m.Comm meanwhile. The calls of the communicator are compared
// with m's heartbeats, and a verdict on the group aborts all communicators of the library.
func (l *Library) Join(ctx context.Context, m *member.Member, device Context) (*Comm, error) {
	if err := l.agree(m); err != nil {
		return nil, err
	}
	if ip, err := m.World.ListenIP(); err == nil {
		if name := inventory.InterfaceOf(ip); name != "" {
			l.native.preferInterface(name)
		}
	}
	id, err := l.share(m)
	if err != nil {
		return nil, err
	}
	o := l.newOwner(device, m)
	m.WatchCalls(o.standstill)
	go o.watch()
	timeout := m.Session.Timeout()
	late := fmt.Errorf("not all of %d ranks were connected within %s; does NCCL reach the others? (NCCL_SOCKET_IFNAME, NCCL_DEBUG=INFO)", m.World.Size, timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, late)
	defer cancel()
	ctx, stop := untilVerdict(ctx, m)
	defer stop()
	return l.connect(ctx, o, id, m.World.Rank, m.World.Size)
}

// untilVerdict returns a context that ends when the group has its verdict.
func untilVerdict(ctx context.Context, m *member.Member) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-m.Session.Aborted():
			cancel(m.Session.Err())
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// agree compares the versions of all ranks.
func (l *Library) agree(m *member.Member) error {
	hello := fmt.Appendf(nil, "%d %s", l.version, l.path)
	all, err := collective.AllGatherBytes(m.Comm, hello[:min(len(hello), maxHello)], maxHello)
	if err != nil {
		return fmt.Errorf("nccl: join: %w", err)
	}
	for r, b := range all {
		var theirs Version
		code, path, _ := strings.Cut(string(b), " ")
		if _, err := fmt.Sscan(code, &theirs); err != nil {
			return fmt.Errorf("nccl: join: rank %d: rank %d sent invalid data about its library: %q", m.World.Rank, r, b)
		}
		if theirs.minor() != l.version.minor() {
			return fmt.Errorf("nccl: join: rank %d has NCCL %v (%s), rank %d has %v (%s); all ranks need the same major and minor version",
				m.World.Rank, l.version, l.path, r, theirs, path)
		}
	}
	return nil
}

// share returns the id that rank 0 makes. All ranks get its error.
func (l *Library) share(m *member.Member) (id ID, err error) {
	var b []byte
	if m.World.Rank == 0 {
		if id, err = l.NewID(); err != nil {
			b = []byte(err.Error())
			b = b[:min(len(b), len(id)-1)]
		} else {
			b = id[:]
		}
	}
	b, failed := collective.BroadcastBytes(m.Comm, b, 0, len(id))
	switch {
	case failed != nil:
		return id, fmt.Errorf("nccl: join: %w", failed)
	case err != nil:
		return id, err
	case len(b) != len(id):
		return id, fmt.Errorf("nccl: join: rank 0: %s", b)
	}
	return ID(b), nil
}

// standstill is for m.WatchCalls.
func (o *owner) standstill(now time.Time, limit int) (all []rank.Call) {
	for _, c := range o.all() {
		all = append(all, c.standstill(now, limit-len(all))...)
	}
	return all
}

// watch polls for errors until no communicator is left, and aborts all when the group has
// its verdict.
func (o *owner) watch() {
	m := o.member
	tick := time.NewTicker(pollTime)
	defer tick.Stop()
	for {
		select {
		case <-o.idle:
			return
		case <-m.Session.Aborted():
			o.reportLastCalls()
			if err := o.lib.Abort(m.Session.Err()); err != nil {
				m.Session.Report(AboutCalls, []byte(err.Error()))
			}
			return
		case <-tick.C:
			var found error
			for _, c := range o.all() {
				found = errors.Join(found, c.poll())
			}
			if found != nil {
				go m.Fail(found)
			}
		}
	}
}

// reportLastCalls sends the record of the last calls to the launcher, which keeps it.
func (o *owner) reportLastCalls() {
	var b strings.Builder
	for _, c := range o.all() {
		b.WriteString(c.record())
	}
	if b.Len() > 0 {
		o.member.Session.Report(AboutCalls, []byte(b.String()))
	}
}
