package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestKeeperReadsEachOnce commits many checkpoints, in chains of four based on one full
// checkpoint, and prunes after each commit. The remaining checkpoints are those that Prune would
// keep, and each checkpoint is read once.
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
			t.Fatalf("after step %d the checkpoints are %v, Prune keeps %v", step, got, want)
		}
	}
	if k.read > written {
		t.Errorf("%d checkpoints were read, want the %d written", k.read, written)
	}
	if len(k.seen) > keep+8 {
		t.Errorf("the Keeper knows %d checkpoints, %d exist", len(k.seen), len(steps(t, root)))
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
			t.Fatalf("after step %d the checkpoints are %v, Prune keeps %v", step, got, want)
		}
	}
	if k.read != 0 {
		t.Errorf("%d checkpoints were read", k.read)
	}
	mustSave(t, root, 14, sample("y")) // 15 is based on the replaced checkpoint
	if old, err := k.old(root, 1, nil); err != nil || k.read == 0 || len(old) == 0 || old[0].Step != 13 {
		t.Errorf("after step 14 was replaced, %v are removed and %d were read: %v", old, k.read, err)
	}
}

// TestKeeperLooksAgain: a checkpoint that is damaged or replaced after it was opened no longer
// counts, nor do the checkpoints based on it.
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
	if err := os.Chtimes(manifest, time.Time{}, time.Now().Add(time.Minute)); err != nil { // the times of files are coarse
		t.Fatal(err)
	}
	if old, err := k.old(root, 3, nil); err != nil || len(old) != 0 { // 4 and 3 cannot be opened; 2, 1 and 0 can
		t.Errorf("%v, %v: a damaged checkpoint, or one based on it, counts", old, err)
	}
	if k.read == 0 {
		t.Error("the replaced checkpoint was not read")
	}
}

// TestCommitWaitsForParts: a part that the disk does not show yet is waited for, as long as the
// keeper has patience.
func TestCommitWaitsForParts(t *testing.T) {
	for _, patience := range []time.Duration{0, time.Minute} {
		root := t.TempDir()
		var files []File
		for part := range 2 {
			w, err := Create(root, 7, part, 2)
			fatal.If(t, err)
			fatal.If(t, w.Section(fmt.Sprint("section-", part), func(out io.Writer) error { _, err := io.WriteString(out, "content"); return err }))
			f, err := w.Close()
			fatal.If(t, err)
			files = append(files, f)
		}
		at, hidden := filepath.Join(tmpDir(root, 7), files[1].Name), filepath.Join(t.TempDir(), "hidden")
		fatal.If(t, os.Rename(at, hidden))
		waits := 0
		k := Keeper{Patience: patience, Waits: func() {
			if waits++; waits == 3 {
				fatal.If(t, os.Rename(hidden, at))
			}
		}}
		run, err := RunID(root)
		fatal.If(t, err)
		err = k.Commit(root, Manifest{Step: 7, Files: files, Run: run})
		if found, _ := List(root); patience == 0 && (err == nil || waits > 0) || patience > 0 && (err != nil || waits != 3 || len(found) != 1) {
			t.Errorf("patience %v: %v after %d waits, %v", patience, err, waits, found)
		}
	}
}
