//go:build !unix

package save

import "os"

// Lock is for systems that have flock; elsewhere nobody is kept out.
func Lock(string) (unlock func(), err error) { return func() {}, nil }

// Locked is for them too.
func Locked(string) bool { return false }

// WaitAlone is for them too; elsewhere a fault on purpose may be noted twice.
func WaitAlone(*os.File) {}
