//go:build unix

package launcher

import (
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// canPoll reports whether a terminal can be polled for input.
const canPoll = true

// pollTime bounds the time until the copying of a terminal notices its end.
const pollTime = 100 * time.Millisecond

// copyTerminal copies the input of the terminal until its end (Ctrl-D), quit, or an error on
// either side. It reads only available input, so that it never blocks in a read. It reads only
// while this process is in the terminal's foreground, because a read from the background would
// stop the process.
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
