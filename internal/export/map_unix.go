//go:build unix

package export

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps a file of n bytes for reading.
func mapFile(f *os.File, n int64) (b []byte, unmap func() error, err error) {
	if n == 0 {
		return nil, func() error { return nil }, nil
	}
	if b, err = unix.Mmap(int(f.Fd()), 0, int(n), unix.PROT_READ, unix.MAP_SHARED); err != nil {
		return nil, nil, err
	}
	return b, func() error { return unix.Munmap(b) }, nil
}
