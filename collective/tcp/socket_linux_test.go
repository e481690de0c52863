package tcp

import (
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// TestNoDescriptorIsLeft counts the open files of this process before and after groups in which
// a rank leaves, aborts or dies.
func TestNoDescriptorIsLeft(t *testing.T) {
	closeAll(group(t, 2)) // opens the files of the runtime, such as its poller
	before := descriptors(t)
	closing := func(tr *Transport) { tr.Close() }
	aborting := func(tr *Transport) { tr.Abort(errors.New("enough")) }
	for _, end := range []func(tr *Transport){closing, aborting, kill} {
		ts := group(t, 3)
		end(ts[1])
		var others sync.WaitGroup
		for _, tr := range []*Transport{ts[0], ts[2]} { // rank 2 first waits for rank 1, rank 0 for rank 2
			others.Go(func() {
				if err := collective.Barrier(collective.New(tr)); err == nil {
					t.Error("a barrier succeeded without one of its ranks")
				}
			})
		}
		others.Wait()
		closeAll(ts)
	}
	late := time.Now().Add(patient.Longest)
	for descriptors(t) > before {
		if time.Now().After(late) {
			t.Fatalf("%d descriptors, %d before", descriptors(t), before)
		}
		time.Sleep(time.Millisecond)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(files)
}

// put writes arbitrary bytes to a link.
func (l *link) put(t *testing.T, b []byte) {
	t.Helper()
	if n, err := l.sock.send(b, nil); n != len(b) || err != nil {
		t.Fatalf("%d of %d bytes written: %v", n, len(b), err)
	}
}

// closeWrite closes the sending direction of a link.
func (l *link) closeWrite() { unix.Shutdown(l.sock.fd, unix.SHUT_WR) }

// reset closes the link as the system does for a dead process with unread bytes.
func (l *link) reset() {
	unix.SetsockoptLinger(l.sock.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	l.sock.close()
}

// TestALaneThatIsReadyDoesNotStandStill: an overloaded system may run the goroutine that checks
// for stuck lanes before the one that waits, although the bytes have arrived. Such a lane is not
// stuck.
func TestALaneThatIsReadyDoesNotStandStill(t *testing.T) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	fatal.If(t, err)
	defer unix.Close(ends[0])
	defer unix.Close(ends[1])
	full := make([]byte, 1<<16)
	for {
		if _, err := unix.SendmsgN(ends[0], full, nil, nil, unix.MSG_DONTWAIT); err != nil {
			break
		}
	}
	for name, k := range map[string]struct {
		out, in, other bool // in: the lane waits to receive; out: to send; other: at the other end, which has bytes and room
		still          bool
	}{
		"bytes to receive":   {in: true, other: true},
		"nothing to receive": {in: true, still: true},
		"room to send":       {out: true, other: true},
		"no room to send":    {out: true, still: true},
	} {
		fd := ends[0]
		if k.other {
			fd = ends[1]
		}
		l := &link{sock: &socket{fd: fd}}
		s := &slot{waiting: true, lanes: []lane{{in: l, out: l, blockedIn: k.in, blockedOut: k.out}}}
		for range minStill + 1 {
			s.countStalled()
		}
		if still := s.lanes[0].still >= minStill; still != k.still {
			t.Errorf("%s: the lane is stuck: %t, want %t", name, still, k.still)
		}
	}
}
