//go:build unix

package regular

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestWritingFollowsNoLink: a new file replaces a link, and a file changed in place is no link, has
// one name and is regular.
func TestWritingFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	diary, path := filepath.Join(dir, "diary"), filepath.Join(dir, "file")
	fatal.If(t, os.WriteFile(diary, []byte("dear diary"), 0o600))
	for what, make := range map[string]func() error{
		"it is a symbolic link": func() error { return os.Symlink(diary, path) },
		"a symbolic link":       func() error { return os.Symlink(filepath.Join(dir, "gone"), path) },
		"not a regular file":    func() error { return os.Symlink(path, path) },
		"it has 2 names":        func() error { return os.Link(diary, path) },
		"a named pipe":          func() error { return syscall.Mkfifo(path, 0o600) },
		"a directory":           func() error { return os.Mkdir(path, 0o700) },
	} {
		fatal.If(t, make())
		for _, flag := range []int{os.O_APPEND | os.O_WRONLY, os.O_CREATE | os.O_RDWR, os.O_CREATE | os.O_WRONLY} {
			err := within(t, func() error { _, err := OpenFile(path, flag, 0o600); return err })
			if err == nil || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), path) {
				t.Errorf("flags %#x: %v, want an error with %q", flag, err, what)
			}
		}
		fatal.If(t, WriteFile(path, []byte("new"), 0o600))
		if b, err := os.ReadFile(path); err != nil || string(b) != "new" {
			t.Errorf("%s: %q, %v", what, b, err)
		}
		if b, err := os.ReadFile(diary); err != nil || string(b) != "dear diary" {
			t.Fatalf("%s: the other file holds %q, %v", what, b, err)
		}
		fatal.If(t, os.Remove(path))
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
	f, err := OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	fatal.If(t, err)
	f.Close()
}

// TestFolders: a folder of a folder is no link. A folder named by a path may be a link that only
// this user can have made.
func TestFolders(t *testing.T) {
	dir, away := t.TempDir(), t.TempDir()
	link := filepath.Join(dir, "link")
	fatal.If(t, os.Symlink(away, link))
	fatal.If(t, os.Mkdir(filepath.Join(dir, "real"), 0o700))
	fatal.If(t, os.Symlink("real", filepath.Join(dir, "inside")))
	fatal.If(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	root, err := OpenFolder(dir)
	fatal.If(t, err)
	defer root.Close()
	for name, want := range map[string]string{"link": "a symbolic link", "inside": "a symbolic link", "file": "a file", "none": "no such file"} {
		if _, err := Subfolder(root, name); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), filepath.Join(dir, name)) {
			t.Errorf("%s: %v, want an error with %q", name, err, want)
		}
		if name != "none" {
			if _, err := MakeFolder(root, name); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("make %s: %v, want an error with %q", name, err, want)
			}
		}
	}
	for _, name := range []string{"real", "new"} {
		sub, err := MakeFolder(root, name)
		fatal.If(t, err)
		if sub.Name() != filepath.Join(dir, name) {
			t.Errorf("%q", sub.Name())
		}
		sub.Close()
	}
	for mode, follows := range map[os.FileMode]bool{0o700: true, 0o755: true, 0o775: false, 0o757: false, 0o777: false, 0o777 | os.ModeSticky: true} {
		fatal.If(t, os.Chmod(dir, mode))
		at, err := OpenFolder(link)
		if (err == nil) != follows || err != nil && !strings.Contains(err.Error(), "another user may have made") {
			t.Errorf("a link in a folder of mode %v: %v", mode, err)
		}
		if err == nil {
			at.Close()
		}
		if at, err = OpenFolder(filepath.Join(dir, "real")); err != nil {
			t.Fatal(err)
		}
		at.Close()
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can make a link of another user")
	}
	fatal.If(t, os.Chmod(dir, 0o755))
	for _, of := range []string{link, dir} {
		fatal.If(t, os.Lchown(of, 65534, 65534))
		if _, err := OpenFolder(link); err == nil {
			t.Errorf("followed, although %s belongs to another user", of)
		}
		fatal.If(t, os.Lchown(of, 0, 0))
	}
}

// TestAFolderExchangedWhileItIsOpened: whatever another process does meanwhile, a folder that is
// opened is never the target of a link.
func TestAFolderExchangedWhileItIsOpened(t *testing.T) {
	dir := t.TempDir()
	fatal.If(t, os.Mkdir(filepath.Join(dir, "target"), 0o700))
	target, err := os.Stat(filepath.Join(dir, "target"))
	fatal.If(t, err)
	fatal.If(t, os.Mkdir(filepath.Join(dir, "a"), 0o700))
	fatal.If(t, os.Symlink("target", filepath.Join(dir, "b")))
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		at := func(name string) string { return filepath.Join(dir, name) }
		for {
			select {
			case <-stop:
				return
			default:
			}
			for _, name := range []string{"a", "b"} {
				os.Rename(at(name), at("folder"))
				os.Rename(at("folder"), at(name))
			}
		}
	}()
	defer func() { close(stop); <-done }()
	root, err := os.OpenRoot(dir)
	fatal.If(t, err)
	defer root.Close()
	for range 20000 {
		sub, err := Subfolder(root, "folder")
		if err != nil {
			continue
		}
		info, err := sub.Stat(".")
		fatal.If(t, err)
		if os.SameFile(info, target) {
			t.Fatal("the target of a link was opened")
		}
		sub.Close()
	}
}
