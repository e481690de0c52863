package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestStepNames: the name of a step is parsed as the same step, and other names are rejected.
func TestStepNames(t *testing.T) {
	for _, step := range []int64{0, 412, 999999999, 1000000000, 1<<63 - 1} {
		if got, ok := parseStep(stepName(step)); !ok || got != step {
			t.Errorf("%d is named %s, which is parsed as %d, %v", step, stepName(step), got, ok)
		}
	}
	for _, name := range []string{"", "step-", "step-1", "step-0000000001", "step-+00000001", "step--00000001", "step-00000000x", "step-99999999999999999999", "xstep-000000001"} {
		if step, ok := parseStep(name); ok {
			t.Errorf("%q is parsed as step %d", name, step)
		}
	}
	if Dir("r", 7) != filepath.Join("r", "step-000000007") {
		t.Error(Dir("r", 7))
	}
}

// steps lists the checkpoints of root, newest first.
func steps(t *testing.T, root string) (s []int64) {
	t.Helper()
	found, err := List(root)
	fatal.If(t, err)
	for _, f := range found {
		s = append(s, f.Step)
	}
	return s
}

// TestListIsByStepAndIgnoresTheRest: List returns checkpoints by step and ignores other files.
func TestListIsByStepAndIgnoresTheRest(t *testing.T) {
	root := t.TempDir()
	for _, step := range []int64{5, 2000000000, 30} { // the second is out of order if sorted as text
		mustSave(t, root, step, sample("x"))
	}
	write(t, filepath.Join(root, "step-000000099"), nil) // a file, which Latest reports
	for _, dir := range []string{"best", ".tmp-step-000000077", ".del-step-000000078", ".old-step-000000030"} {
		fatal.If(t, os.Mkdir(filepath.Join(root, dir), 0o755))
	}
	if got := steps(t, root); !slices.Equal(got, []int64{2000000000, 99, 30, 5}) {
		t.Fatal(got)
	}
	if found, _ := List(root); found[2].Dir != Dir(root, 30) || !found[1].File || found[2].File {
		t.Fatalf("%v: an .old was preferred to its successor, or a file was listed", found)
	}
	if _, err := List(filepath.Join(root, "nowhere")); !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
}

// TestLatestFallsBackWithTheReason: Latest returns the newest checkpoint that can be opened and
// is accepted, and the reasons for rejecting newer ones.
func TestLatestFallsBackWithTheReason(t *testing.T) {
	root := t.TempDir()
	for step := range int64(4) {
		mustSave(t, root, step, sample("x"))
	}
	overwrite(t, filepath.Join(Dir(root, 3), manifestName), 100, 0)
	overwrite(t, filepath.Join(Dir(root, 2), partName(1, 2)), headSize, 0) // only Verify detects it
	c, refused, err := Latest(root)
	if err != nil || c.Step() != 2 || len(refused) != 1 || !strings.Contains(refused[0].Error(), Dir(root, 3)) {
		t.Fatal(c, refused, err)
	}
	all := func(c *Checkpoint) error { return c.Verify(context.Background()) }
	c, refused, err = Latest(root, all)
	if err != nil || c.Step() != 1 || len(refused) != 2 || !strings.Contains(refused[1].Error(), Dir(root, 2)) {
		t.Fatal(c, refused, err)
	}
	c, refused, err = Latest(root, func(c *Checkpoint) error { return fmt.Errorf("step %d is not wanted", c.Step()) })
	if err == nil || errors.Is(err, os.ErrNotExist) || c != nil || len(refused) != 4 || !strings.Contains(err.Error(), "none of 4 checkpoints is usable") {
		t.Fatal(c, refused, err)
	}
}

// TestResolve: Resolve finds a checkpoint by the path of a run, of a folder of checkpoints or of
// a checkpoint.
func TestResolve(t *testing.T) {
	run := t.TempDir()
	root := filepath.Join(run, Folder)
	for step := range int64(3) {
		mustSave(t, root, step, sample("x"))
	}
	overwrite(t, filepath.Join(Dir(root, 2), manifestName), 100, 0)
	best := filepath.Join(run, "best")
	fatal.If(t, os.CopyFS(best, os.DirFS(Dir(root, 0))))
	for path, want := range map[string]int64{run: 1, root: 1, Dir(root, 0): 0, Dir(root, 1) + "/": 1, best: 0} {
		c, refused, err := Resolve(path)
		if err != nil || c.Step() != want {
			t.Errorf("%s: %v, %v", path, c, err)
		}
		if latest := path == run || path == root; latest != (len(refused) == 1) {
			t.Errorf("%s: rejected %v", path, refused)
		}
	}
	if _, _, err := Resolve(Dir(root, 2)); err == nil || !strings.Contains(err.Error(), "give the directory above it") {
		t.Errorf("a damaged checkpoint given by name: %v", err)
	}
	if _, _, err := Resolve(Dir(root, 1), func(*Checkpoint) error { return errors.New("no") }); err == nil {
		t.Error("accept was not called")
	}
	if _, _, err := Resolve(t.TempDir()); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "neither a run directory") {
		t.Errorf("an empty directory: %v", err)
	}
	if _, _, err := Resolve(filepath.Join(run, "nowhere")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nothing: %v", err)
	}
}

