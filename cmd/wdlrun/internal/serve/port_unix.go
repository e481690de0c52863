//go:build unix

package serve

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// reusePort lets several processes listen on one port.
var reusePort = func(_, _ string, c syscall.RawConn) error {
	var set error
	err := c.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
	return errors.Join(err, set)
}
