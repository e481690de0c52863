//go:build !unix

package export

// lockFile does nothing on systems without file locks.
func lockFile(_, _ string) (unlock func(), err error) { return func() {}, nil }
