package tcp

import (
	"net"
	"time"
)

// A host that vanishes without a packet is noticed after idle + count·interval, on the
// control link.
const (
	keepIdle     = 10 * time.Second
	keepInterval = 2 * time.Second
	keepCount    = 5
	keepTime     = keepIdle + keepCount*keepInterval
)

// setOptions makes the system end a control link whose other host has vanished, and
// spares a link inside a host what only a network needs. A data link has no time limit
// of its own: its peer may compute for minutes before it reads, and the limit of the
// system would count the time in which the peer's receive window is closed. The reader
// of the control link always reads. Errors do not matter: the link works without.
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

// sameHost reports whether both ends of conn have one address.
func sameHost(conn net.Conn) bool {
	own, _, err := net.SplitHostPort(conn.LocalAddr().String())
	if err != nil {
		return false
	}
	theirs, _, err := net.SplitHostPort(conn.RemoteAddr().String())
	return err == nil && own == theirs
}
