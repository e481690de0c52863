//go:build !unix

package export

// lockFile does nothing on systems without file locks.
func lockFile(_, _ string) (unlock func(), busy bool, err error) { return func() {}, false, nil }
