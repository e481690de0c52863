//go:build !linux

package tcp

import "testing"

// put writes arbitrary bytes to a link.
func (l *link) put(t *testing.T, b []byte) {
	t.Helper()
	if n, err := l.conn.Write(b); err != nil {
		t.Fatalf("%d of %d bytes written: %v", n, len(b), err)
	}
}

// closeWrite closes the sending direction of a link.
func (l *link) closeWrite() { tcpConn(l.conn).CloseWrite() }

// reset closes the link as the system does for a dead process with unread bytes.
func (l *link) reset() {
	tcpConn(l.conn).SetLinger(0)
	l.conn.Close()
}
