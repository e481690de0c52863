//go:build !unix

package rundir

import "os"

// Lock does nothing on systems without flock.
func Lock(string) (unlock func(), err error) { return func() {}, nil }

// Locked returns false on systems without flock.
func Locked(string) bool { return false }

// WaitAlone does nothing on systems without flock; an injected fault may be recorded twice.
func WaitAlone(*os.File) {}
