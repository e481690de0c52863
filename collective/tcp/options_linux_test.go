package tcp

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestOnlyTheControlLinkHasATimeLimit: only the control link limits the time of unacknowledged
// bytes, because the system applies this limit also to a peer whose receive window is closed.
func TestOnlyTheControlLinkHasATimeLimit(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	defer ln.Close()
	for _, x := range []struct {
		id                linkID
		limit, keepsAlive int
	}{{linkID{1, 0}, 0, 0}, {linkID{1, 3}, 0, 0}, {linkID{1, linkControl}, int(keepTime.Milliseconds()), 1}} {
		conn, err := net.Dial("tcp", ln.Addr().String())
		fatal.If(t, err)
		defer conn.Close()
		setOptions(conn.(*net.TCPConn), x.id)
		onSocket(conn.(*net.TCPConn), func(fd int) {
			limit, err := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
			alive, err2 := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE)
			if err != nil || err2 != nil || limit != x.limit || alive != x.keepsAlive {
				t.Errorf("link %v: limit %d ms, want %d; keep-alive %d, want %d (%v, %v)", x.id, limit, x.limit, alive, x.keepsAlive, err, err2)
			}
		})
	}
}
