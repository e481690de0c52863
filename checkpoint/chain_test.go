package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// mustSaveUpon saves a checkpoint based on the one of step base.
func mustSaveUpon(t *testing.T, root string, base, step int64, parts content) string {
	t.Helper()
	fatal.If(t, saveUpon(unsynced{}, root, &Link{Step: base}, step, parts))
	return Dir(root, step)
}

// saveChain saves a full checkpoint of step 5 and incremental ones of steps 6, 7 and 8, each
// based on the previous one.
func saveChain(t *testing.T, root string) {
	t.Helper()
	mustSave(t, root, 5, sample("full"))
	for step := int64(6); step <= 8; step++ {
		mustSaveUpon(t, root, step-1, step, sample("change"))
	}
}

// fixture2 was written by the first release of format version 2: see fixture.
var fixture2 = filepath.Join("testdata", "v2")

// TestVersion2StaysReadable: the fixture of version 2 can be read.
func TestVersion2StaysReadable(t *testing.T) {
	c, err := Open(Dir(fixture2, 9))
	fatal.If(t, err)
	fatal.If(t, c.Verify(t.Context()))
	links := c.Chain()
	if len(links) != 3 || links[2] != c || links[0].Base() != nil || c.Base() != links[1] || c.Manifest().FormatVersion != 2 || links[0].Manifest().FormatVersion != 1 {
		t.Fatalf("%d links, manifest %+v", len(links), c.Manifest())
	}
	for i, tag := range []string{"full", "one", "two"} {
		mustEqual(t, links[i], sample(tag))
	}
}

// TestWhatIsWrittenIsVersion2: a chain is written with the bytes of the fixture.
func TestWhatIsWrittenIsVersion2(t *testing.T) {
	root := t.TempDir()
	mustSave(t, root, 7, sample("full"))
	mustSaveUpon(t, root, 7, 8, sample("one"))
	mustSaveUpon(t, root, 8, 9, sample("two"))
	for step := int64(7); step <= 9; step++ {
		for _, name := range []string{partName(0, 2), partName(1, 2), manifestName} {
			if want, got := read(t, filepath.Join(Dir(fixture2, step), name)), read(t, filepath.Join(Dir(root, step), name)); !bytes.Equal(want, got) {
				t.Errorf("step %d: %s differs from the fixture: a change of the format needs a new version", step, name)
			}
		}
	}
}

// TestABrokenLink: if a link of a chain is damaged in any way, the checkpoints based on it are
// rejected with an error that names it, and the newest intact one is used.
func TestABrokenLink(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, dir string)
	}{
		{"gone", func(t *testing.T, dir string) { remove(t, dir) }},
		{"manifest cut", func(t *testing.T, dir string) { cut(t, filepath.Join(dir, manifestName)) }},
		{"part cut", func(t *testing.T, dir string) { cut(t, filepath.Join(dir, partName(1, 2))) }},
		{"payload changed", func(t *testing.T, dir string) { overwrite(t, filepath.Join(dir, partName(0, 2)), headSize, '!') }},
		{"another in its place", func(t *testing.T, dir string) { mustSaveUpon(t, filepath.Dir(dir), 5, 6, sample("other")) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			saveChain(t, root)
			c.spoil(t, Dir(root, 6))
			got, refused, err := Latest(root, func(c *Checkpoint) error { return c.Verify(t.Context()) })
			want := int64(5)
			if c.name == "another in its place" {
				want = 6
			}
			if err != nil || got.Step() != want || len(refused) < 2 {
				t.Fatalf("step %d, want %d; rejected %v; %v", got.Step(), want, refused, err)
			}
			for i, name := range []string{"step-000000008", "step-000000007"} {
				if text := refused[i].Error(); !strings.Contains(text, name) || !strings.Contains(text, "step-000000006") || !strings.Contains(text, "builds upon") {
					t.Errorf("rejected: %s", text)
				}
			}
		})
	}
}

func cut(t *testing.T, path string) {
	t.Helper()
	b := read(t, path)
	write(t, path, b[:len(b)/2])
}

func remove(t *testing.T, dir string) {
	t.Helper()
	fatal.If(t, os.RemoveAll(dir))
}

// TestABaseOutlivesItsTurn: the bases of a remaining checkpoint are not pruned. They are removed
// together with it.
func TestABaseOutlivesItsTurn(t *testing.T) {
	root := t.TempDir()
	mustSave(t, root, 4, sample("old"))
	saveChain(t, root)
	fatal.If(t, Prune(root, 1))
	if got := steps(t, root); !slices.Equal(got, []int64{8, 7, 6, 5}) {
		t.Errorf("remaining: %v", got)
	}
	mustSave(t, root, 9, sample("new"))
	fatal.If(t, Prune(root, 1, Dir(root, 6)))
	if got := steps(t, root); !slices.Equal(got, []int64{9, 6, 5}) {
		t.Errorf("remaining: %v", got)
	}
	fatal.If(t, Prune(root, 1))
	if got := steps(t, root); !slices.Equal(got, []int64{9}) {
		t.Errorf("remaining: %v", got)
	}
}

// TestAChainIsCopiedWhole: Copy copies a checkpoint with all its bases.
func TestAChainIsCopiedWhole(t *testing.T) {
	root, other := t.TempDir(), filepath.Join(t.TempDir(), "other")
	saveChain(t, root)
	for _, step := range []int64{7, 8} { // the links copied for step 7 are already there
		c, err := Open(Dir(root, step))
		fatal.If(t, err)
		fatal.If(t, Copy(c, other))
	}
	remove(t, root)
	c, refused, err := Latest(other, func(c *Checkpoint) error { return c.Verify(t.Context()) })
	if err != nil || c.Step() != 8 || len(refused) > 0 || len(c.Chain()) != 4 {
		t.Errorf("%v, rejected %v: %v", c, refused, err)
	}
}

// TestABaseMustBeThere: a commit is rejected if its base is missing or has the same step.
func TestABaseMustBeThere(t *testing.T) {
	root := t.TempDir()
	if err := saveUpon(unsynced{}, root, &Link{Step: 3}, 4, sample("x")); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "base of step 3") {
		t.Errorf("a missing base: %v", err)
	}
	mustSave(t, root, 4, sample("x"))
	if err := saveUpon(unsynced{}, root, &Link{Step: 4}, 4, sample("x")); err == nil || !strings.Contains(err.Error(), "not before it") {
		t.Errorf("a base of the same step: %v", err)
	}
}

// TestWatch: Verify and Read report every byte of a checkpoint and its bases.
func TestWatch(t *testing.T) {
	root := t.TempDir()
	mustSave(t, root, 1, sample("a"))
	full, err := Open(Dir(root, 1))
	fatal.If(t, err)
	fatal.If(t, saveUpon(system{}, root, &Link{Step: 1}, 2, sample("b")))
	c, err := Open(Dir(root, 2))
	fatal.If(t, err)
	size := func(c *Checkpoint) (sum int) {
		for _, name := range c.Names() {
			sum += int(c.Size(name))
		}
		return sum
	}
	told := 0
	c.Watch(func(bytes int) { told += bytes })
	fatal.If(t, c.Verify(context.Background()))
	if want := size(c) + size(full); told != want || want == 0 {
		t.Errorf("verifying reported %d bytes, want %d", told, want)
	}
	told = 0
	for _, link := range c.Chain() {
		if _, err := load(link); err != nil {
			t.Fatal(err)
		}
	}
	if want := size(c) + size(full); told != want {
		t.Errorf("reading reported %d bytes, want %d", told, want)
	}
}
