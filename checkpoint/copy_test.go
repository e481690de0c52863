package checkpoint

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestCopyIsAWholeCheckpoint: a copy is complete, and a copy that fails leaves nothing.
func TestCopyIsAWholeCheckpoint(t *testing.T) {
	root, other := t.TempDir(), filepath.Join(t.TempDir(), "other")
	var files []File
	for part := range 2 {
		w, err := Create(root, 7, part, 2)
		fatal.If(t, err)
		name := []string{"a", "b"}[part]
		fatal.If(t, w.Section(name, func(out io.Writer) error { _, err := io.WriteString(out, "payload "+name); return err }))
		f, err := w.Close()
		fatal.If(t, err)
		files = append(files, f)
	}
	fatal.If(t, Commit(root, Manifest{Step: 7, Files: files}))
	c, err := Open(Dir(root, 7))
	fatal.If(t, err)
	fatal.If(t, Copy(c, other))
	fatal.If(t, os.RemoveAll(root))
	twin, _, err := Latest(other)
	fatal.If(t, err)
	if err := twin.Verify(context.Background()); err != nil || twin.Step() != 7 || len(twin.Names()) != 2 {
		t.Errorf("step %d, sections %v: %v", twin.Step(), twin.Names(), err)
	}
	if err := Copy(c, other); err == nil {
		t.Error("a missing checkpoint was copied")
	}
	if removed, err := Clean(other); err != nil || len(removed) != 0 {
		t.Errorf("the failed copy left %v (%v)", removed, err)
	}
}
