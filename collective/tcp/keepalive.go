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

// setKeepAlive makes the system end a connection whose other host has vanished.
// Errors do not matter: the link works without.
func setKeepAlive(conn *net.TCPConn) {
	conn.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: keepIdle, Interval: keepInterval, Count: keepCount})
	setUserTimeout(conn, keepTime)
}
