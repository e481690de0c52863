package export_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/export"
	"github.com/wdlrun/wdlrun/internal/export/ledger"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// spoil overwrites the middle of a file in place.
func spoil(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	b[len(b)/2] ^= 1
	return errors.Join(os.WriteFile(path, b, 0o644), os.Chtimes(path, time.Time{}, time.Unix(1, 0)))
}

// TestADamagedVersionIsReplaced: whatever is removed or damaged of the versions on which the next
// one would build, the next one is complete and has all rows. One line says why. The version after
// it has changes again.
func TestADamagedVersionIsReplaced(t *testing.T) {
	for _, x := range []struct {
		name, why string
		damage    func(x *trainee) error
	}{
		{"the last removed", "version 4 was removed", func(x *trainee) error { return os.RemoveAll(x.version(4)) }},
		{"an earlier one removed", "version 2 was removed", func(x *trainee) error { return os.RemoveAll(x.version(2)) }},
		{"the base removed", "version 1 was removed", func(x *trainee) error { return os.RemoveAll(x.version(1)) }},
		{"all removed", "version 1 was removed", func(x *trainee) error {
			return errors.Join(os.RemoveAll(x.version(1)), os.RemoveAll(x.version(2)), os.RemoveAll(x.version(3)), os.RemoveAll(x.version(4)))
		}},
		{"the folder removed", "version 1 was removed", func(x *trainee) error { return os.RemoveAll(x.dir) }},
		{"the folder moved", "version 1 was removed", func(x *trainee) error { return os.Rename(x.dir, x.dir+"-moved") }},
		{"changes cut short", "version 3 is damaged: delta.bin: ", func(x *trainee) error { return os.Truncate(filepath.Join(x.version(3), "delta.bin"), 10) }},
		{"changes overwritten", "version 3 is damaged: delta.bin: ", func(x *trainee) error { return spoil(filepath.Join(x.version(3), "delta.bin")) }},
		{"a file of the base missing", "version 1 is damaged: ", func(x *trainee) error { return os.Remove(filepath.Join(x.version(1), "table-0000.bin")) }},
		{"a manifest emptied", "version 4 is damaged: MANIFEST.json: ", func(x *trainee) error { return os.Truncate(filepath.Join(x.version(4), "MANIFEST.json"), 0) }},
		{"a link", "version 3 is damaged: ", func(x *trainee) error {
			return errors.Join(os.Rename(x.version(3), x.version(3)+"-moved"), os.Symlink("3-moved", x.version(3)))
		}},
		{"another version", "version 3 is damaged: MANIFEST.json is of version 2", func(x *trainee) error {
			return errors.Join(os.RemoveAll(x.version(3)), os.CopyFS(x.version(3), os.DirFS(x.version(2))))
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			p := newTrainee(t, 100)
			outcomes := p.counted()
			for range 4 {
				p.train()
				fatal.If(t, p.publish())
			}
			fatal.If(t, x.damage(p))
			for range 2 {
				p.train()
				fatal.If(t, p.publish())
				p.check(p.openAfter(p.last, nil))
			}
			if got := fmt.Sprint(*outcomes); got != "[complete changes changes changes repaired changes]" {
				t.Error(got)
			}
			if len(p.warned) != 1 || !strings.Contains(p.warned[0], "version 5 in "+p.dir+" is complete, because "+x.why) {
				t.Errorf("%q", p.warned)
			}
		})
	}
}

// TestARestoredVersionIsWhole: a version whose files were copied back, or touched, is whole.
func TestARestoredVersionIsWhole(t *testing.T) {
	x := newTrainee(t, 100)
	outcomes := x.counted()
	for range 2 {
		x.train()
		fatal.If(t, x.publish())
	}
	fatal.If(t, errors.Join(os.Rename(x.version(2), x.version(2)+"-away"), os.CopyFS(x.version(2), os.DirFS(x.version(2)+"-away")),
		os.Chtimes(filepath.Join(x.version(1), "dense.bin"), time.Time{}, time.Unix(1, 0))))
	x.train()
	fatal.If(t, x.publish())
	x.check(x.openAfter(3, nil))
	if got := fmt.Sprint(*outcomes); got != "[complete changes changes]" {
		t.Error(got)
	}
}

