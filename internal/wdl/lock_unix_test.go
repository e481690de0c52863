//go:build unix

package wdl

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestAnotherUserCannotLockARun: whoever can open a file can lock it, so the files that
// a training locks must not open for another user.
func TestAnotherUserCannotLockARun(t *testing.T) {
	dir, err := os.MkdirTemp("", "wdlrun-lock-") // t.TempDir is closed to others
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	// A lock file of an earlier release is open to all.
	if err := os.WriteFile(filepath.Join(dir, fileLock), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	unlock, err := lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if err := writeMode(dir, fileChaos, 0o600, []byte("ranks 1\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := lock(dir); !errors.Is(err, errInUse) || !strings.Contains(err.Error(), "last taken by pid") {
		t.Errorf("the second lock: %v", err)
	}
	for _, name := range []string{fileLock, fileChaos} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, error %v", name, info.Mode(), err)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
	for _, name := range []string{fileLock, fileChaos} {
		stranger := exec.Command("/bin/sh", "-c", `exec 9< "$1"`, "sh", filepath.Join(dir, name))
		stranger.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if out, err := stranger.CombinedOutput(); err == nil {
			t.Errorf("another user opened %s: %s", name, out)
		}
	}
}

// TestAPipeIsNoFileOfARun: a pipe in the place of any file that a start reads is an
// error and not a wait.
func TestAPipeIsNoFileOfARun(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{fileCommits, fileMode, fileChaos, fileResult, "index"} {
		if err := syscall.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, read := range map[string]func() error{
		"index":     func() error { _, err := LoadIndex(filepath.Join(dir, "index")); return err },
		"/dev/zero": func() error { _, err := LoadIndex("/dev/zero"); return err },
		fileCommits: func() error { _, err := readCommits(dir); return err },
		fileMode:    func() error { _, err := readModes(dir); return err },
		fileChaos:   func() error { _, err := readStruck(dir); return err },
	} {
		var path *fs.PathError
		if err := read(); !errors.As(err, &path) || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
