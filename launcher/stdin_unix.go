//go:build unix

package launcher

import (
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// canPoll reports whether a terminal can be asked if there is something to read.
const canPoll = true

// pollTime is how long a terminal's copying may take to notice its end.
const pollTime = 100 * time.Millisecond

// copyTerminal copies what is typed until the end of the input (Ctrl-D), quit,
// or an error of either side. It reads only what is there, so that it never
// stays in a read, and only while this process is in the terminal's foreground,
// since a read from the background would stop it.
func copyTerminal(to io.Writer, tty *os.File, quit <-chan struct{}) {
	fd := int(tty.Fd())
	buf := make([]byte, 4096)
	for {
		select {
		case <-quit:
			return
		default:
		}
		if group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err != nil || group != unix.Getpgrp() {
			select {
			case <-quit:
				return
			case <-time.After(pollTime):
			}
			continue
		}
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, int(pollTime/time.Millisecond))
		if err == unix.EINTR || err == nil && n == 0 {
			continue
		}
		if err != nil {
			return
		}
		n, err = unix.Read(fd, buf)
		if err == unix.EINTR || err == unix.EAGAIN {
			continue
		}
		if err != nil || n <= 0 {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}
