package checkpoint

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func TestCopyIsAWholeCheckpoint(t *testing.T) {
	root, other := t.TempDir(), filepath.Join(t.TempDir(), "other")
	var files []File
	for part := range 2 {
		w, err := Create(root, 7, part, 2)
		if err != nil {
			t.Fatal(err)
		}
		name := []string{"a", "b"}[part]
		if err := w.Section(name, func(out io.Writer) error { _, err := io.WriteString(out, "payload "+name); return err }); err != nil {
			t.Fatal(err)
		}
		f, err := w.Close()
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	if err := Commit(root, Manifest{Step: 7, Files: files}); err != nil {
		t.Fatal(err)
	}
	c, err := Open(Dir(root, 7))
	if err != nil {
		t.Fatal(err)
	}
	if err := Copy(c, other); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(root); err != nil {
		t.Fatal(err)
	}
	twin, _, err := Latest(other)
	if err != nil {
		t.Fatal(err)
	}
	if err := twin.Verify(context.Background()); err != nil || twin.Step() != 7 || len(twin.Names()) != 2 {
		t.Errorf("step %d, sections %v: %v", twin.Step(), twin.Names(), err)
	}
	if err := Copy(c, other); err == nil {
		t.Error("a checkpoint that is gone was copied")
	}
	if removed, err := Clean(other); err != nil || len(removed) != 0 {
		t.Errorf("the failed copy left %v (%v)", removed, err)
	}
}
