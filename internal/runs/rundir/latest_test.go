//go:build unix

package rundir

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestTheLinkLatestMoves: the link leads to the last run that was marked, also after a process
// was killed before its rename, and Real follows it.
func TestTheLinkLatestMoves(t *testing.T) {
	out := t.TempDir()
	t.Chdir(out)
	for _, name := range []string{"a", "b", "c"} {
		fatal.If(t, os.MkdirAll(filepath.Join(out, name, checkpoint.Folder), 0o755))
	}
	fatal.If(t, MarkLatest(filepath.Join(out, "a")))
	fatal.If(t, os.Symlink("b", ".latest-b")) // a process was killed before its rename: the old run is the latest
	for path, want := range map[string]string{"latest": "a", "latest/checkpoints/step-000000001": "a/checkpoints/step-000000001", out + "/latest/": out + "/a", "b": "b", ".": ".", "latest-2": "latest-2"} {
		if got := Real(path); got != want {
			t.Errorf("%s leads to %q, want %q", path, got, want)
		}
	}
	for folder, want := range map[string]string{out: out + "/a", "a": "", "latest/checkpoints/step-000000001": ""} {
		if got := LatestOf(folder); got != want {
			t.Errorf("the latest of %s is %q, want %q", folder, got, want)
		}
	}
	fatal.If(t, MarkLatest("b"))
	if got := Real("latest"); got != "b" {
		t.Errorf("the link leads to %q, want b", got)
	}
	if left, _ := filepath.Glob(".latest*"); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	fatal.If(t, os.Remove("latest"))
	fatal.If(t, os.Mkdir("latest", 0o755))
	if err := MarkLatest("c"); err == nil || !strings.Contains(err.Error(), "is not a link") {
		t.Errorf("a folder of the user: %v", err)
	}
	if got := Real("latest"); got != "latest" {
		t.Errorf("a folder of the user leads to %q", got)
	}
}

// TestHintOfAFolderOfVersions: an error about a folder of exported versions names the newest.
func TestHintOfAFolderOfVersions(t *testing.T) {
	out := t.TempDir()
	for _, name := range []string{"90", "640"} {
		fatal.If(t, os.MkdirAll(filepath.Join(out, name), 0o755))
		for _, file := range []string{FileConfig, "dense.bin"} {
			fatal.If(t, os.WriteFile(filepath.Join(out, name, file), nil, 0o644))
		}
	}
	if err := Hint(fs.ErrNotExist, out); !strings.Contains(err.Error(), "exported versions, of which 640 is the newest: train -from "+filepath.Join(out, "640")) {
		t.Error(err)
	}
}

// TestHintOfAFolderOfRuns: an error about a folder of runs names the newest that has saved, and says so if none
// has.
func TestHintOfAFolderOfRuns(t *testing.T) {
	out := t.TempDir()
	for _, name := range []string{"a", "b"} {
		fatal.If(t, os.MkdirAll(filepath.Join(out, name), 0o755))
		fatal.If(t, os.WriteFile(filepath.Join(out, name, FileConfig), nil, 0o644))
	}
	if err := Hint(fs.ErrNotExist, out); err.Error() != out+" is a folder of runs, none of which has saved a model: train there first, or give another run directory" {
		t.Error(err)
	}
	fatal.If(t, os.MkdirAll(checkpoint.Dir(filepath.Join(out, "a", checkpoint.Folder), 1), 0o755))
	if err := Hint(fs.ErrNotExist, out); !strings.HasSuffix(err.Error(), "of which a is the newest that has saved") {
		t.Error(err)
	}
	if err := Hint(fs.ErrNotExist, filepath.Join(out, Latest)); !strings.Contains(err.Error(), "no training in this folder has become the latest") {
		t.Error(err)
	}
}
