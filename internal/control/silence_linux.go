package control

import (
	"net"
	"syscall"
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

// smallPackets limits the packets of both directions of a connection that is about to be
// made, so that a link that loses large packets does not make a rank silent.
func smallPackets(_, _ string, raw syscall.RawConn) error {
	return raw.Control(func(fd uintptr) { unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, smallSegment) })
}

// smallSegment makes packets of 576 bytes, which every host accepts (RFC 9293, 3.7.1).
const smallSegment = 536
