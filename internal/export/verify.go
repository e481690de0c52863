package export

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// Pause is called between pieces of work of about 0.1 ms, so that requests run while a
// version is opened. nil: never.
type Pause func()

func (p Pause) call() {
	if p != nil {
		p()
	}
}

func (f *file) checkSize(n int64) error {
	if n != f.size() {
		return fmt.Errorf("%d bytes, the manifest has %d: cut short, or still being copied", n, f.size())
	}
	return nil
}

// verify verifies the checksums of sections in b; offset is their place in the file. It
// calls before with each piece of b before hashing it.
func verify(b []byte, sections []section, offset int64, before func(piece []byte) error) error {
	hash := xxh3.New()
	for _, s := range sections {
		hash.Reset()
		for piece := range slices.Chunk(b[:s.Length], pieceBytes) {
			if err := before(piece); err != nil {
				return err
			}
			_, _ = hash.Write(piece) // a hash never fails
		}
		if sum := checkpoint.Sum(hash.Sum64()); sum != s.Checksum {
			return fmt.Errorf("offset %d: the checksum of section %q (%d bytes) is %v, the manifest has %v: damaged", offset, s.Name, s.Length, sum, s.Checksum)
		}
		offset, b = offset+s.Length, b[s.Length:]
	}
	return nil
}

// pieceBytes is the number of bytes read, verified or unmapped at a time.
const pieceBytes = 1 << 18

// verified returns the content of a file after verifying it, or the error of reading it.
func (f *file) verified(b []byte, err error) ([]byte, error) {
	if err == nil {
		err = f.checkSize(int64(len(b)))
	}
	if err == nil {
		err = verify(b, f.Sections, 0, func([]byte) error { return nil })
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	return b, nil
}

// readWhole reads a file into memory and verifies it.
func readWhole(dir string, f file) ([]byte, error) {
	b, err := regular.ReadFile(filepath.Join(dir, f.Name), f.size())
	return f.verified(b, err)
}
