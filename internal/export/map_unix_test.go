//go:build unix

package export

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestMappings: a mapping of several pieces has the bytes of the file, also if pages are
// entered from an odd offset, and can be unmapped.
func TestMappings(t *testing.T) {
	want := bytes.Repeat([]byte("0123456789"), 2*unmapBytes/10+1)
	path := filepath.Join(t.TempDir(), "x")
	fatal.If(t, os.WriteFile(path, want, 0o644))
	f, err := os.Open(path)
	fatal.If(t, err)
	defer f.Close()
	b, unmap, err := mapFile(f, int64(len(want)))
	fatal.If(t, err)
	populate(b, 4097, pieceBytes)
	populate(b, int64(len(b))-3, 3)
	if !bytes.Equal(b, want) {
		t.Error("the mapping has other bytes than the file")
	}
	if err := unmap(); err != nil {
		t.Error(err)
	}
}
