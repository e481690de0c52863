//go:build unix

package launcher

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// controlled reports whether a shell with job control can wake this process: not
// where it is in the group of the session's leader, as below ssh or in a
// container without a shell. There the kernel ignores Ctrl-Z, and so do we.
func controlled() bool {
	session, err := unix.Getsid(0)
	return err == nil && session != unix.Getpgrp()
}

// suspends has SIGTSTP stop the processes of a crew and then this one, and
// SIGCONT wake them, until stop is called. The ranks are woken by the arrival of
// SIGCONT alone, since a process may take a few more steps after it has stopped
// itself.
func suspends(c crew) (stop func()) {
	signals, quit, done := make(chan os.Signal, 4), make(chan struct{}), make(chan struct{})
	signal.Notify(signals, syscall.SIGTSTP, syscall.SIGCONT)
	go func() {
		defer close(done)
		for {
			select {
			case s := <-signals:
				if s == syscall.SIGCONT {
					c.signal(wakeSign, everyone)
					continue
				}
				if !controlled() {
					continue
				}
				c.signal(pauseSign, everyone)
				syscall.Kill(os.Getpid(), syscall.SIGSTOP)
			case <-quit:
				return
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(quit)
		<-done
		c.signal(wakeSign, everyone) // a stop that came with the end is no reason to wait
	}
}
