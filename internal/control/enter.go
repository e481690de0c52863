package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/wdlrun/wdlrun/internal/machine/ports"
	"github.com/wdlrun/wdlrun/rank"
)

// Enter makes this process a member of its job, under any launcher, and returns when the
// group has formed. addr is the address at which other ranks reach this one.
//
// If wdlrun launched the ranks, Enter joins the launcher's coordinator. Otherwise rank 0
// hosts the coordinator in its own process. The ranks find it at w.Coordinator with w.Key, or
// by the job's meeting file (see rank.Meeting), which rank 0 removes once all have joined. In
// a world of one rank there is no communication.
func Enter(ctx context.Context, w rank.World, addr string, opts Options) (*Session, error) {
	if err := errors.Join(w.Validate(), opts.Validate()); err != nil {
		return nil, err
	}
	if w.Launched {
		return Join(ctx, w, addr, opts)
	}
	ctx, stop := whileWaiting(ctx, w, opts)
	defer stop()
	s, err := meet(ctx, w, addr, opts)
	if cause := context.Cause(ctx); err != nil && errors.As(cause, new(*desertedError)) {
		err = cause
	}
	return s, err
}

// meet makes this process a member of a job that wdlrun did not launch.
func meet(ctx context.Context, w rank.World, addr string, opts Options) (*Session, error) {
	meets := w.Coordinator == "" && w.Size > 1
	var meeting rank.Meeting
	if meets {
		var err error
		if meeting, err = w.Meeting(); err != nil {
			return nil, err
		}
	}
	if w.Rank != 0 {
		if !meets {
			return Join(ctx, w, addr, opts)
		}
		return join(ctx, w, addr, opts, meeting.Read, nil)
	}
	if w.Key == (rank.Key{}) {
		w.Key = rank.NewKey()
	}
	server, err := host(w, opts)
	if err != nil {
		return nil, err
	}
	if meets {
		if err := announce(ctx, w, meeting, server.Addr()); err != nil {
			server.Close()
			return nil, err
		}
		defer meeting.Remove()
	}
	here := func() (string, rank.Key, error) { return server.Addr(), w.Key, nil }
	s, err := join(ctx, w, addr, opts, here, server)
	if err != nil {
		server.Close()
		switch v := (*rank.Verdict)(nil); {
		case !errors.As(err, &v) || v.Kind != rank.Absent:
		case w.Coordinator == "":
			err = fmt.Errorf("%w%s", err, started(w))
		default:
			err = fmt.Errorf("%w; rank 0 waited for them at %s: read their output, and check that %s, their WDLRUN_COORDINATOR, reaches that address", err, server.Addr(), w.Coordinator)
		}
		return nil, err
	}
	return s, nil
}

// waitNotice is how long a rank waits for the others before it reports what it knows about them.
const waitNotice = 3 * time.Second

// whileWaiting reports that this rank waits, if it does so for a while: the variables that make it a
// rank may be left over in a shell, and the other ranks may not exist. At most two ranks of a host
// report it. If it is known that the others do not exist, the context that it returns ends.
func whileWaiting(ctx context.Context, w rank.World, opts Options) (waiting context.Context, stop func()) {
	waiting, fail := context.WithCancelCause(ctx)
	timeout := cmp.Or(opts.Timeout, defaultTimeout)
	notice := min(waitNotice, timeout/4)
	t := time.AfterFunc(notice, func() {
		if w.Deserted() {
			select { // a busy machine may start them late
			case <-time.After(notice):
			case <-waiting.Done():
				return
			}
			if w.Deserted() {
				fail(&desertedError{w})
				return
			}
		}
		if w.Size > 1 && opts.Word != nil && w.LocalRank <= 1 {
			opts.Word(fmt.Sprintf("rank %d of %d waits for the others to join, for up to %s%s%s", w.Rank, w.Size, timeout, started(w), apart(w)))
		}
	})
	return waiting, func() { t.Stop(); fail(nil) }
}

// desertedError reports that no other rank of a job has a process on this host.
type desertedError struct{ w rank.World }

func (e *desertedError) Error() string {
	return fmt.Sprintf("control: enter: by the variables of %s, this is rank %d of %d (%s), but no process of another rank is on this host: all have ended, or the variables are left over in a shell: use a new shell, or set WDLRUN_SIZE=1 to train alone", e.w.By, e.w.Rank, e.w.Size, e.w.Named)
}

// host starts the coordinator in this process.
func host(w rank.World, opts Options) (*Server, error) {
	ip, err := w.ListenIP()
	if err != nil {
		return nil, err
	}
	ln, err := openPort(w, ip, opts.Ports)
	if err != nil {
		return nil, fmt.Errorf("control: enter: rank 0 hosts the coordinator: %w; choose another port in WDLRUN_COORDINATOR or address in WDLRUN_IP", err)
	}
	server, err := Serve(ln, Config{Key: w.Key, Size: w.Size, Generation: w.Generation, Version: opts.Version, Timeout: opts.Timeout, Host: opts.Host, Word: opts.Word})
	if err != nil {
		ln.Close()
		return nil, err
	}
	return server, nil
}

// openPort opens the coordinator's port from the environment, or one of the ports at which
// this process may listen.
func openPort(w rank.World, ip, within string) (net.Listener, error) {
	if w.Coordinator != "" {
		_, port, err := net.SplitHostPort(w.Coordinator)
		if err != nil {
			return nil, err
		}
		return net.Listen("tcp", net.JoinHostPort(ip, port))
	}
	allowed, err := ports.Parse(within)
	if err != nil {
		return nil, err
	}
	return allowed.Listen(ip)
}

// announce writes the meeting file. An existing file is stale unless its coordinator answers:
// then another job has the same name.
func announce(ctx context.Context, w rank.World, m rank.Meeting, addr string) error {
	if old, err := try(ctx, m.Read); err == nil {
		old.conn.Close()
		return fmt.Errorf("control: enter: another job named %q is running (its coordinator is at %s, see %s): set WDLRUN_JOB to another name", w.Job, old.addr, m.Path())
	}
	return m.Publish(addr, w.Key)
}
