//go:build unix

package save

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Lock makes this process the only one that trains in a run directory, until
// unlock or its end, in whatever way. The lock is the kernel's; the file only
// says who took it last. Its mode is 0600: every user who may open a file may lock it, and
// another user must not be able to block a run.
func Lock(dir string) (unlock func(), err error) {
	path := filepath.Join(dir, fileLock)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, fmt.Errorf("wdl: run directory: %w", err)
	}
	f.Chmod(0o600) // one of an earlier release; it fails where another user owns it
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		who, _ := io.ReadAll(io.LimitReader(f, 100))
		f.Close()
		return nil, fmt.Errorf("wdl: run directory: %s %w (the lock was last taken by %s): wait for it, or train into a new directory by resuming from one of its checkpoints", dir, ErrInUse, strings.TrimSpace(string(who)))
	}
	if err == nil { // file systems without locks go without
		f.Truncate(0)
		fmt.Fprintf(f, "pid %d\n", os.Getpid())
	}
	return func() { f.Close() }, nil // the file stays: removing it would let two in
}

// Locked reports whether a training is at work in a run directory. It is false where
// another user's lock cannot be looked at.
func Locked(dir string) bool {
	f, err := os.OpenFile(filepath.Join(dir, fileLock), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}

// WaitAlone waits until no other process has f open and alone, and keeps them out until f is
// closed. File systems without locks go without.
func WaitAlone(f *os.File) { syscall.Flock(int(f.Fd()), syscall.LOCK_EX) }
