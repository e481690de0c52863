//go:build unix

package rank

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestMeeting: rank 0 writes address and key to a file that only its user can read, and the file
// can be removed.
func TestMeeting(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made")
	w := World{Size: 2, Job: "openmpi-1", Generation: 4, Rendezvous: dir}
	m, err := w.Meeting()
	fatal.If(t, err)
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory: %v %v", info.Mode(), err)
	}
	if _, _, err := m.Read(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reading before the file exists: %v", err)
	}
	for _, key := range []Key{mustKey(testKey), NewKey()} { // the second replaces the first
		fatal.If(t, m.Publish("127.0.0.1:77", key))
		if addr, k, err := m.Read(); addr != "127.0.0.1:77" || k != key || err != nil {
			t.Error(addr, k, err)
		}
	}
	if info, err := os.Stat(m.Path()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("file: %v %v", info.Mode(), err)
	}
	for range 2 {
		if err := m.Remove(); err != nil {
			t.Error(err)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("files left: %v", left)
	}
}

// TestMeetingDirectoryOfOthersIsRefused: directories and files that other users can change or
// read are rejected.
func TestMeetingDirectoryOfOthersIsRefused(t *testing.T) {
	dir := t.TempDir()
	refused := func(what, want string, w World) {
		t.Helper()
		if _, err := w.Meeting(); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "WDLRUN_") {
			t.Errorf("%s: %v", what, err)
		}
	}
	open := filepath.Join(dir, "open")
	fatal.If(t, os.Mkdir(open, 0o700))
	fatal.If(t, os.Chmod(open, 0o770))
	refused("writable by the group", "has mode 0770: other users may write there", World{Job: "j", Rendezvous: open})
	file := filepath.Join(dir, "file")
	fatal.If(t, os.WriteFile(file, nil, 0o600))
	refused("a file", "not a directory", World{Job: "j", Rendezvous: file})
	refused("no name", "set WDLRUN_JOB", World{By: "mpich", Rendezvous: dir})
	if os.Geteuid() == 0 {
		theirs := filepath.Join(dir, "theirs")
		fatal.If(t, os.Mkdir(theirs, 0o700))
		if err := os.Chown(theirs, 12345, -1); err != nil {
			t.Skip(err)
		}
		refused("of another user", "belongs to user 12345", World{Job: "j", Rendezvous: theirs})
		w := World{Job: "j", Rendezvous: dir}
		m, _ := w.Meeting()
		fatal.If(t, m.Publish("a:1", NewKey()))
		fatal.If(t, os.Chown(m.Path(), 12345, -1))
		if _, _, err := m.Read(); err == nil || !strings.Contains(err.Error(), "belongs to user 12345") {
			t.Errorf("a file of another user: %v", err)
		}
	}
}

// TestMeetingFileNames: different jobs have different file names, and each name is valid.
func TestMeetingFileNames(t *testing.T) {
	long := strings.Repeat("x", 300)
	seen := map[string]string{}
	for _, job := range []string{"a", "a/b", "a_b", "a.b", "../../etc/passwd", long, long + "y", "ü"} {
		n := fileName(job)
		if strings.ContainsAny(n, "/.\x00") || len(n) > 120 || n == "" {
			t.Errorf("%q: %q", job, n)
		}
		if other, ok := seen[n]; ok {
			t.Errorf("%q and %q share %q", job, other, n)
		}
		seen[n] = job
	}
}

// FuzzMeeting: a file that is accepted is equal after writing and reading.
func FuzzMeeting(f *testing.F) {
	f.Add([]byte("wdlrun 1\n127.0.0.1:7\n" + testKey + "\n"))
	f.Add([]byte("wdlrun 2\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		addr, key, err := parseMeeting(b)
		if err != nil {
			if addr != "" || key != (Key{}) {
				t.Error("the error comes with a value")
			}
			return
		}
		if again := "wdlrun 1\n" + addr + "\n" + key.Hex() + "\n"; !strings.EqualFold(again, string(b)) {
			t.Errorf("read %q from %q", again, b)
		}
	})
}
