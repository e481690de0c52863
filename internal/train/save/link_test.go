//go:build unix

package save

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/model/slots"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestNoLinkOfARunDirectoryIsFollowed: files of a run directory are written in place of links with
// their names, also the temporary ones. What is changed in place must be a file of its own.
func TestNoLinkOfARunDirectoryIsFollowed(t *testing.T) {
	dir := t.TempDir()
	diary := filepath.Join(t.TempDir(), "diary.txt")
	fatal.If(t, os.WriteFile(diary, []byte("dear diary"), 0o600))
	intact := func(what string) {
		t.Helper()
		if b, err := os.ReadFile(diary); err != nil || string(b) != "dear diary" {
			t.Errorf("%s: the file that the link leads to holds %q, %v", what, b, err)
		}
	}
	for _, name := range []string{rundir.FileConfig, rundir.FileResult, rundir.FileMetrics, rundir.FileMode, rundir.FileChaos, rundir.FileRun} {
		for _, to := range []string{diary, filepath.Join(filepath.Dir(diary), "gone"), dir} {
			fatal.If(t, os.Symlink(to, filepath.Join(dir, name)))
			fatal.If(t, os.Symlink(to, filepath.Join(dir, "."+name)))
			fatal.If(t, rundir.WriteFile(dir, name, []byte("new")))
			info, err := os.Lstat(filepath.Join(dir, name))
			fatal.If(t, err)
			if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != "new" || !info.Mode().IsRegular() {
				t.Errorf("%s: %q, %v, %v", name, b, info.Mode(), err)
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(diary), "gone")); err == nil {
				t.Errorf("%s: written through a link that led nowhere", name)
			}
			intact(name)
			fatal.If(t, os.Remove(filepath.Join(dir, name)))
		}
	}
	fatal.If(t, os.Symlink(diary, filepath.Join(dir, rundir.FileCommits)))
	OpenCommits(dir, slots.Record{}, func(line string) { t.Error(line) }).Close()
	intact(rundir.FileCommits)
	lock := filepath.Join(dir, ".lock")
	for what, make := range map[string]func() error{
		"a symbolic link": func() error { return os.Symlink(diary, lock) },
		"2 names":         func() error { return os.Link(diary, lock) },
		"a named pipe":    func() error { return syscall.Mkfifo(lock, 0o666) },
		"a directory":     func() error { return os.Mkdir(lock, 0o777) },
	} {
		fatal.If(t, make())
		if _, err := rundir.Lock(dir); err == nil || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), lock) {
			t.Errorf("a lock file that is %s: %v", what, err)
		}
		intact("lock file: " + what)
		fatal.If(t, os.Remove(lock))
	}
}

// TestANewRunDirectoryIsNoLink: what another user has put in the place of a directory that gets
// its name later is removed.
func TestANewRunDirectoryIsNoLink(t *testing.T) {
	out, trap := t.TempDir(), t.TempDir()
	fatal.If(t, os.Symlink(trap, filepath.Join(out, ".run-a")))
	dir, err := rundir.New(out, "a", time.Now())
	fatal.If(t, err)
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		t.Errorf("%s: %v, %v", dir, info, err)
	}
	if left, _ := os.ReadDir(trap); len(left) > 0 {
		t.Errorf("written through the link: %v", left)
	}
}

// TestAPrunedLinkIsReported: a training says what it leaves of a linked checkpoint.
func TestAPrunedLinkIsReported(t *testing.T) {
	root, moved := filepath.Join(t.TempDir(), checkpoint.Folder), filepath.Join(t.TempDir(), "step-000000001")
	commit := func(step int64) {
		w, err := checkpoint.Create(root, step, 0, 1)
		fatal.If(t, err)
		f, err := w.Close()
		fatal.If(t, err)
		fatal.If(t, checkpoint.Commit(root, checkpoint.Manifest{Step: step, Files: []checkpoint.File{f}}))
	}
	commit(1)
	fatal.If(t, os.CopyFS(moved, os.DirFS(checkpoint.Dir(root, 1))))
	fatal.If(t, os.RemoveAll(checkpoint.Dir(root, 1)))
	fatal.If(t, os.Symlink(moved, checkpoint.Dir(root, 1)))
	commit(2)
	var lines []string
	p := &pending{root: root, step: 2, keep: 1, protect: func() []int64 { return nil }}
	p.keeper = newKeeper(func(line string) { lines = append(lines, line) })
	fatal.If(t, p.prune())
	if len(lines) != 1 || !strings.Contains(lines[0], checkpoint.Dir(root, 1)) || !strings.Contains(lines[0], "stays: "+moved) {
		t.Errorf("warnings: %q", lines)
	}
	if _, err := os.Lstat(checkpoint.Dir(root, 1)); err == nil {
		t.Error("the link is still there")
	}
	c, err := checkpoint.Open(moved)
	fatal.If(t, err)
	fatal.If(t, c.Verify(t.Context()))
}

