package tcp

import (
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// setUserTimeout bounds the time for which sent bytes may stay unacknowledged. The system
// sends no keep-alive probes during that time.
func setUserTimeout(conn *net.TCPConn, d time.Duration) {
	onSocket(conn, func(fd int) { unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d/time.Millisecond)) })
}

// setUnpaced chooses a congestion control that every system has and that sends at once.
// Others, such as BBR, pace packets by an estimated bandwidth. Inside a host that estimate
// depends on the scheduler.
func setUnpaced(conn *net.TCPConn) {
	onSocket(conn, func(fd int) { unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, "reno") })
}

func onSocket(conn *net.TCPConn, set func(fd int)) {
	if raw, err := conn.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) { set(int(fd)) })
	}
}

// spareFiles returns how many more files this process may open, and its limit; 0 if it is unknown.
func spareFiles() (spare, limit int) {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return 0, 0
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0, 0
	}
	limit = int(min(l.Cur, 1<<30))
	return limit - len(open) + 1, limit // the list includes the descriptor that reads it
}
