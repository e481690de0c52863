//go:build unix

package checkpoint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"

	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// saveRun saves a checkpoint of the run that writes in root.
func saveRun(t *testing.T, root string, step int64, base *Link) {
	t.Helper()
	fatal.If(t, os.MkdirAll(root, 0o755))
	id, err := RunID(root)
	fatal.If(t, err)
	parts := runSample(step)
	m := Manifest{Step: step, Base: base, Run: id, Meta: map[string]json.RawMessage{}}
	for p := range parts {
		f, err := savePart(system{}, root, step, parts, p)
		fatal.If(t, err)
		m.Files = append(m.Files, f)
	}
	fatal.If(t, Commit(root, m))
}

// runSample is the content that saveRun saves. Two runs save the same content, so that only
// their ids differ.
func runSample(step int64) content { return sample(fmt.Sprintf("step %d", step)) }

func copyDir(t *testing.T, from, to string) {
	t.Helper()
	fatal.If(t, os.CopyFS(to, os.DirFS(from)))
}

// TestACheckpointIsWhatItsManifestSays: a checkpoint that was renamed, copied from another run
// or replaced by another file is rejected with the reason.
func TestACheckpointIsWhatItsManifestSays(t *testing.T) {
	for _, c := range []struct {
		name string
		harm func(t *testing.T, root, other string)
		want string // part of the error about the newer checkpoint, which is rejected
	}{
		{"renamed", func(t *testing.T, root, _ string) {
			fatal.If(t, os.Rename(Dir(root, 2), Dir(root, 3)))
		}, "its manifest has step 2"},
		{"copied under another step", func(t *testing.T, root, _ string) { copyDir(t, Dir(root, 1), Dir(root, 3)) }, "its manifest has step 1"},
		{"copied from another run", func(t *testing.T, root, other string) { copyDir(t, Dir(other, 9), Dir(root, 9)) }, "copied from another run"},
		{"linked to another run", func(t *testing.T, root, other string) {
			fatal.If(t, os.Symlink(Dir(other, 9), Dir(root, 9)))
		}, "copied from another run"},
		{"a file", func(t *testing.T, root, _ string) { write(t, Dir(root, 3), []byte("x")) }, "it is a file"},
		{"a link that leads nowhere", func(t *testing.T, root, _ string) {
			fatal.If(t, os.Symlink(filepath.Join(root, "gone"), Dir(root, 3)))
		}, "is its disk mounted?"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root, other := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
			saveRun(t, root, 1, nil)
			saveRun(t, root, 2, nil)
			saveRun(t, other, 9, nil)
			c.harm(t, root, other)
			ck, refused, err := Latest(root)
			if err != nil || ck.Step() > 2 || len(refused) != 1 || !strings.Contains(refused[0].Error(), c.want) {
				t.Fatalf("%v, rejected %v, error %v", ck, refused, err)
			}
			fatal.If(t, Prune(root, 1))
			if ck, _, err := Latest(root); err != nil || ck.Step() < 1 {
				t.Fatalf("after Prune: %v, error %v", ck, err)
			}
		})
	}
}

// TestACheckpointMayLieOnAnotherDisk: symbolic links to checkpoints of the same run on another
// disk are followed by readers. Prune removes the links, not what they lead to.
func TestACheckpointMayLieOnAnotherDisk(t *testing.T) {
	root, disk := t.TempDir(), t.TempDir()
	saveRun(t, root, 1, nil)
	saveRun(t, root, 2, &Link{Step: 1})
	for _, step := range []int64{1, 2} {
		moved := filepath.Join(disk, stepName(step))
		copyDir(t, Dir(root, step), moved)
		fatal.If(t, os.RemoveAll(Dir(root, step)))
		fatal.If(t, os.Symlink(moved, Dir(root, step)))
	}
	c, refused, err := Latest(root)
	if err != nil || c.Step() != 2 || len(refused) > 0 {
		t.Fatal(c, refused, err)
	}
	fatal.If(t, c.Verify(t.Context()))
	saveRun(t, root, 3, nil)
	var links []string
	k := Keeper{Unlinked: func(f Found) { links = append(links, f.Link) }}
	fatal.If(t, k.Prune(root, 1))
	if want := []string{filepath.Join(disk, stepName(2)), filepath.Join(disk, stepName(1))}; !slices.Equal(links, want) {
		t.Errorf("links removed: %q, want %q", links, want)
	}
	if entries, err := os.ReadDir(root); err != nil || len(entries) != 2 { // step 3 and RUN
		t.Errorf("left: %v, %v", entries, err)
	}
	for _, step := range []int64{1, 2} {
		moved := filepath.Join(disk, stepName(step))
		copyDir(t, moved, Dir(root, step))
	}
	c, err = Open(Dir(root, 2))
	fatal.If(t, err)
	fatal.If(t, c.Verify(t.Context()))
}

