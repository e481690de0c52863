package hosts

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestOwnImage: wdlrun arrives without debug information, runs, and has the hash that the launcher
// announced. Both builds have the same hash for -ship never.
func TestOwnImage(t *testing.T) {
	self, err := os.Executable()
	fatal.If(t, err)
	i, err := NewOwnImage(self)
	fatal.If(t, err)
	packed, err := i.Packed()
	fatal.If(t, err)
	at := filepath.Join(t.TempDir(), i.Hash)
	fatal.If(t, Unpack(bytes.NewReader(packed), at, i.Hash))
	whole, err := os.Stat(self)
	fatal.If(t, err)
	part, err := os.Stat(at)
	fatal.If(t, err)
	if part.Size() >= whole.Size() {
		t.Errorf("%d of %d bytes are sent", part.Size(), whole.Size())
	}
	if out, err := exec.Command(at, "-test.run", "^$").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if got, err := OwnHash(at); err != nil || got != i.Hash {
		t.Errorf("hash of the copy %s (%v), of the original %s", got, err, i.Hash)
	}
	fatal.If(t, Verify(at))
}

// TestOtherFilesAreSentWhole: a file that is no executable, or ends early, is sent completely.
func TestOtherFilesAreSentWhole(t *testing.T) {
	self, err := os.Executable()
	fatal.If(t, err)
	b, err := os.ReadFile(self)
	fatal.If(t, err)
	path := filepath.Join(t.TempDir(), "program")
	for _, content := range [][]byte{nil, []byte(program), b[:40], b[:64], b[:1000]} {
		fatal.If(t, os.WriteFile(path, content, 0o700))
		own, err := OwnHash(path)
		fatal.If(t, err)
		if whole, err := Hash(path); err != nil || own != whole {
			t.Errorf("%d bytes: hash %s, of the whole file %s (%v)", len(content), own, whole, err)
		}
	}
}
