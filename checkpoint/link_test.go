package checkpoint

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// victim makes a folder outside of all roots that nothing may change.
func victim(t *testing.T) (dir string, intact func(what string)) {
	t.Helper()
	dir = t.TempDir()
	want := map[string]string{"diary.txt": "dear diary", "rank-0000-of-0002.wck": "mine", "MANIFEST.json": "{}", "sub/deep": "deep"}
	for name, text := range want {
		path := filepath.Join(dir, name)
		fatal.If(t, os.MkdirAll(filepath.Dir(path), 0o755))
		fatal.If(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return dir, func(what string) {
		t.Helper()
		n := 0
		fatal.If(t, filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
			if err == nil && info.Mode().IsRegular() {
				n++
				name, _ := filepath.Rel(dir, path)
				if b, _ := os.ReadFile(path); string(b) != want[name] {
					t.Errorf("%s: %s holds %q", what, name, b)
				}
			}
			return err
		}))
		if n != len(want) {
			t.Errorf("%s: %d of %d files are there", what, n, len(want))
		}
	}
}

// links returns a link of every kind at path, with what it leads to in or next to root.
func links(t *testing.T, root, elsewhere string) map[string]string {
	t.Helper()
	inside := filepath.Join(root, "notes")
	fatal.If(t, os.MkdirAll(inside, 0o755))
	fatal.If(t, os.WriteFile(filepath.Join(inside, "kept"), []byte("kept"), 0o644))
	return map[string]string{
		"to a folder":             elsewhere,
		"to a file":               filepath.Join(elsewhere, "diary.txt"),
		"dangling":                filepath.Join(elsewhere, "gone"),
		"to a folder of the root": "notes",
		"to a checkpoint":         stepName(1),
	}
}

// TestLeftoverLinksAreNotFollowed: a link or a file with the name of something unfinished is an
// error that names it, for every operation that would remove or write it. Nothing is touched.
func TestLeftoverLinksAreNotFollowed(t *testing.T) {
	dir, intact := victim(t)
	root := t.TempDir()
	saveRun(t, root, 1, nil)
	kinds := links(t, root, dir)
	for _, prefix := range []string{tmpPrefix, delPrefix} {
		at := filepath.Join(root, prefix+stepName(9999))
		for kind, to := range kinds {
			fatal.If(t, os.Symlink(to, at))
			refuses(t, at, kind)
			if got, err := os.Readlink(at); err != nil || got != to {
				t.Errorf("%s %s: the link is %q, %v", at, kind, got, err)
			}
			fatal.If(t, os.Remove(at))
			intact(kind)
		}
		fatal.If(t, os.Symlink(at, at))
		refuses(t, at, "loop")
		fatal.If(t, os.Remove(at))
		fatal.If(t, os.WriteFile(at, []byte("text"), 0o600))
		refuses(t, at, "a file")
		if b, err := os.ReadFile(at); err != nil || string(b) != "text" {
			t.Errorf("the file holds %q, %v", b, err)
		}
		fatal.If(t, os.Remove(at))
	}
	c, err := Open(Dir(root, 1))
	fatal.If(t, err)
	fatal.If(t, c.Verify(t.Context()))
	if b, err := os.ReadFile(filepath.Join(root, "notes", "kept")); err != nil || string(b) != "kept" {
		t.Errorf("a folder of the root: %q, %v", b, err)
	}
}

// refuses calls everything that writes or removes the folder at, of step 9999.
func refuses(t *testing.T, at, kind string) {
	t.Helper()
	root := filepath.Dir(at)
	tries := map[string]func() error{"clean": func() error { _, err := Clean(root); return err }}
	if strings.HasPrefix(filepath.Base(at), tmpPrefix) {
		tries["create"] = func() error { _, err := Create(root, 9999, 0, 2); return err }
		tries["abandon"] = func() error { return Abandon(root, 9999) }
		tries["receive"] = func() error { return Receive(root, 9999, partName(0, 2), func(io.Writer) error { return nil }) }
		tries["drop"] = func() error { return Drop(root, 9999, partName(0, 2)) }
	} else {
		tries["remove"] = func() error { return Remove(root, 9999) }
	}
	for name, try := range tries {
		err := try()
		if err == nil || !strings.Contains(err.Error(), at) || !strings.Contains(err.Error(), "not a folder") || !strings.Contains(err.Error(), "rm") {
			t.Errorf("%s of a link %s: error %v, want one that names %s and what to do", name, kind, err, at)
		}
	}
}

// TestCleanRemovesTheOtherLeftovers: one leftover that is refused does not hide the others.
func TestCleanRemovesTheOtherLeftovers(t *testing.T) {
	dir, intact := victim(t)
	root := t.TempDir()
	for step, to := range map[int64]string{3: dir, 5: dir} {
		fatal.If(t, os.Symlink(to, tmpDir(root, step)))
	}
	fatal.If(t, os.MkdirAll(filepath.Join(tmpDir(root, 4), "part"), 0o755))
	fatal.If(t, os.Symlink(dir, filepath.Join(tmpDir(root, 4), "link")))
	removed, err := Clean(root)
	if !slices.Equal(removed, []string{tmpDir(root, 4)}) || there(tmpDir(root, 4)) {
		t.Errorf("removed: %q", removed)
	}
	if err == nil || !strings.Contains(err.Error(), tmpDir(root, 3)) || !strings.Contains(err.Error(), tmpDir(root, 5)) {
		t.Errorf("error %v, want one that names both links", err)
	}
	intact("a link in a folder that is removed")
}