// TestACopiedCheckpointOpensInItsNewRoot: a checkpoint copied with Copy can be opened in its new
// root.
func TestACopiedCheckpointOpensInItsNewRoot(t *testing.T) {
	root, next := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	saveRun(t, root, 4, nil)
	c, err := Open(Dir(root, 4))
	fatal.If(t, err)
	if err := Copy(c, next); err != nil { // creates the root
		t.Fatal(err)
	}
	saveRun(t, next, 5, &Link{Step: 4})
	if c, refused, err := Latest(next); err != nil || c.Step() != 5 || len(refused) > 0 {
		t.Fatal(c, refused, err)
	}
	write(t, filepath.Join(next, runFile), []byte("not an id\n"))
	if _, err := Open(Dir(next, 5)); err == nil || !strings.Contains(err.Error(), "remove the file") {
		t.Fatal(err)
	}
}

// TestADamagedRunFileIsNoForeignCheckpoint changes every bit of the file RUN and removes the
// file as the error advises. The next checkpoint and the existing ones can then be opened.
func TestADamagedRunFileIsNoForeignCheckpoint(t *testing.T) {
	root, other := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	saveRun(t, other, 1, nil)
	c, err := Open(Dir(other, 1))
	fatal.If(t, err)
	fatal.If(t, os.Mkdir(root, 0o755))
	fatal.If(t, Copy(c, root))
	saveRun(t, root, 2, &Link{Step: 1})
	path := filepath.Join(root, runFile)
	whole, err := os.ReadFile(path)
	fatal.If(t, err)
	for bit := range 8 * len(whole) {
		b := bytes.Clone(whole)
		b[bit/8] ^= 1 << (bit % 8)
		write(t, path, b)
		if _, err := Open(Dir(root, 2)); err == nil || !strings.Contains(err.Error(), path+" is damaged: ") || !strings.Contains(err.Error(), "remove the file") {
			t.Fatalf("bit %d: %v", bit, err)
		}
	}
	fatal.If(t, os.Remove(path))
	saveRun(t, root, 3, &Link{Step: 2})
	if c, refused, err := Latest(root); err != nil || c.Step() != 3 || len(refused) > 0 {
		t.Fatal(c, refused, err)
	}
}

// FuzzParseRuns: a file RUN with a checksum that is accepted is encoded as the same text.
func FuzzParseRuns(f *testing.F) {
	f.Add("0123456789abcdef\n")
	f.Add(formatRuns([]string{"0123456789abcdef", "fedcba9876543210"}))
	f.Fuzz(func(t *testing.T, text string) {
		runs, err := parseRuns(text)
		if err == nil && runs.sum && formatRuns(runs.ids) != text {
			t.Errorf("%q is parsed as %q", text, runs.ids)
		}
	})
}

// TestARunFileOfAnEarlierRelease: a RUN file without a checksum gets one with the next
// checkpoint.
func TestARunFileOfAnEarlierRelease(t *testing.T) {
	root := t.TempDir()
	saveRun(t, root, 1, nil)
	path := filepath.Join(root, runFile)
	whole, err := os.ReadFile(path)
	fatal.If(t, err)
	_, ids, _ := strings.Cut(string(whole), "\n")
	write(t, path, []byte(ids))
	if _, err := Open(Dir(root, 1)); err != nil {
		t.Fatal(err)
	}
	write(t, path, []byte(strings.Repeat("0", runDigits)+"\n"))
	if _, err := Open(Dir(root, 1)); err == nil || !strings.Contains(err.Error(), "copied from another run") || !strings.Contains(err.Error(), path) {
		t.Fatal(err)
	}
	write(t, path, []byte(ids))
	saveRun(t, root, 2, nil)
	if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, whole) {
		t.Fatalf("RUN is %q, want %q: %v", b, whole, err)
	}
}

