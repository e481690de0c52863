package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// sleepy is a disk of a process that sleeps before operation number stop, while wake runs.
type sleepy struct {
	system
	ops, stop int
	sleep     func()
}

func (d *sleepy) step() {
	if d.ops++; d.ops == d.stop {
		d.sleep()
	}
}

func (d *sleepy) Create(path string) (file, error) {
	d.step()
	f, err := d.system.Create(path)
	return unsyncedFile{f}, err
}

func (d *sleepy) Rename(from, to string) error { d.step(); return d.system.Rename(from, to) }
func (d *sleepy) Remove(path string) error     { d.step(); return d.system.Remove(path) }
func (d *sleepy) Sync(string) error            { d.step(); return nil }

func mustTake(t *testing.T, root, turn string) string {
	t.Helper()
	from, err := Turns(root)
	fatal.If(t, err)
	from, err = FirstTurn(root, from)
	fatal.If(t, err)
	fatal.If(t, TakeTurn(root, from, turn))
	_, err = Clean(InTurn(root, turn))
	fatal.If(t, err)
	return InTurn(root, turn)
}

// TestALateWriterChangesNothing: a process sleeps before any of its operations on the disk, while it
// writes a checkpoint, writes it again and prunes. Meanwhile another takes its turn and commits.
// When the first continues, it gets an error, and nothing of the other is lost or mixed with it.
func TestALateWriterChangesNothing(t *testing.T) {
	for _, base := range []int64{10, 20} {
		for stop := 1; ; stop++ {
			root := t.TempDir()
			old := mustTake(t, root, "old")
			fatal.If(t, save(&sleepy{}, old, 10, sample("before")))
			want, last := []int64{}, Manifest{}
			d := &sleepy{stop: stop}
			d.sleep = func() {
				turn, upon := mustTake(t, root, "new"), base
				if _, err := Open(Dir(root, base)); base == 20 || err != nil { // it is not there any more
					upon, want = 20, []int64{20}
					fatal.If(t, save(&sleepy{}, turn, 20, sample("new")))
				}
				want = append(want, upon+1)
				fatal.If(t, saveUpon(&sleepy{}, turn, &Link{Step: upon}, upon+1, sample("new")))
				last = Manifest{Step: 20}
				f, err := savePart(&sleepy{}, turn, last.Step, sample("new"), 0) // under way when the other wakes
				fatal.If(t, err)
				last.Files = []File{f}
			}
			err := lateWork(d, old)
			if last.Files == nil {
				fatal.If(t, err)
				break
			}
			// Cleaning up after the last commit may fail without an error.
			if !errors.Is(err, ErrTurn) && d.ops > d.stop+2 {
				t.Fatalf("base %d, operation %d of %d: the late writer got %v", base, stop, d.ops, err)
			}
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Fatalf("more than a line: %v", err)
			}
			intact := func(step int64) {
				c, err := Open(Dir(root, step))
				fatal.If(t, err)
				fatal.If(t, c.Verify(t.Context()))
				mustEqual(t, c, sample("new"))
			}
			for _, step := range want {
				intact(step)
			}
			f, err := savePart(&sleepy{}, InTurn(root, "new"), last.Step, sample("new"), 1)
			fatal.If(t, err)
			last.Files = append(last.Files, f)
			fatal.If(t, commit(&sleepy{}, InTurn(root, "new"), last))
			intact(last.Step)
		}
	}
}

// lateWork is what a group does in its turn.
func lateWork(d disk, root string) error {
	var keeper Keeper
	for _, tag := range []string{"old", "older"} {
		if err := save(d, root, 20, sample(tag)); err != nil {
			return err
		}
	}
	return keeper.prune(d, root, 1, nil)
}

// TestOneTakesATurn: of two groups that have seen the same turn, the second gets an error.
func TestOneTakesATurn(t *testing.T) {
	root := filepath.Join(t.TempDir(), "new", Folder)
	mustTake(t, root, "a")
	seen, err := Turns(root)
	if err != nil || fmt.Sprint(seen) != "[a]" {
		t.Fatal(seen, err)
	}
	fatal.If(t, TakeTurn(root, seen, "b"))
	if err := TakeTurn(root, seen, "c"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the slower one: %v", err)
	}
	if seen, err = Turns(root); err != nil || fmt.Sprint(seen) != "[b]" {
		t.Fatal(seen, err)
	}
	// A stale list of names may lead to two.
	fatal.If(t, os.Mkdir(InTurn(root, "stale"), 0o755))
	seen, err = Turns(root)
	fatal.If(t, err)
	fatal.If(t, TakeTurn(root, seen, "d"))
	if seen, err = Turns(root); err != nil || fmt.Sprint(seen) != "[d]" {
		t.Fatal(seen, err)
	}
	// A root that a user has removed is made again by the writer that has the turn.
	fatal.If(t, os.RemoveAll(root))
	fatal.If(t, save(&sleepy{}, InTurn(root, "d"), 1, sample("again")))
	c, err := Open(Dir(root, 1))
	fatal.If(t, err)
	mustEqual(t, c, sample("again"))
}