// TestLinkedCheckpointsAreUnlinked: of a checkpoint that is a link, Prune, Remove and a commit of
// the same step remove the link.
func TestLinkedCheckpointsAreUnlinked(t *testing.T) {
	for kind, away := range map[string]func(root string) error{
		"prune":  func(root string) error { return Prune(root, 1) },
		"remove": func(root string) error { return Remove(root, 1) },
		"commit": func(root string) error { return save(unsynced{}, root, 1, sample("again")) },
		"crash": func(root string) error {
			fatal.If(t, os.Rename(Dir(root, 1), oldDir(root, 1)))
			return commitAgain(root)
		},
	} {
		dir, intact := victim(t)
		for what, to := range links(t, t.TempDir(), dir) {
			if what == "to a checkpoint" {
				to = stepName(2)
			}
			root := t.TempDir()
			saveRun(t, root, 2, nil)
			fatal.If(t, os.Symlink(to, Dir(root, 1)))
			fatal.If(t, away(root))
			if info, err := os.Lstat(Dir(root, 1)); err == nil && !info.IsDir() {
				t.Errorf("%s, %s: the link is still there", kind, what)
			}
			if left, _ := filepath.Glob(filepath.Join(root, ".*-step-*")); len(left) > 0 {
				t.Errorf("%s, %s: left %q", kind, what, left)
			}
			intact(kind + ", " + what)
			c, err := Open(Dir(root, 2))
			fatal.If(t, err)
			fatal.If(t, c.Verify(t.Context()))
		}
	}
}

// commitAgain is a commit of step 1 after a crash left its linked predecessor as .old, and a start.
func commitAgain(root string) error {
	if err := save(unsynced{}, root, 1, sample("again")); err != nil {
		return err
	}
	_, err := Clean(root)
	return err
}

// TestFilesOfARootAreNotFollowed: links with the names of the files that are written are replaced.
func TestFilesOfARootAreNotFollowed(t *testing.T) {
	dir, intact := victim(t)
	root := t.TempDir()
	fatal.If(t, os.MkdirAll(tmpDir(root, 1), 0o755))
	for _, path := range []string{
		filepath.Join(root, "."+runFile), filepath.Join(tmpDir(root, 1), partName(0, 2)), filepath.Join(tmpDir(root, 1), partName(1, 2)+".copy"),
		filepath.Join(tmpDir(root, 1), manifestName), filepath.Join(tmpDir(root, 1), elsewhereName), filepath.Join(tmpDir(root, 1), "other"),
	} {
		fatal.If(t, os.Symlink(filepath.Join(dir, "diary.txt"), path))
	}
	if _, err := RunID(root); err != nil {
		t.Error(err)
	}
	saveRun(t, root, 1, nil)
	c, err := Open(Dir(root, 1))
	fatal.If(t, err)
	fatal.If(t, c.Verify(t.Context()))
	intact("files of a root")
}

// TestALinkedRoot: a root that this user has moved elsewhere and linked is used; a link in a folder
// that others may write to is read, and neither written to nor emptied.
func TestALinkedRoot(t *testing.T) {
	run, disk := t.TempDir(), t.TempDir()
	root := filepath.Join(run, Folder)
	fatal.If(t, os.Symlink(disk, root))
	saveRun(t, root, 1, nil)
	saveRun(t, root, 2, nil)
	fatal.If(t, Prune(root, 1))
	if there(Dir(disk, 1)) || !there(Dir(disk, 2)) {
		t.Error("the linked root was not pruned")
	}
	fatal.If(t, os.MkdirAll(tmpDir(disk, 3), 0o755))
	fatal.If(t, os.Chmod(run, 0o777))
	saveRun(t, disk, 4, nil)
	for name, try := range map[string]func() error{
		"prune":  func() error { return Prune(root, 1) },
		"clean":  func() error { _, err := Clean(root); return err },
		"remove": func() error { return Remove(root, 2) },
		"create": func() error { _, err := Create(root, 5, 0, 1); return err },
	} {
		if err := try(); err == nil || !strings.Contains(err.Error(), root+": it is a symbolic link that another user may have made") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !there(Dir(disk, 2)) || !there(tmpDir(disk, 3)) || there(tmpDir(disk, 5)) {
		t.Error("what the link leads to was changed")
	}
	if c, _, err := Latest(root); err != nil || c.Step() != 4 {
		t.Errorf("reading: %v", err)
	}
	fatal.If(t, os.Chmod(run, 0o777|os.ModeSticky)) // as /tmp: only the owner of a link can move it
	fatal.If(t, Prune(root, 1))
}
