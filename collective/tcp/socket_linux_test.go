package tcp

import (
	"testing"

	"golang.org/x/sys/unix"
)

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
