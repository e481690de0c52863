package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// content is the content of a checkpoint: for each part, its sections by name.
type content []map[string][]byte

// save writes and commits content through d.
func save(d disk, root string, step int64, parts content) error {
	return saveUpon(d, root, nil, step, parts)
}

// saveUpon is like save, with a base.
func saveUpon(d disk, root string, base *Link, step int64, parts content) error {
	m := Manifest{Step: step, Base: base, Time: time.Unix(1700000000, 0), Meta: map[string]json.RawMessage{"run": json.RawMessage(`"a<b"`)}}
	for p := range parts {
		f, err := savePart(d, root, step, parts, p)
		if err != nil {
			return err
		}
		m.Files = append(m.Files, f)
	}
	return commit(d, root, m)
}

func savePart(d disk, root string, step int64, parts content, p int) (File, error) {
	w, err := create(d, root, step, p, len(parts))
	if err != nil {
		return File{}, err
	}
	defer w.Discard()
	for _, name := range sortedNames(parts[p]) {
		b := parts[p][name]
		err := w.Section(name, func(w io.Writer) error {
			half := len(b) / 2 // a section may consist of several writes
			if _, err := w.Write(b[:half]); err != nil {
				return err
			}
			_, err := w.Write(b[half:])
			return err
		})
		if err != nil {
			return File{}, err
		}
	}
	return w.Close()
}

