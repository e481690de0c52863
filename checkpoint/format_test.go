package checkpoint

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// fixture was written by the first release of format version 1. It is never rewritten: a later
// version gets another fixture.
var fixture = filepath.Join("testdata", "v1", "step-000000007")

// TestVersion1StaysReadable: the fixture of version 1 can be read.
func TestVersion1StaysReadable(t *testing.T) {
	c, err := Open(fixture)
	fatal.If(t, err)
	fatal.If(t, c.Verify(t.Context()))
	mustEqual(t, c, sample("v1"))
	if m := c.Manifest(); m.Step != 7 || m.WorldSize != 2 || m.Time.Unix() != 1700000000 || string(m.Meta["run"]) != `"a<b"` {
		t.Fatalf("%+v", m)
	}
}

// TestWhatIsWrittenIsVersion1: a full checkpoint is written with the bytes of the fixture.
func TestWhatIsWrittenIsVersion1(t *testing.T) {
	dir := mustSave(t, t.TempDir(), 7, sample("v1"))
	for _, name := range []string{partName(0, 2), partName(1, 2), manifestName} {
		if want, got := read(t, filepath.Join(fixture, name)), read(t, filepath.Join(dir, name)); !bytes.Equal(want, got) {
			t.Errorf("%s differs from the fixture: a change of the format needs a new version\n%q\n%q", name, got, want)
		}
	}
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	fatal.If(t, err)
	return b
}

func write(t testing.TB, path string, b []byte) {
	t.Helper()
	fatal.If(t, os.WriteFile(path, b, 0o644))
}

// TestANewerVersionIsRejectedWithAdvice reads a file of a later format version. The error advises
// to use a later program.
func TestANewerVersionIsRejectedWithAdvice(t *testing.T) {
	dir := mustSave(t, t.TempDir(), 7, sample("x"))
	part := filepath.Join(dir, partName(1, 2))
	b := read(t, part)
	future := bytes.Clone(b)
	binary.LittleEndian.PutUint32(future[8:], partVersion+1)
	binary.LittleEndian.PutUint64(future[32:], xxh3.Hash(future[:32]))
	write(t, part, future)
	wantNewer(t, dir, partName(1, 2), partVersion)
	write(t, part, b)

	path := filepath.Join(dir, manifestName)
	text := read(t, path)
	covered := bytes.Replace(text[len(sumPrefix)+16:], []byte(`"format_version": 1`), []byte(`"format_version": 3`), 1)
	write(t, path, append([]byte(sumPrefix+Sum(xxh3.Hash(covered)).String()), covered...))
	wantNewer(t, dir, manifestName, formatVersion)
}

func wantNewer(t *testing.T, dir, name string, newest int) {
	t.Helper()
	_, err := Open(dir)
	want := fmt.Sprintf("format version %d, this program reads up to %d: use the program that wrote it", newest+1, newest)
	if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), want) {
		t.Fatal(err)
	}
}

// verify opens dir and reads all of it.
func verify(ctx context.Context, dir string) error {
	c, err := Open(dir)
	if err != nil {
		return err
	}
	return c.Verify(ctx)
}

// TestEveryCutAndEveryFlip changes each byte of each file in turn, and truncates each file after
// each byte. Every change must be detected and attributed to its file.
func TestEveryCutAndEveryFlip(t *testing.T) {
	root := t.TempDir()
	mustSave(t, root, 6, sample("y"))
	dir := mustSave(t, root, 7, sample("x"))
	changes := 0
	for _, name := range []string{partName(0, 2), partName(1, 2), manifestName} {
		path := filepath.Join(dir, name)
		whole := read(t, path)
		try := func(what string, i int, b []byte) {
			changes++
			write(t, path, b)
			err := verify(t.Context(), dir)
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Fatalf("%s: byte %d %s: %v", name, i, what, err)
			}
			if changes%50 != 0 {
				return
			}
			c, refused, err := Latest(root, func(c *Checkpoint) error { return c.Verify(t.Context()) })
			if err != nil || c.Step() != 6 || len(refused) != 1 || !strings.Contains(refused[0].Error(), name) {
				t.Fatalf("%s: byte %d %s: Latest returned %v, rejected %v", name, i, what, err, refused)
			}
		}
		for i := range whole {
			for _, mask := range []byte{0x01, 0x20} {
				b := bytes.Clone(whole)
				b[i] ^= mask
				try("flipped", i, b)
			}
			try("is where it was cut", i, whole[:i])
		}
		try("was appended", len(whole), append(bytes.Clone(whole), 0))
		write(t, path, whole)
		fatal.If(t, verify(t.Context(), dir))
	}
	t.Logf("%d changes", changes)
}