// TestManyDamages damages a root in many seeded ways. Each time the damage is reported with its
// place, and the newest checkpoint that can be opened is one that was written. Without the ids
// of runs, none can be opened. No operation blocks.
func TestManyDamages(t *testing.T) {
	good, other := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	for step := int64(1); step <= 3; step++ {
		saveRun(t, good, step, nil)
		saveRun(t, other, step+1, nil)
	}
	saveRun(t, good, 4, &Link{Step: 3})
	roots := t.TempDir()
	for seed := range uint64(patient.Size(250, 1000)) {
		root := filepath.Join(roots, strconv.FormatUint(seed, 10))
		copyDir(t, good, root)
		r := rand.New(rand.NewPCG(seed, 1))
		what := damage(t, r, root, other)
		done := make(chan string, 1)
		go func() { done <- latestIsTrue(t, root) }()
		select {
		case fault := <-done:
			if fault != "" {
				t.Fatalf("seed %d: %s: %s", seed, what, fault)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("seed %d: %s: an operation blocks", seed, what)
		}
	}
}

// latestIsTrue returns an error if the checkpoint that Latest opens is wrong.
func latestIsTrue(t *testing.T, root string) string {
	found, err := List(root)
	if err != nil {
		return err.Error()
	}
	c, refused, err := Latest(root, func(c *Checkpoint) error { return c.Verify(t.Context()) })
	for _, r := range refused {
		if !strings.Contains(r.Error(), root) {
			return "the place is missing: " + r.Error()
		}
	}
	if len(refused) == 0 {
		return "no damage is reported"
	}
	if _, damaged := readRuns(root); err != nil && len(refused) == len(found) && (damaged != nil || strings.Contains(err.Error(), "copied from another run")) {
		return ""
	}
	if err != nil {
		return err.Error()
	}
	if i := len(refused); found[i].Step != c.Step() {
		return fmt.Sprintf("step %d is taken, %d are refused of %v", c.Step(), i, found)
	}
	got, err := load(c)
	if err != nil {
		return err.Error()
	}
	for name, want := range runSample(c.Step()).flat() {
		if !bytes.Equal(got[name], want) {
			return fmt.Sprintf("section %q of step %d is not what was written", name, c.Step())
		}
	}
	return ""
}

// damage damages a root with steps 1 to 4 in one way. Step 4 is based on step 3. Steps 1 and 2
// are not both changed.
func damage(t *testing.T, r *rand.Rand, root, other string) string {
	step := 3 + r.Int64N(2)
	dir := Dir(root, step)
	entries, err := os.ReadDir(dir)
	fatal.If(t, err)
	file := filepath.Join(dir, entries[r.IntN(len(entries))].Name())
	do := func(err error) {
		fatal.If(t, err)
	}
	if r.IntN(12) == 0 {
		file = filepath.Join(root, runFile)
	}
	switch r.IntN(11) {
	case 0:
		to := Dir(root, step+10)
		do(os.Rename(dir, to))
		return "renamed to " + to
	case 1:
		do(os.RemoveAll(dir))
		copyDir(t, Dir(other, step), dir)
		return "copied from another run: " + dir
	case 2:
		do(os.Remove(file))
		from := other
		if filepath.Base(file) != runFile {
			from = Dir(other, step-1) // another step, because the parts of one step are the same in both runs
		}
		do(os.Symlink(filepath.Join(from, filepath.Base(file)), file))
		return "a link to another run: " + file
	case 3:
		do(os.Remove(file))
		do(syscall.Mkfifo(file, 0o600))
		return "a pipe: " + file
	case 4:
		do(os.Remove(file))
		do(os.Symlink("/dev/zero", file))
		return "a device: " + file
	case 5:
		do(os.RemoveAll(dir))
		write(t, dir, []byte("checkpoint"))
		return "a file: " + dir
	case 6:
		copyDir(t, dir, Dir(root, 5+r.Int64N(5)))
		return "a duplicate of " + dir
	case 7:
		info, err := os.Stat(file)
		do(err)
		do(os.Truncate(file, r.Int64N(info.Size()-1)))
		return "cut: " + file
	case 8:
		do(os.Remove(file))
		do(os.Mkdir(file, 0o755))
		return "a directory: " + file
	case 9:
		info, err := os.Stat(file)
		do(err)
		do(os.Truncate(file, info.Size()+1+r.Int64N(100)))
		return "longer: " + file
	}
	b, err := os.ReadFile(file)
	do(err)
	i := r.IntN(len(b))
	b[i] ^= 1 << r.IntN(8)
	do(os.WriteFile(file, b, 0o644))
	return fmt.Sprintf("byte %d of %s", i, file)
}
