//go:build unix

package export

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// lock makes this process the only one that writes versions of a model, until unlock or
// its end. The file is not removed: otherwise two processes could hold the lock.
func lock(root string) (unlock func(), err error) {
	f, err := regular.OpenFile(filepath.Join(root, ".lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		f.Close() // nothing was written
		return nil, fmt.Errorf("another export writes to %s: wait for it", root)
	}
	return func() { f.Close() }, nil // the file system has no locks
}
