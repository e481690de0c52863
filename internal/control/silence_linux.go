package control

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// answeredWithin has the system end a connection whose other host has not acknowledged
// for so long what was sent. A process that is stopped is not meant: its system answers.
func answeredWithin(conn *net.TCPConn, d time.Duration) {
	if raw, err := conn.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) {
			unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d/time.Millisecond))
		})
	}
}
