package tcp

import (
	"net"
	"time"
)

// A host that vanishes without a packet is detected on the control link after idle +
// count·interval.
const (
	keepIdle     = 10 * time.Second
	keepInterval = 2 * time.Second
	keepCount    = 5
	keepTime     = keepIdle + keepCount*keepInterval
)

// setOptions makes the system end a control link if the other host has vanished. For a link
// inside a host it turns off what only a network needs. A data link has no time limit: its
// peer may compute for minutes before it reads, and the limit of the system would include
// the time for which the peer's receive window is closed. The reader of the control link
// always reads. Errors are ignored, because the link works without the options.
func setOptions(conn *net.TCPConn, id linkID) {
	if id.link == linkControl {
		conn.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: keepIdle, Interval: keepInterval, Count: keepCount})
		setUserTimeout(conn, keepTime)
	} else {
		conn.SetKeepAlive(false)
	}
	if sameHost(conn) {
		setUnpaced(conn)
	}
}

// sameHost reports whether both ends of conn have the same address.
func sameHost(conn net.Conn) bool {
	own, _, err := net.SplitHostPort(conn.LocalAddr().String())
	if err != nil {
		return false
	}
	theirs, _, err := net.SplitHostPort(conn.RemoteAddr().String())
	return err == nil && own == theirs
}

// linkID identifies a link of this rank.
type linkID struct {
	peer int
	link uint16 // channel, or linkControl
}