// TestPrune: Prune keeps the newest intact checkpoints and the protected ones, and damaged ones
// that are newer.
func TestPrune(t *testing.T) {
	root := t.TempDir()
	for step := range int64(8) {
		mustSave(t, root, step, sample("x"))
	}
	overwrite(t, filepath.Join(Dir(root, 7), manifestName), 100, 0) // damaged: not counted, but kept for inspection
	overwrite(t, filepath.Join(Dir(root, 1), manifestName), 100, 0) // damaged and older: removed
	fatal.If(t, Prune(root, 2, Dir(root, 3), "step-000000000"))
	if got := steps(t, root); !slices.Equal(got, []int64{7, 6, 5, 3, 0}) {
		t.Fatal(got)
	}
	for _, step := range []int64{6, 5, 3, 0} {
		fatal.If(t, verify(t.Context(), Dir(root, step)))
	}
	if entries, _ := os.ReadDir(root); len(entries) != 5 {
		t.Fatalf("not removed: %v", entries)
	}
	if err := os.CopyFS(oldDir(root, 0), os.DirFS(Dir(root, 5))); err != nil { // after a crash, .old exists together with its successor
		t.Fatal(err)
	}
	mustSave(t, root, 4, sample("x"))
	if err := os.Rename(Dir(root, 4), oldDir(root, 4)); err != nil { // and without it
		t.Fatal(err)
	}
	fatal.If(t, Prune(root, 3, oldDir(root, 4)))
	if got := steps(t, root); !slices.Equal(got, []int64{7, 6, 5, 4, 3}) {
		t.Fatalf("%v: 0 must be removed, 4 is protected", got)
	}
	fatal.If(t, Prune(root, 3))
	if got := steps(t, root); !slices.Equal(got, []int64{7, 6, 5, 4}) {
		t.Fatalf("%v: an .old without successor must count", got)
	}
	if err := Prune(root, 0); err == nil {
		t.Fatal("Prune accepted keep 0")
	}
}

// TestClean: Clean removes what crashes have left, restores a checkpoint whose replacement was
// interrupted, and keeps other files.
func TestClean(t *testing.T) {
	root := t.TempDir()
	if removed, err := Clean(filepath.Join(root, "nowhere")); err != nil || removed != nil {
		t.Fatal(removed, err)
	}
	mustSave(t, root, 1, sample("one"))
	mustSave(t, root, 2, sample("two"))
	if err := os.Rename(Dir(root, 2), oldDir(root, 2)); err != nil { // a crash during a replacement
		t.Fatal(err)
	}
	if c, _, err := Latest(root); err != nil || c.Step() != 2 {
		t.Fatal(c, err)
	}
	if _, err := savePart(unsynced{}, root, 3, sample("x"), 0); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{".old-step-000000001", ".del-step-000000000", ".tmp-other", ".git"} {
		fatal.If(t, os.Mkdir(filepath.Join(root, dir), 0o755))
	}
	removed, err := Clean(root)
	if err != nil || len(removed) != 3 {
		t.Fatal(removed, err)
	}
	entries, err := os.ReadDir(root)
	fatal.If(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{".git", ".tmp-other", "step-000000001", "step-000000002"}; !slices.Equal(names, want) {
		t.Fatalf("%v, want %v: other files must remain, and a replaced checkpoint must be restored", names, want)
	}
}

// TestAbsentIsNotDamaged: the error about a missing checkpoint is fs.ErrNotExist. It states that
// the checkpoint is missing and lists those that exist.
func TestAbsentIsNotDamaged(t *testing.T) {
	root := t.TempDir()
	for step := range int64(maxNamed + 2) {
		mustSave(t, root, step, sample("x"))
	}
	_, opened := Open(Dir(root, 99))
	_, _, resolved := Resolve(Dir(root, 99))
	for _, err := range []error{opened, resolved} {
		if !errors.Is(err, fs.ErrNotExist) || !strings.HasSuffix(err.Error(), "step-000000099: it is not there: never committed, or pruned since; the same root has steps 9, 8, 7, 6, 5, 4, 3, 2 and 2 more") {
			t.Error(err)
		}
	}
	if _, _, err := Resolve(filepath.Join(root, "nowhere")); !errors.Is(err, fs.ErrNotExist) || !strings.HasSuffix(err.Error(), "nowhere: there is no such directory") {
		t.Error(err)
	}
	for dir, want := range map[string]string{tmpDir(root, 3): "an unfinished", delDir(root, 3): "pruned", oldDir(root, 3): "written again"} {
		if got := Rest(dir); !strings.Contains(got, want) {
			t.Errorf("%s: %s", dir, got)
		}
	}
}
