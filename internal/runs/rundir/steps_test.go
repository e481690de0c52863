//go:build unix

package rundir

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestTheLinkLatestIsNeverGone: a process that is killed before or after any operation of MarkLatest
// leaves the old or the new run as the latest, and so does a full disk at any of them. The next
// MarkLatest moves the link and leaves nothing behind.
func TestTheLinkLatestIsNeverGone(t *testing.T) {
	const killed = "killed"
	for _, how := range []string{"killed before", "killed after", "full"} {
		for _, first := range []bool{true, false} {
			for at := 1; ; at++ {
				out, n, done := t.TempDir(), 0, false
				for _, name := range []string{"old", "new"} {
					fatal.If(t, os.Mkdir(filepath.Join(out, name), 0o755))
				}
				if !first {
					fatal.If(t, MarkLatest(filepath.Join(out, "old")))
				}
				step := func(do func() error) error {
					if n++; n == at && how == "full" {
						return syscall.ENOSPC
					} else if n == at && how == "killed before" {
						panic(killed)
					}
					err := do()
					if n == at && how == "killed after" {
						panic(killed)
					}
					return err
				}
				by := links{
					func(name string) error { return step(func() error { return os.Remove(name) }) },
					func(from, to string) error { return step(func() error { return os.Symlink(from, to) }) },
					func(from, to string) error { return step(func() error { return regular.Rename(from, to) }) },
				}
				var err error
				func() {
					defer func() { _ = recover() }()
					err = by.markLatest(filepath.Join(out, "new"))
					done = true
				}()
				to, missing := os.Readlink(filepath.Join(out, Latest))
				if had := missing == nil; had == first && to != "new" || had && to != "old" && to != "new" || how == "full" && err != nil && to == "new" || done && err == nil && to != "new" {
					t.Fatalf("%s operation %d: latest leads to %q (%v), error %v", how, at, to, missing, err)
				}
				if n < at {
					break
				}
				fatal.If(t, MarkLatest(filepath.Join(out, "new")))
				if left, _ := filepath.Glob(filepath.Join(out, ".latest*")); len(left) != 0 || Real(filepath.Join(out, Latest)) != filepath.Join(out, "new") {
					t.Fatalf("%s operation %d: left behind: %v", how, at, left)
				}
			}
		}
	}
}
