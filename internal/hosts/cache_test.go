package hosts

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestUnpack: a program is stored completely or not at all.
func TestUnpack(t *testing.T) {
	i, dir := image(t), t.TempDir()
	packed, err := i.Packed()
	fatal.If(t, err)
	at := filepath.Join(dir, "prog")
	if err := Unpack(bytes.NewReader(packed[:len(packed)-4]), at, i.Hash); err == nil {
		t.Error("half a program was accepted")
	}
	if err := Unpack(bytes.NewReader(packed), at, strings.Repeat("0", 64)); err == nil || !strings.Contains(err.Error(), i.Hash) {
		t.Errorf("another program was accepted: %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("%v was not removed", left)
	}
	for range 2 { // the second one replaces the first
		fatal.If(t, Unpack(bytes.NewReader(packed), at, i.Hash))
		if out, err := exec.Command(at, "it").Output(); err != nil || string(out) != "started with it\n" {
			t.Errorf("%q, %v", out, err)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("%v was not removed", left)
	}
	if got, err := Hash(at); err != nil || got != i.Hash {
		t.Error(got, err)
	}
	if info, err := os.Stat(at); err != nil || info.Mode().Perm() != 0o700 {
		t.Error(info.Mode(), err)
	}
}

// TestPackedParts: gzip and Unpack read a program of several parts.
func TestPackedParts(t *testing.T) {
	dir := t.TempDir()
	program := bytes.Repeat([]byte("a program "), packedPart/4)
	path, at := filepath.Join(dir, "program"), filepath.Join(dir, "copy")
	fatal.If(t, os.WriteFile(path, program, 0o700))
	i, err := NewImage(path)
	fatal.If(t, err)
	packed, err := i.Packed()
	fatal.If(t, err)
	fatal.If(t, Unpack(bytes.NewReader(packed), at, i.Hash))
	gunzip := exec.Command("gzip", "-dc")
	gunzip.Stdin = bytes.NewReader(packed)
	if out, err := gunzip.Output(); err != nil || !bytes.Equal(out, program) {
		t.Errorf("gzip returns %d of %d bytes: %v", len(out), len(program), err)
	}
	fatal.If(t, os.WriteFile(path, []byte("another program"), 0o700))
	changed := &Image{Path: path, Hash: i.Hash}
	if _, err := changed.Packed(); err == nil || !strings.Contains(err.Error(), "has changed") {
		t.Errorf("a program that has changed: %v", err)
	}
}

// TestFind: the program of the host is used if it is the same. Otherwise it is taken from the
// cache or sent.
func TestFind(t *testing.T) {
	i, home, dir := image(t), t.TempDir(), t.TempDir()
	find := func(path string, ship Ship, want string, ok bool) {
		t.Helper()
		got, found, err := Find(home, dir, path, i.Hash, ship)
		if err != nil || got != want || found != ok {
			t.Errorf("%s %s: %s %t %v, want %s", path, ship, got, found, err, want)
		}
	}
	cached := Cached(home, i.Hash, "prog")
	find(i.Path, Auto, i.Path, true)
	find(i.Path, Never, i.Path, true)
	find("./prog", Auto, cached, false)
	fatal.If(t, os.WriteFile(cached, []byte(program), 0o700))
	find("./prog", Auto, cached, true)
	find("./prog", Always, cached, false)
	fatal.If(t, os.WriteFile(filepath.Join(dir, "prog"), []byte("another"), 0o700))
	find("./prog", Auto, cached, true)
	if _, _, err := Find(home, dir, "./prog", i.Hash, Never); err == nil || !strings.Contains(err.Error(), "differs") {
		t.Error(err)
	}
}

// TestPrune keeps the two latest files, the files of the last hour, and what is no file of the
// cache.
func TestPrune(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "wdlrun", "bin")
	fatal.If(t, os.MkdirAll(bin, 0o700))
	now := time.Now()
	add := func(name string, age time.Duration) {
		path := filepath.Join(bin, name)
		fatal.If(t, os.WriteFile(path, nil, 0o700))
		os.Chtimes(path, now.Add(-age), now.Add(-age))
	}
	for n := range 5 {
		add(fmt.Sprintf("%064d", n), time.Duration(n)*40*time.Minute)
	}
	add(".broken", 2*time.Hour)
	add(".arriving", time.Minute)
	add("notes", 9*time.Hour)
	Prune(bin)
	var left []string
	files, _ := os.ReadDir(bin)
	for _, f := range files {
		left = append(left, strings.TrimLeft(f.Name(), "0"))
	}
	if got := strings.Join(left, " "); got != ".arriving  1 notes" {
		t.Errorf("left: %q", got)
	}
}

// TestVerify: a damaged file of the cache is removed, and no other file.
func TestVerify(t *testing.T) {
	dir := t.TempDir()
	bad, other := filepath.Join(dir, strings.Repeat("0", 64)), filepath.Join(dir, "wdlrun")
	for _, path := range []string{bad, other} {
		fatal.If(t, os.WriteFile(path, []byte("x"), 0o700))
	}
	if err := Verify(bad); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Error(err)
	}
	if err := Verify(other); err != nil {
		t.Error(err)
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 || files[0].Name() != "wdlrun" {
		t.Error(files)
	}
}
