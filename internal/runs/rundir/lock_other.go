//go:build !unix

package rundir

import (
	"os"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// Lock does nothing on systems without flock.
func Lock(string) (unlock func(), err error) { return func() {}, nil }

// tryLock returns a closed file: an open one would keep its folder from being renamed.
func tryLock(path string, create bool) (f *os.File, by string, err error) {
	flag := os.O_RDWR
	if create {
		flag |= os.O_CREATE
	}
	if f, err = regular.OpenFile(path, flag, 0o600); err == nil {
		f.Close()
	}
	return f, "", err
}

// newLock returns a closed file.
func newLock(path string) (*os.File, error) {
	f, err := regular.Create(path, 0o600)
	if err == nil {
		f.Close()
	}
	return f, err
}

// Locked returns false on systems without flock.
func Locked(string) bool { return false }

// WaitAlone does nothing on systems without flock; an injected fault may be recorded twice.
func WaitAlone(*os.File) {}
