package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestKeeperReadsEachOnce commits a long run, four of a chain to one full one, and
// prunes after each: what stays is what Prune would leave, and each checkpoint is read
// once however many are kept.
func TestKeeperReadsEachOnce(t *testing.T) {
	const written, keep = 60, 20
	root, twin := t.TempDir(), t.TempDir()
	var k Keeper
	for step := range int64(written) {
		for _, root := range []string{root, twin} {
			if step%4 == 0 {
				mustSave(t, root, step, sample("x"))
			} else {
				mustSaveUpon(t, root, step-1, step, sample("x"))
			}
		}
		best := "step-000000005"
		if err := errors.Join(k.Prune(root, keep, best), Prune(twin, keep, best)); err != nil {
			t.Fatal(err)
		}
		if got, want := steps(t, root), steps(t, twin); !slices.Equal(got, want) {
			t.Fatalf("after step %d there are %v, Prune leaves %v", step, got, want)
		}
	}
	if k.read > written {
		t.Errorf("%d checkpoints were read, %d were written", k.read, written)
	}
	if len(k.seen) > keep+8 {
		t.Errorf("%d checkpoints are remembered, %d are there", len(k.seen), len(steps(t, root)))
	}
}

// TestKeeperLooksAgain: one that is damaged, or replaced, after it has opened counts no
// more, nor do those that build upon it.
func TestKeeperLooksAgain(t *testing.T) {
	root := t.TempDir()
	for step := range int64(3) {
		mustSave(t, root, step, sample("x"))
	}
	mustSaveUpon(t, root, 2, 3, sample("x"))
	mustSaveUpon(t, root, 3, 4, sample("x"))
	var k Keeper
	if old, err := k.old(root, 3, nil); err != nil || len(old) != 2 || old[0].Step != 1 {
		t.Fatal(old, err)
	}
	manifest := filepath.Join(Dir(root, 3), manifestName)
	overwrite(t, manifest, 100, 0)
	if err := os.Chtimes(manifest, time.Time{}, time.Now().Add(time.Minute)); err != nil { // clocks of files are coarse
		t.Fatal(err)
	}
	if old, err := k.old(root, 3, nil); err != nil || len(old) != 0 { // 4 and 3 do not open; 2, 1 and 0 do
		t.Errorf("%v, %v: a damaged one and one that builds upon it count", old, err)
	}
	if k.read == 0 {
		t.Error("nothing was read")
	}
}
