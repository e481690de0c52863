package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/fatal"
)

// TestKeeperReadsEachOnce commits a long run with chains of four checkpoints on one full one,
// and prunes after each commit. The remaining checkpoints are those that Prune would keep,
// and each checkpoint is read once.
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
		fatal.If(t, errors.Join(k.Prune(root, keep, best), Prune(twin, keep, best)))
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

// TestKeeperReadsNothingItCommits: a checkpoint or chain that the Keeper has committed is not
// read again, unless it was replaced since.
func TestKeeperReadsNothingItCommits(t *testing.T) {
	const keep = 5
	root, twin := t.TempDir(), t.TempDir()
	var k Keeper
	for step := range int64(16) {
		m := Manifest{Step: step}
		if step%4 == 0 {
			mustSave(t, twin, step, sample("x"))
		} else {
			m.Base = &Link{Step: step - 1}
			mustSaveUpon(t, twin, step-1, step, sample("x"))
		}
		for p := range sample("x") {
			f, err := savePart(unsynced{}, root, step, sample("x"), p)
			fatal.If(t, err)
			m.Files = append(m.Files, f)
		}
		fatal.If(t, errors.Join(k.commit(unsynced{}, root, m), k.Prune(root, keep), Prune(twin, keep)))
		if got, want := steps(t, root), steps(t, twin); !slices.Equal(got, want) {
			t.Fatalf("after step %d there are %v, Prune leaves %v", step, got, want)
		}
	}
	if k.read != 0 {
		t.Errorf("%d checkpoints were read", k.read)
	}
	mustSave(t, root, 14, sample("y")) // 15 builds upon what was there
	if old, err := k.old(root, 1, nil); err != nil || k.read == 0 || len(old) == 0 || old[0].Step != 13 {
		t.Errorf("after step 14 was replaced %v go, %d were read: %v", old, k.read, err)
	}
}

// TestKeeperLooksAgain: a checkpoint that is damaged or replaced after it has opened is no
// longer counted, nor are those based on it.
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
