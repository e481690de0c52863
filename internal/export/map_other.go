//go:build !unix

package export

import (
	"io"
	"os"

	"github.com/wdlrun/wdlrun/internal/kernel/raw"
)

// mapFile reads a file of n bytes.
func mapFile(f *os.File, n int64) (b []byte, unmap func() error, err error) {
	b = raw.Bytes(make([]uint64, (n+7)/8))[:n]
	_, err = io.ReadFull(f, b)
	return b, func() error { return nil }, err
}
