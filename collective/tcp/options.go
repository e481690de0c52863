package tcp

import (
	"net"
	"time"
)

// A host that vanishes without a packet is noticed after idle + count·interval.
const (
	keepIdle     = 10 * time.Second
	keepInterval = 2 * time.Second
	keepCount    = 5
	keepTime     = keepIdle + keepCount*keepInterval
)

// setOptions makes the system end a connection whose other host has vanished,
// and spares one inside a host what only a network needs. Errors do not matter:
// the link works without.
func setOptions(conn *net.TCPConn) {
	conn.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: keepIdle, Interval: keepInterval, Count: keepCount})
	setUserTimeout(conn, keepTime)
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
