//go:build !unix

package save

import "os"

// Lock is for systems that have flock; elsewhere no process is kept out.
func Lock(string) (unlock func(), err error) { return func() {}, nil }

// Locked is for them too.
func Locked(string) bool { return false }

// WaitAlone is for them too; elsewhere an injected fault may be noted twice.
func WaitAlone(*os.File) {}