// TestABaseThatIsOverwrittenIsReported: if the mapped tables themselves are changed in place, their
// rows are in no version. After Restart with a model of a checkpoint, versions follow.
func TestABaseThatIsOverwrittenIsReported(t *testing.T) {
	for name, damage := range map[string]func(path string) error{"overwritten": spoil, "cut short": func(path string) error { return os.Truncate(path, 0) }} {
		x := newTrainee(t, 100)
		x.train()
		fatal.If(t, x.publish())
		fatal.If(t, damage(filepath.Join(x.version(1), "table-0000.bin")))
		x.train()
		if err := x.publish(); !errors.Is(err, export.ErrBase) {
			t.Errorf("%s: %v", name, err)
		}
		fatal.If(t, x.pub.Restart(nil))
		for i := range x.rows {
			for key, v := range x.rows[i] {
				x.put(i, key, v)
			}
		}
		fatal.If(t, x.publish())
		x.check(x.openAfter(x.last, nil))
	}
}

// TestNumbersOnlyRise: versions continue after a version of any other program, with one line. A
// number that no number follows is an error until it is removed.
func TestNumbersOnlyRise(t *testing.T) {
	x := newTrainee(t, 3)
	publish := func(want int64) {
		t.Helper()
		x.train()
		fatal.If(t, x.publish())
		if x.last != want {
			t.Fatalf("version %d, want %d", x.last, want)
		}
		x.pub.Wait()
		x.check(x.openAfter(x.last, nil))
	}
	publish(1)
	fatal.If(t, os.MkdirAll(x.version(1700000000), 0o755)) // of a deployment tool
	for n := range int64(4) {
		publish(1700000001 + n)
	}
	if len(x.warned) != 1 || !strings.Contains(x.warned[0], "another program has written version 1700000000") {
		t.Errorf("%q", x.warned)
	}
	most := x.version(math.MaxInt64)
	fatal.If(t, os.WriteFile(most, nil, 0o644))
	if err := x.publish(); err == nil || !strings.Contains(err.Error(), "no number is higher") {
		t.Errorf("%v", err)
	}
	fatal.If(t, os.Remove(most))
	fatal.If(t, x.pub.Close())
	x.open()
	for i := range x.rows {
		for key, v := range x.rows[i] {
			x.put(i, key, v)
		}
	}
	publish(1700000005)
}

// TestNothingIsPublishedDuringAHold: a hold makes Publish fail, also if it comes while a version is
// written. The version after it has all changes.
func TestNothingIsPublishedDuringAHold(t *testing.T) {
	x := newTrainee(t, 100)
	x.train()
	fatal.If(t, x.publish())
	for i, reason := range []string{"the last one is bad", "", "the last one is bad"} { // only the first changes something
		if changed, err := export.Hold(t.Context(), x.dir, reason); changed != (i == 0) || err != nil {
			t.Errorf("hold %d: %v, %v", i, changed, err)
		}
	}
	if _, err := export.Pin(t.Context(), x.dir, "12", 1); err == nil || !strings.Contains(err.Error(), `the label "12" is a number`) {
		t.Error(err)
	}
	x.train()
	var held *export.HeldError
	if err := x.publish(); !errors.As(err, &held) || !strings.Contains(err.Error(), "(the last one is bad): nothing is published until") {
		t.Fatal(err)
	}
	if got := x.names(); !slices.Equal(got, []string{"1", "hold.json"}) {
		t.Errorf("%v", got)
	}
	if was, err := export.Release(t.Context(), x.dir); was == nil || err != nil {
		t.Errorf("%v, %v", was, err)
	}
	x.train()
	fatal.If(t, x.publish())
	x.check(x.openAfter(x.last, nil))
}

// TestARollbackIsNamed: the training says that the higher version is a rollback.
func TestARollbackIsNamed(t *testing.T) {
	x := newTrainee(t, 3)
	for range 2 {
		x.train()
		fatal.If(t, x.publish())
	}
	first := x.last - 1
	fatal.If(t, ledger.WriteHold(x.dir, ledger.Hold{Reason: "its log-loss is .8", Guard: true}))
	for range 2 { // the second one changes nothing
		_, _, err := export.Rollback(t.Context(), x.dir, first)
		fatal.If(t, err)
	}
	was, err := export.Release(t.Context(), x.dir)
	fatal.If(t, err)
	if want := fmt.Sprintf("rollback to version %d; before it, train.export.guard held the folder: its log-loss is .8", first); was == nil || was.Guard || was.String() != want {
		t.Errorf("the hold is %q, want %q", was, want)
	}
	x.train()
	fatal.If(t, x.publish())
	if want := fmt.Sprintf("version %d in %s is a rollback to version %d: the numbers of this training continue after it", first+2, x.dir, first); len(x.warned) != 1 || x.warned[0] != want {
		t.Errorf("%q, want %q", x.warned, want)
	}
}
