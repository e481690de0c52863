//go:build unix

package rundir

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// Lock locks a run directory, so that no other process trains in it until unlock is called
// or this process ends. The kernel holds the lock; the file only names the last owner. Its
// mode is 0600: a user who may open the file may lock it, and other users must not block a
// run.
func Lock(dir string) (unlock func(), err error) {
	f, by, err := tryLock(filepath.Join(dir, fileLock), true)
	if err != nil {
		return nil, err
	}
	if f == nil {
		return nil, &InUse{dir, by}
	}
	return func() { f.Close() }, nil // the file remains: removing it would allow a second lock
}

// tryLock locks a file. If another process holds the lock, f is nil and by says who. With create
// the file is made if it is missing.
func tryLock(path string, create bool) (f *os.File, by string, err error) {
	flag := os.O_RDWR
	if create {
		flag |= os.O_CREATE
	}
	if f, err = regular.OpenFile(path, flag, 0o600); err != nil {
		return nil, "", fmt.Errorf("run directory: %w", err)
	}
	f.Chmod(0o600) // for a file of an earlier release; fails if another user owns it
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		who, _ := io.ReadAll(io.LimitReader(f, 200))
		f.Close()
		return nil, cmp.Or(strings.TrimSpace(string(who)), "a process that is starting"), nil
	}
	if err == nil { // file systems without locks are not locked
		sign(f)
	}
	return f, "", nil
}

// newLock makes a file and locks it.
func newLock(path string) (*os.File, error) {
	f, err := regular.Create(path, 0o600)
	if err == nil {
		syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) // nobody else has the file; not all file systems have locks
		sign(f)
	}
	return f, err
}

// sign names this process in a lock file.
func sign(f *os.File) {
	host, _ := os.Hostname() // for users only
	f.Truncate(0)
	f.WriteAt(fmt.Appendf(nil, "pid %d on host %s\n", os.Getpid(), host), 0)
}

// Locked reports whether a training is running in a run directory. It returns false if the
// lock belongs to another user and cannot be examined.
func Locked(dir string) bool {
	paths := []string{filepath.Join(dir, fileLock)}
	root := filepath.Join(dir, checkpoint.Folder)
	names, _ := checkpoint.Turns(root) // an unreadable directory has none
	for _, name := range names {
		paths = append(paths, lockOf(root, name, name))
	}
	return slices.ContainsFunc(paths, locked)
}

func locked(path string) bool {
	f, err := regular.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}

// WaitAlone waits for an exclusive lock on f and holds it until f is closed. It has no
// effect on file systems without locks.
func WaitAlone(f *os.File) { syscall.Flock(int(f.Fd()), syscall.LOCK_EX) }
