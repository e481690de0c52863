package tcp

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wdlrun/wdlrun/collective"
)

// TestNoDescriptorIsLeft counts this process's files before and after groups that
// a rank leaves, aborts, and dies in.
func TestNoDescriptorIsLeft(t *testing.T) {
	closeAll(group(t, 2)) // the runtime's own, such as its poller, are there from now on
	before := descriptors(t)
	closing := func(tr *Transport) { tr.Close() }
	aborting := func(tr *Transport) { tr.Abort(errors.New("enough")) }
	for _, end := range []func(tr *Transport){closing, aborting, kill} {
		ts := group(t, 3)
		end(ts[1])
		if err := collective.Barrier(collective.New(ts[0])); err == nil {
			t.Error("a barrier of a rank that is alone")
		}
		closeAll(ts)
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors, %d before", after, before)
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

// put writes bytes that no exchange would.
func (l *link) put(t *testing.T, b []byte) {
	t.Helper()
	if n, err := l.sock.send(b, nil); n != len(b) || err != nil {
		t.Fatalf("%d of %d bytes written: %v", n, len(b), err)
	}
}

// closeWrite ends the stream of what this side sends.
func (l *link) closeWrite() { unix.Shutdown(l.sock.fd, unix.SHUT_WR) }

// reset closes the link as the system does for a dead process with unread bytes.
func (l *link) reset() {
	unix.SetsockoptLinger(l.sock.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	l.sock.close()
}