// TestAReadCheckpointStays: a checkpoint that the publisher reads is removed only when it has been read.
func TestAReadCheckpointStays(t *testing.T) {
	root, reading := filepath.Join(t.TempDir(), checkpoint.Folder), int64(0)
	p := &pending{root: root, keep: 1, keeper: newKeeper(func(string) {}), protect: func() []int64 { return []int64{reading} }}
	for _, x := range []struct {
		step, reading int64
		want          []int64
	}{{1, 0, []int64{1}}, {2, 1, []int64{2, 1}}, {3, 1, []int64{3, 1}}, {4, 0, []int64{4}}} {
		w, err := checkpoint.Create(root, x.step, 0, 1)
		fatal.If(t, err)
		f, err := w.Close()
		fatal.If(t, err)
		fatal.If(t, checkpoint.Commit(root, checkpoint.Manifest{Step: x.step, Files: []checkpoint.File{f}}))
		p.step, reading = x.step, x.reading
		fatal.If(t, p.prune())
		all, err := checkpoint.List(root)
		fatal.If(t, err)
		var got []int64
		for _, f := range all {
			got = append(got, f.Step)
		}
		if !slices.Equal(got, x.want) {
			t.Errorf("after step %d the checkpoints are %v, want %v", x.step, got, x.want)
		}
	}
}

// asAnother returns a command of another user.
func asAnother(script string, args ...string) *exec.Cmd {
	c := exec.Command("/bin/sh", append([]string{"-c", script, "sh"}, args...)...)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	return c
}

// TestAnotherUserChoosesNothing: a user who may write to a run directory of root puts links into it,
// also while root works in it, and what they lead to stays as it is.
func TestAnotherUserChoosesNothing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
	top, err := os.MkdirTemp("", "wdlrun-link-") // other users cannot enter t.TempDir
	fatal.If(t, err)
	defer os.RemoveAll(top)
	run, own := filepath.Join(top, "run"), filepath.Join(top, "own")
	root := filepath.Join(run, checkpoint.Folder)
	fatal.If(t, os.MkdirAll(root, 0o755))
	fatal.If(t, os.MkdirAll(filepath.Join(own, ".tmp-step-000000007"), 0o755))
	files := []string{filepath.Join(own, "rank-0000-of-0001.wck"), filepath.Join(own, ".tmp-step-000000007", "deep")}
	for _, path := range files {
		fatal.If(t, os.WriteFile(path, []byte("of root"), 0o600))
	}
	for _, dir := range []string{top, run, root} {
		fatal.If(t, os.Chmod(dir, 0o777))
	}
	stranger := func(script string) *exec.Cmd { return asAnother(script, run, own) }
	intact := func(what string) {
		t.Helper()
		for _, path := range files {
			if b, err := os.ReadFile(path); err != nil || string(b) != "of root" {
				t.Fatalf("%s: %s holds %q, %v", what, path, b, err)
			}
		}
		if all, _ := os.ReadDir(own); len(all) != 2 {
			t.Fatalf("%s: the folder of root holds %v", what, all)
		}
	}
	out, err := stranger(`ln -s "$2" "$1/checkpoints/.tmp-step-000000003"; ln -s "$2" "$1/checkpoints/.del-step-000000004"
		ln -s "$2/rank-0000-of-0001.wck" "$1/.lock"; ln -s "$2/rank-0000-of-0001.wck" "$1/.result.json"`).CombinedOutput()
	fatal.If(t, err)
	if _, err := checkpoint.Clean(root); err == nil || !strings.Contains(err.Error(), ".tmp-step-000000003") || !strings.Contains(err.Error(), ".del-step-000000004") {
		t.Errorf("clean: %v (%s)", err, out)
	}
	if _, err := rundir.Lock(run); err == nil || !strings.Contains(err.Error(), "a symbolic link") {
		t.Errorf("lock: %v", err)
	}
	fatal.If(t, rundir.WriteFile(run, rundir.FileResult, []byte("{}")))
	intact("links that are there")
	// The link takes turns with a real folder while root writes and removes.
	c := stranger(`cd "$1/checkpoints" && mkdir a && ln -s "$2" b && for i in $(seq 60); do
		mv -T a .tmp-step-000000005; mv -T .tmp-step-000000005 a; mv -T b .tmp-step-000000005; mv -T .tmp-step-000000005 b; done 2>/dev/null; true`)
	fatal.If(t, c.Start())
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	for n := 0; ; n++ {
		if w, err := checkpoint.Create(root, 5, 0, 1); err == nil {
			w.Discard()
		}
		checkpoint.Abandon(root, 5)
		checkpoint.Clean(root)
		select {
		case err := <-ended:
			fatal.If(t, err)
			intact("links that come and go")
			t.Logf("%d attempts", n)
		default:
			continue
		}
		break
	}
	out, err = stranger(`mv "$1/checkpoints" "$1/was" && ln -s "$2" "$1/checkpoints"`).CombinedOutput()
	fatal.If(t, err)
	if _, err := checkpoint.Clean(root); err == nil || !strings.Contains(err.Error(), "another user may have made") {
		t.Errorf("a linked folder of checkpoints: %v (%s)", err, out)
	}
	intact("a linked folder of checkpoints")
}
