//go:build !unix

package rundir

import "os"

// Lock does nothing on systems without flock.
func Lock(string) (unlock func(), err error) { return func() {}, nil }

func tryLock(string, bool) (f *os.File, by string, err error) {
	f, err = os.Open(os.DevNull)
	return f, "", err
}

func newLock(string) (*os.File, error) { return os.Open(os.DevNull) }

// Locked returns false on systems without flock.
func Locked(string) bool { return false }

// WaitAlone does nothing on systems without flock; an injected fault may be recorded twice.
func WaitAlone(*os.File) {}
