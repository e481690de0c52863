//go:build !unix

package wdl

import "os"

// lock is for systems that have flock; elsewhere nobody is kept out.
func lock(string) (unlock func(), err error) { return func() {}, nil }

// alone is for them too; elsewhere a fault on purpose may be noted twice.
func alone(*os.File) {}
