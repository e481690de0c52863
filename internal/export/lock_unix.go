//go:build unix

package export

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// lockFile takes the lock of a file in a folder of versions without waiting. busy reports that
// another process has it. The file is not removed: otherwise two processes could hold the lock.
func lockFile(root, name string) (unlock func(), busy bool, err error) {
	f, err := regular.OpenFile(filepath.Join(root, name), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, false, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		f.Close() // nothing was written
		return nil, true, nil
	}
	return func() { f.Close() }, false, nil // the file system has no locks
}