func sortedNames(m map[string][]byte) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// load reads all of c with Read.
func load(c *Checkpoint) (map[string][]byte, error) {
	all := map[string][]byte{}
	for _, name := range c.Names() {
		err := c.Read(name, func(r io.Reader) (err error) {
			all[name], err = io.ReadAll(r)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (c content) flat() map[string][]byte {
	all := map[string][]byte{}
	for _, part := range c {
		for name, b := range part {
			all[name] = b
		}
	}
	return all
}

// sample is a small checkpoint of two parts with an empty section.
func sample(tag string) content {
	return content{
		{"dense": []byte("weights " + tag), "sparse/user/0000": []byte(tag + "\x00\x01\x02")},
		{"sparse/user/0001": {}, "sparse/item/0001": bytes.Repeat([]byte(tag), 9)},
	}
}

// unsynced is the real disk without syncing, for tests without crashes.
type unsynced struct{ system }

func (unsynced) Sync(string) error { return nil }

func (unsynced) Create(path string) (file, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { // makeDir would sync
		return nil, err
	}
	f, err := system{}.Create(path)
	return unsyncedFile{f}, err
}

type unsyncedFile struct{ file }

func (unsyncedFile) Sync() error { return nil }

func mustSave(t *testing.T, root string, step int64, parts content) string {
	t.Helper()
	fatal.If(t, save(unsynced{}, root, step, parts))
	return Dir(root, step)
}

func mustEqual(t testing.TB, c *Checkpoint, want content) {
	t.Helper()
	got, err := load(c)
	fatal.If(t, err)
	sameContent(t, got, want)
}

// fataler is the common interface of *testing.T and *rapid.T.
type fataler interface {
	Helper()
	Fatalf(format string, a ...any)
}

func sameContent(t fataler, got map[string][]byte, want content) {
	t.Helper()
	flat := want.flat()
	if len(got) != len(flat) {
		t.Fatalf("%d sections, want %d", len(got), len(flat))
	}
	for name, b := range flat {
		if g, ok := got[name]; !ok || !bytes.Equal(g, b) {
			t.Fatalf("section %q is %q (%v), want %q", name, g, ok, b)
		}
	}
}

// TestFourRanksWriteOneReads: four ranks write the parts of a checkpoint, which is not visible
// before Commit, and one process reads all sections.
func TestFourRanksWriteOneReads(t *testing.T) {
	root := filepath.Join(t.TempDir(), "run", Folder) // created if missing
	const P = 4
	parts := make(content, P)
	for p := range parts {
		parts[p] = map[string][]byte{}
		for i := range 50 {
			parts[p][fmt.Sprintf("table/%d/%04d", i%3, i*P+p)] = bytes.Repeat([]byte{byte(p), byte(i)}, i*i*i)
		}
	}
	files, errs := make([]File, P), make(chan error, P)
	for p := range P {
		go func() {
			var err error
			files[p], err = savePart(system{}, root, 412, parts, p)
			errs <- err
		}()
	}
	for range P {
		fatal.If(t, <-errs)
	}
	if _, _, err := Latest(root); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("before Commit: %v, want ErrNotExist", err)
	}
	before := time.Now().Add(-time.Second)
	meta := map[string]json.RawMessage{"cursor": json.RawMessage("18446744073709551615")}
	fatal.If(t, Commit(root, Manifest{Step: 412, Files: files, Meta: meta}))
	c, refused, err := Latest(root, func(c *Checkpoint) error { return c.Verify(t.Context()) })
	if err != nil || len(refused) != 0 {
		t.Fatal(err, refused)
	}
	m := c.Manifest()
	if c.Step() != 412 || m.WorldSize != P || m.FormatVersion != 1 || m.Time.Before(before) || string(m.Meta["cursor"]) != "18446744073709551615" {
		t.Fatalf("manifest %+v", m)
	}
	if c.Dir() != Dir(root, 412) || !c.Has("table/0/0000") || c.Has("table/9/0000") || c.Size("table/1/0004") != 2 || c.Size("nothing") != 0 {
		t.Fatal("Dir, Has or Size")
	}
	mustEqual(t, c, parts)
	if err := c.Read("table/9", nil); err == nil || !strings.Contains(err.Error(), `no section "table/9"`) {
		t.Fatal(err)
	}
}

// TestAnythingComesBack: sections with any names and contents are read as they were written.
func TestAnythingComesBack(t *testing.T) {
	base, n := t.TempDir(), 0
	name := rapid.Custom(func(t *rapid.T) string {
		return rapid.StringOfN(rapid.RuneFrom([]rune("abcé/🙂")), 1, 12, -1).Draw(t, "name")
	})
	rapid.Check(t, func(t *rapid.T) {
		n++
		root := filepath.Join(base, fmt.Sprint(n))
		names := rapid.SliceOfDistinct(name, rapid.ID[string]).Draw(t, "names")
		parts := make(content, rapid.IntRange(1, 4).Draw(t, "parts"))
		for p := range parts {
			parts[p] = map[string][]byte{}
		}
		for _, name := range names {
			size := rapid.SampledFrom([]int{0, 1, 1, 100, 100, bufferSize + 1}).Draw(t, "size")
			parts[rapid.IntRange(0, len(parts)-1).Draw(t, "part")][name] = bytes.Repeat([]byte{byte(len(name))}, size)
		}
		fatal.If(t, save(unsynced{}, root, 1, parts))
		c, err := Open(Dir(root, 1))
		fatal.If(t, err)
		c.held = rapid.SampledFrom([]int64{0, 100, heldBytes}).Draw(t, "held")
		got, err := load(c)
		fatal.If(t, err)
		sameContent(t, got, parts)
		fatal.If(t, c.Verify(t.Context()))
		fatal.If(t, os.RemoveAll(root))
	})
}

func TestHeldFilesStayOpen(t *testing.T) {
	dir := mustSave(t, t.TempDir(), 3, sample("x"))
	c, err := Open(dir)
	fatal.If(t, err)
	outer, inner := c.Hold(), c.Hold()
	if _, err := load(c); err != nil {
		t.Fatal(err)
	}
	fatal.If(t, os.RemoveAll(dir))
	inner()
	mustEqual(t, c, sample("x"))
	outer()
	if _, err := load(c); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after the last release: %v, want that the files do not exist", err)
	}
}

// TestReadersMustConsumeEverything: a reader that does not consume its section is an error.
func TestReadersMustConsumeEverything(t *testing.T) {
	root := t.TempDir()
	c, err := Open(mustSave(t, root, 1, sample("x")))
	fatal.If(t, err)
	sentinel := errors.New("wrong shape")
	for _, held := range []int64{0, heldBytes} {
		c.held = held
		err := c.Read("dense", func(r io.Reader) error {
			_, err := io.ReadFull(r, make([]byte, 4))
			return err
		})
		if err == nil || !strings.Contains(err.Error(), "left the last 5 of 9 bytes unread") ||
			!strings.Contains(err.Error(), "rank-0000-of-0002.wck") || !strings.Contains(err.Error(), `"dense"`) {
			t.Errorf("held %d: %v", held, err)
		}
		if err := c.Read("dense", func(io.Reader) error { return sentinel }); !errors.Is(err, sentinel) {
			t.Errorf("held %d: %v", held, err)
		}
	}
}

// TestDamageIsKnownBeforeItIsTrusted: the error of a damaged section names the damage, and small
// sections are checked before they are passed to the reader.
func TestDamageIsKnownBeforeItIsTrusted(t *testing.T) {
	dir := mustSave(t, t.TempDir(), 1, sample("x"))
	c, err := Open(dir)
	fatal.If(t, err)
	overwrite(t, filepath.Join(dir, partName(0, 2)), headSize+2, '!') // within "dense"
	called := false
	err = c.Read("dense", func(r io.Reader) error { called = true; return nil })
	if called || err == nil || !strings.Contains(err.Error(), "checksum of the payload") {
		t.Fatalf("called %v, error %v", called, err)
	}
	c.held = 0
	choke := errors.New("cannot decode")
	if err := c.Read("dense", func(io.Reader) error { return choke }); !errors.Is(err, choke) || !strings.Contains(err.Error(), "checksum of the payload") {
		t.Fatalf("the error of a damaged section must name the damage: %v", err)
	}
	if err := c.Read("sparse/user/0000", func(r io.Reader) error { _, err := io.ReadAll(r); return err }); err != nil {
		t.Fatalf("the other sections are intact: %v", err)
	}
	fatal.If(t, os.Truncate(filepath.Join(dir, partName(0, 2)), headSize+4))
	for _, held := range []int64{0, heldBytes} {
		c.held = held
		err := c.Read("dense", func(r io.Reader) error { _, err := io.ReadAll(r); return err })
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("a file truncated after Open: %v", err)
		}
	}
}

func overwrite(t testing.TB, path string, at int64, c byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	fatal.If(t, err)
	if _, err := f.WriteAt([]byte{c}, at); err != nil {
		t.Fatal(err)
	}
	fatal.If(t, f.Close())
}

// TestWriterRefusesMisuse: calls in a wrong order and invalid names are rejected, and Discard
// removes the part.
func TestWriterRefusesMisuse(t *testing.T) {
	nothing := func(io.Writer) error { return nil }
	for _, tc := range []struct {
		what, want string
		do         func(w *Writer) error
	}{
		{"no name", "is empty", func(w *Writer) error { return w.Section("", nothing) }},
		{"long name", "at most 1024", func(w *Writer) error { return w.Section(strings.Repeat("n", 1025), nothing) }},
		{"not UTF-8", "is not UTF-8", func(w *Writer) error { return w.Section("\xff", nothing) }},
		{"control", "control character", func(w *Writer) error { return w.Section("a\nb", nothing) }},
		{"twice", "written twice", func(w *Writer) error {
			return errors.Join(w.Section("a", nothing), w.Section("a", nothing))
		}},
		{"nested", `"b" begins inside section "a"`, func(w *Writer) error {
			return w.Section("a", func(io.Writer) error { return w.Section("b", nothing) })
		}},
		{"close inside", "still being written", func(w *Writer) error {
			return w.Section("a", func(io.Writer) error { _, err := w.Close(); return err })
		}},
		{"late write", "after its function returned", func(w *Writer) error {
			var late io.Writer
			if err := w.Section("a", func(w io.Writer) error { late = w; return nil }); err != nil {
				return err
			}
			_, err := late.Write([]byte("x"))
			return err
		}},
		{"after discard", "was discarded", func(w *Writer) error { w.Discard(); return w.Section("a", nothing) }},
		{"close twice", "closed or discarded before", func(w *Writer) error {
			_, err := w.Close()
			_, again := w.Close()
			return errors.Join(err, again)
		}},
		{"after close", "after Close", func(w *Writer) error {
			_, err := w.Close()
			return errors.Join(err, w.Section("a", nothing))
		}},
		{"callback", "ran out of rows", func(w *Writer) error {
			err := w.Section("a", func(io.Writer) error { return errors.New("ran out of rows") })
			if _, cerr := w.Close(); cerr == nil || err == nil || cerr.Error() != err.Error() {
				return fmt.Errorf("Close after %v returned %v", err, cerr)
			}
			return err
		}},
	} {
		root := t.TempDir()
		w, err := create(unsynced{}, root, 3, 1, 2)
		fatal.If(t, err)
		err = tc.do(w)
		if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "part 1 of 2") {
			t.Errorf("%s: %v", tc.what, err)
		}
		w.Discard()
		w.Discard()
		if _, err := os.Stat(w.path); tc.want != "closed or discarded before" && tc.want != "after Close" && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: Discard did not remove the part: %v", tc.what, err)
		}
	}
	for _, bad := range [][3]int{{-1, 0, 1}, {1, 0, 0}, {1, 1, 1}, {1, -1, 1}, {1, 0, maxParts + 1}} {
		if _, err := Create(t.TempDir(), int64(bad[0]), bad[1], bad[2]); err == nil {
			t.Errorf("Create accepted step %d, part %d of %d", bad[0], bad[1], bad[2])
		}
	}
}