// TestAMissingFile: a missing file is an error that names it.
func TestAMissingFile(t *testing.T) {
	for _, name := range []string{partName(0, 2), partName(1, 2), manifestName} {
		dir := mustSave(t, t.TempDir(), 7, sample("x"))
		fatal.If(t, os.Remove(filepath.Join(dir, name)))
		if _, err := Open(dir); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPartsOfTwoCheckpointsDoNotMix: a part of another checkpoint is rejected.
func TestPartsOfTwoCheckpointsDoNotMix(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	for name, other := range map[string]string{
		"another run":  mustSave(t, b, 7, sample("z")),
		"another step": mustSave(t, b, 8, sample("x")),
	} {
		dir := mustSave(t, a, 7, sample("x"))
		write(t, filepath.Join(dir, partName(1, 2)), read(t, filepath.Join(other, partName(1, 2))))
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "were mixed") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestVerifyNamesEveryFaultAndStops: Verify reports every damaged section and ends with its
// context.
func TestVerifyNamesEveryFaultAndStops(t *testing.T) {
	dir := mustSave(t, t.TempDir(), 7, sample("x"))
	c, err := Open(dir)
	fatal.If(t, err)
	overwrite(t, filepath.Join(dir, partName(0, 2)), headSize, '!')
	overwrite(t, filepath.Join(dir, partName(1, 2)), headSize, '!')
	err = c.Verify(t.Context())
	if err == nil || !strings.Contains(err.Error(), `rank-0000-of-0002.wck: section "dense" (9 bytes at offset 40)`) ||
		!strings.Contains(err.Error(), `rank-0001-of-0002.wck: section "sparse/item/0001"`) {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Verify(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// FuzzDirectory: a directory of sections that is accepted describes the bytes of the file.
func FuzzDirectory(f *testing.F) {
	f.Add(encodeDirectory(nil), int64(headSize))
	f.Add(encodeDirectory([]section{{"a", headSize, 5, 1}, {"b/c", headSize + 5, 0, 2}}), int64(headSize+5))
	f.Add(encodeDirectory([]section{{"a gap before it", headSize + 1, 5, 1}}), int64(headSize+6))
	f.Add(encodeDirectory([]section{{"at a wrong offset", headSize + 1, 5, 1}}), int64(headSize+5))
	f.Add(encodeDirectory([]section{{"a gap behind it", headSize, 5, 1}}), int64(headSize+6))
	f.Add(encodeDirectory([]section{{"too long", headSize, 1 << 62, 1}, {"and too long", 1<<62 + headSize, 1 << 62, 1}}), int64(headSize+6))
	f.Add([]byte("\xff\xff\xff\xff"), int64(1<<62))
	f.Fuzz(func(t *testing.T, b []byte, at int64) {
		if at < headSize { // parseTail rejects these
			return
		}
		sections, err := parseDirectory(b, at)
		if err != nil {
			return
		}
		end := int64(headSize)
		for _, s := range sections {
			if s.offset != end || s.length < 0 || checkName(s.name) != nil {
				t.Fatalf("%+v at %d", s, end)
			}
			end += s.length
		}
		if end != at || !bytes.Equal(encodeDirectory(sections), b) {
			t.Fatalf("%d bytes of payload up to %d, or a different directory", end, at)
		}
	})
}

// FuzzTail: a trailer that is accepted lies within the file.
func FuzzTail(f *testing.F) {
	f.Add(tail{40, 4, 7}.encode(), int64(40+4+tailSize))
	f.Add(tail{1 << 62, 1 << 62, 7}.encode(), int64(1<<62))
	f.Fuzz(func(t *testing.T, b []byte, size int64) {
		if len(b) != tailSize || size < headSize+4+tailSize {
			return // Manifest.check rejects these
		}
		tl, err := parseTail(b, size)
		if err == nil && (tl.offset < headSize || tl.length < 4 || tl.length > maxDirectory || tl.offset+tl.length != size-tailSize) {
			t.Fatalf("%+v in a file of %d bytes", tl, size)
		}
	})
}

// FuzzManifest: a manifest that is accepted can be encoded and parsed again.
func FuzzManifest(f *testing.F) {
	m := Manifest{FormatVersion: 1, WorldSize: 1, Files: []File{{Name: partName(0, 1), Size: 100, Sections: 1, Directory: 5, Hosts: []string{"a"}}}}
	text, err := m.encode()
	fatal.If(f, err)
	f.Add(text[len(sumPrefix)+16:])
	m.FormatVersion, m.Step, m.Base = 2, 9, &Link{7, 5}
	if text, err = m.encode(); err != nil {
		f.Fatal(err)
	}
	f.Add(text[len(sumPrefix)+16:])
	f.Add([]byte(`","format_version":1,"world_size":1000000000,"files":null}`))
	f.Fuzz(func(t *testing.T, covered []byte) {
		// The checksum is corrected, because otherwise all inputs would be rejected.
		b := append([]byte(sumPrefix+Sum(xxh3.Hash(covered)).String()), covered...)
		m, _, err := parseManifest(b)
		if err != nil {
			return
		}
		again, err := m.encode()
		if err != nil {
			return // JSON can read this time but not write it
		}
		if _, _, err := parseManifest(again); err != nil {
			t.Fatalf("%q was read, but its encoding %q cannot be: %v", b, again, err)
		}
	})
}
