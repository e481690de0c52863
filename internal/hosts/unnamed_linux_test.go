package hosts

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestUnpackLeavesNothing: a program that has arrived in part has no name, so nothing is
// left if the process is killed.
func TestUnpackLeavesNothing(t *testing.T) {
	i, dir := image(t), t.TempDir()
	f := openUnnamed(dir)
	if f == nil {
		t.Skip("the file system has no files without names")
	}
	f.Close()
	packed, err := i.Packed()
	fatal.If(t, err)
	from, to := io.Pipe()
	done := make(chan error)
	go func() { done <- Unpack(from, filepath.Join(dir, "prog"), i.Hash) }()
	to.Write(packed[:len(packed)-1])
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("%v is there", left)
	}
	to.Write(packed[len(packed)-1:])
	to.Close()
	fatal.If(t, <-done)
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("%v is there", left)
	}
}
