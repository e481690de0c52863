//go:build unix

package rundir

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestAnotherUserCannotLockARun: a user who can open a file can lock it, so other users must
// not be able to open the files that a training locks.
func TestAnotherUserCannotLockARun(t *testing.T) {
	dir, err := os.MkdirTemp("", "wdlrun-lock-") // other users cannot enter t.TempDir
	fatal.If(t, err)
	defer os.RemoveAll(dir)
	fatal.If(t, os.Chmod(dir, 0o755))
	// A lock file of an earlier release can be opened by all users.
	fatal.If(t, os.WriteFile(filepath.Join(dir, fileLock), nil, 0o644))
	unlock, err := Lock(dir)
	fatal.If(t, err)
	defer unlock()
	fatal.If(t, WriteFileMode(dir, FileChaos, 0o600, []byte("ranks 1\n")))
	if _, err := Lock(dir); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), "last taken by pid") {
		t.Errorf("the second lock: %v", err)
	}
	for _, name := range []string{fileLock, FileChaos} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, error %v", name, info.Mode(), err)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
	for _, name := range []string{fileLock, FileChaos} {
		stranger := exec.Command("/bin/sh", "-c", `exec 9< "$1"`, "sh", filepath.Join(dir, name))
		stranger.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if out, err := stranger.CombinedOutput(); err == nil {
			t.Errorf("another user opened %s: %s", name, out)
		}
	}
}

// TestARunDirectoryIsFoundByItsJob: Of returns the newest directory of the job, and
// none of another job.
func TestARunDirectoryIsFoundByItsJob(t *testing.T) {
	out := t.TempDir()
	now := time.Date(2026, 11, 21, 10, 15, 0, 0, time.UTC)
	var made []string
	for i, job := range []string{"a", "b", "b", "", "a b"} {
		dir, err := New(out, job, now.Add(time.Duration(i/2)*time.Second))
		fatal.If(t, err)
		made = append(made, dir)
	}
	fatal.If(t, os.Mkdir(filepath.Join(out, ".run-c"), 0o755))
	fatal.If(t, os.WriteFile(filepath.Join(out, ".run-c", fileJob), []byte("c\n"), 0o644))
	for job, want := range map[string]string{"a": made[0], "b": made[2], "a b": made[4], "c": ""} {
		if got := Of(out, job); got != want {
			t.Errorf("the run directory of job %q is %q, want %q", job, got, want)
		}
	}
	if got := Of(filepath.Join(out, "none"), "a"); got != "" {
		t.Error(got)
	}
	if _, err := New(out, "c", now); err != nil { // rank 0 of the same job died while making it
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(out, ".*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestOneTrainingARunDirectory: a second training is rejected while the first is running.
func TestOneTrainingARunDirectory(t *testing.T) {
	dir := t.TempDir()
	unlock, err := Lock(dir)
	fatal.If(t, err)
	if _, err := Lock(dir); err == nil || !strings.Contains(err.Error(), fmt.Sprint("pid ", os.Getpid())) {
		t.Errorf("the second training: %v", err)
	}
	unlock()
	again, err := Lock(dir)
	fatal.If(t, err)
	again()
}
