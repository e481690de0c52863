//go:build !unix

package wdl

// lock is for systems that have flock; elsewhere nobody is kept out.
func lock(string) (unlock func(), err error) { return func() {}, nil }