// TestCommitRefuses: a manifest that does not match the parts is rejected, and no checkpoint
// becomes visible.
func TestCommitRefuses(t *testing.T) {
	root := t.TempDir()
	parts := sample("x")
	var files []File
	for p := range parts {
		f, err := savePart(unsynced{}, root, 5, parts, p)
		fatal.If(t, err)
		files = append(files, f)
	}
	changed := func(edit func(f *File)) []File {
		c := slices.Clone(files)
		edit(&c[1])
		return c
	}
	for _, tc := range []struct {
		what, want string
		m          Manifest
	}{
		{"no files", "0 parts", Manifest{Step: 5}},
		{"one of two", `expected "rank-0000-of-0001.wck"`, Manifest{Step: 5, Files: files[:1]}},
		{"out of order", `expected "rank-0000-of-0002.wck"`, Manifest{Step: 5, Files: []File{files[1], files[0]}}},
		{"path", "expected", Manifest{Step: 5, Files: changed(func(f *File) { f.Name = "../" + f.Name })}},
		{"size", "the manifest has", Manifest{Step: 5, Files: changed(func(f *File) { f.Size++ })}},
		{"checksum", "were mixed", Manifest{Step: 5, Files: changed(func(f *File) { f.Directory++ })}},
		{"sections", "the manifest has", Manifest{Step: 5, Files: changed(func(f *File) { f.Sections++ })}},
		{"other step", "step 6", Manifest{Step: 6, Files: files}},
		{"bad JSON", "MANIFEST.json", Manifest{Step: 5, Files: files, Meta: map[string]json.RawMessage{"a": json.RawMessage("{")}}},
		{"large", "into a section", Manifest{Step: 5, Files: files, Meta: map[string]json.RawMessage{"a": json.RawMessage(`"` + strings.Repeat("x", maxManifest) + `"`)}}},
	} {
		err := commit(unsynced{}, root, tc.m)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q in it", tc.what, err, tc.want)
		}
	}
	if _, _, err := Latest(root); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("a rejected commit is visible: %v", err)
	}
	if err := commit(unsynced{}, root, Manifest{Step: 5, Files: files}); err != nil {
		t.Fatalf("the same parts with the right manifest: %v", err)
	}
	err := save(unsynced{}, root, 6, content{{"same": nil}, {"same": nil}})
	if err == nil || !strings.Contains(err.Error(), `section "same" is in rank-0000-of-0002.wck and in rank-0001-of-0002.wck`) {
		t.Fatalf("two ranks with one section: %v", err)
	}
	if err := Abandon(root, 6); err != nil || exists(tmpDir(root, 6)) {
		t.Fatalf("Abandon: %v", err)
	}
	if err := Abandon(root, 6); err != nil {
		t.Fatalf("Abandon without a checkpoint: %v", err)
	}
}

// TestAnotherWorldSizeLeavesNoStrangers: parts of an unfinished checkpoint with another number
// of parts are removed.
func TestAnotherWorldSizeLeavesNoStrangers(t *testing.T) {
	root := t.TempDir()
	if _, err := savePart(unsynced{}, root, 9, make(content, 4), 3); err != nil {
		t.Fatal(err)
	}
	dir := mustSave(t, root, 9, sample("x"))
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		t.Fatalf("%v in the checkpoint, %v", entries, err)
	}
}

// TestAProcessThatWasGivenUpCannotSpoilItsSuccessor: writes of an abandoned process do not
// change a part that was created again.
func TestAProcessThatWasGivenUpCannotSpoilItsSuccessor(t *testing.T) {
	root := t.TempDir()
	stale, err := create(unsynced{}, root, 1, 0, 2)
	fatal.If(t, err)
	dir := mustSave(t, root, 1, sample("x"))
	fatal.If(t, stale.Section("late", func(w io.Writer) error { _, err := w.Write(make([]byte, 4*bufferSize)); return err }))
	stale.f.Close()
	c, err := Open(dir)
	fatal.If(t, err)
	fatal.If(t, c.Verify(t.Context()))
}
