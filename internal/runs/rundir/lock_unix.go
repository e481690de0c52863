//go:build unix

package rundir

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// Lock locks a run directory, so that no other process trains in it until unlock is called
// or this process ends. The kernel holds the lock; the file only names the last owner. Its
// mode is 0600: a user who may open the file may lock it, and other users must not block a
// run.
func Lock(dir string) (unlock func(), err error) {
	path := filepath.Join(dir, fileLock)
	f, err := regular.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("run directory: %w", err)
	}
	f.Chmod(0o600) // for a file of an earlier release; fails if another user owns it
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		who, _ := io.ReadAll(io.LimitReader(f, 100))
		f.Close()
		return nil, fmt.Errorf("run directory: %s %w (the lock was last taken by %s): wait for it, or train into a new directory by resuming from one of its checkpoints", dir, ErrInUse, strings.TrimSpace(string(who)))
	}
	if err == nil { // file systems without locks are not locked
		f.Truncate(0)
		fmt.Fprintf(f, "pid %d\n", os.Getpid())
	}
	return func() { f.Close() }, nil // the file remains: removing it would allow a second lock
}

// Locked reports whether a training is running in a run directory. It returns false if the
// lock belongs to another user and cannot be examined.
func Locked(dir string) bool {
	f, err := regular.OpenFile(filepath.Join(dir, fileLock), os.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}

// WaitAlone waits for an exclusive lock on f and holds it until f is closed. It has no
// effect on file systems without locks.
func WaitAlone(f *os.File) { syscall.Flock(int(f.Fd()), syscall.LOCK_EX) }
