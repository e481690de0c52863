package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// full is a disk with space for a number of bytes.
type full struct {
	unsynced
	left *int
}

func (d full) Create(path string) (file, error) {
	f, err := d.unsynced.Create(path)
	return fullFile{f, path, d.left}, err
}

type fullFile struct {
	file
	path string
	left *int
}

func (f fullFile) Write(p []byte) (int, error) {
	n, err := f.file.Write(p[:min(len(p), *f.left)])
	*f.left -= n
	if err == nil && n < len(p) {
		err = &os.PathError{Op: "write", Path: f.path, Err: syscall.ENOSPC}
	}
	return n, err
}

// TestAFullDisk: whenever the disk becomes full, saving fails and leaves no part behind.
func TestAFullDisk(t *testing.T) {
	root := t.TempDir()
	mustSave(t, root, 1, sample("previous"))
	parts := content{{"big": make([]byte, bufferSize*3/2), "small": []byte("s")}, {"big too": make([]byte, bufferSize)}}
	failed := 0
	for room := 0; ; room += bufferSize / 7 {
		left := room
		err := save(full{left: &left}, root, 2, parts)
		if err == nil {
			break
		}
		failed++
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), tmpDir(root, 2)) || !strings.Contains(err.Error(), "free some space") {
			t.Fatalf("room for %d bytes: %v", room, err)
		}
		fatal.If(t, Abandon(root, 2))
		if entries, err := os.ReadDir(root); err != nil || len(entries) != 1 {
			t.Fatalf("room for %d bytes: %v was not removed, %v", room, entries, err)
		}
		c, refused, err := Latest(root)
		if err != nil || len(refused) != 0 || c.Step() != 1 {
			t.Fatal(c, refused, err)
		}
	}
	if failed < 10 {
		t.Fatalf("only %d attempts ran out of room", failed)
	}
	c, _, err := Latest(root)
	if err != nil || c.Step() != 2 {
		t.Fatal(c, err)
	}
	mustEqual(t, c, parts)
}

// TestARoomlessManifestFailsTheCommit: if there is no space for the manifest, the commit fails
// and can be repeated.
func TestARoomlessManifestFailsTheCommit(t *testing.T) {
	root := t.TempDir()
	parts, m := sample("x"), Manifest{Step: 1}
	for p := range parts {
		f, err := savePart(unsynced{}, root, 1, parts, p)
		fatal.If(t, err)
		m.Files = append(m.Files, f)
	}
	left := 10
	err := commit(full{left: &left}, root, m)
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), manifestName) {
		t.Fatal(err)
	}
	if err := commit(unsynced{}, root, m); err != nil { // some space was freed
		t.Fatal(err)
	}
}

// stubborn is a disk on which the second rename fails.
type stubborn struct {
	unsynced
	renames *int
}

func (d stubborn) Rename(from, to string) error {
	if *d.renames++; *d.renames == 2 {
		return syscall.EIO
	}
	return d.unsynced.Rename(from, to)
}

// TestAFailedReplacementChangesNothing: if replacing a checkpoint fails, the old one remains.
func TestAFailedReplacementChangesNothing(t *testing.T) {
	root := t.TempDir()
	mustSave(t, root, 1, sample("first"))
	renames := 0
	if err := save(stubborn{renames: &renames}, root, 1, sample("second")); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	c, err := Open(Dir(root, 1))
	fatal.If(t, err)
	mustEqual(t, c, sample("first"))
}

var errCrash = errors.New("the machine stopped")

// crashing is a disk that stops at operation number stop. It records which changes would then
// not be on the disk.
type crashing struct {
	stop, ops int
	graves    string
	names     []change       // changes of names that are not durable yet, in order
	data      map[string]int // for each file written since its last sync: the bytes that are durable
}

// change is a change to the names in a directory that is not durable yet.
type change struct {
	dir      string
	from, to string // undone by renaming to back to from, or by removing to if from is empty
}

func (d *crashing) step() bool { d.ops++; return d.ops < d.stop }

func (d *crashing) Create(path string) (file, error) {
	if !d.step() {
		return nil, errCrash
	}
	f, err := unsynced{}.Create(path)
	if err != nil {
		return nil, err
	}
	d.names = append(d.names, change{filepath.Dir(path), "", path})
	d.data[path] = 0
	return &crashingFile{d, f, path, 0}, nil
}

func (d *crashing) Rename(from, to string) error {
	if !d.step() {
		return errCrash
	}
	d.names = append(d.names, change{filepath.Dir(to), from, to})
	d.moved(from, to)
	return os.Rename(from, to)
}

// moved records the rename of all files below from.
func (d *crashing) moved(from, to string) {
	for path, n := range d.data {
		if rest, ok := strings.CutPrefix(path, from+"/"); ok {
			delete(d.data, path)
			d.data[to+"/"+rest] = n
		}
	}
	for i, c := range d.names {
		if c.dir == from {
			c.dir, c.to = to, to+strings.TrimPrefix(c.to, from)
			d.names[i] = c
		}
	}
}

func (d *crashing) Remove(path string) error {
	if !d.step() {
		return errCrash
	}
	if !exists(path) {
		return nil
	}
	grave := filepath.Join(d.graves, fmt.Sprint(d.ops))
	d.names = append(d.names, change{filepath.Dir(path), path, grave})
	delete(d.data, path)
	return os.Rename(path, grave)
}

func (d *crashing) Sync(dir string) error {
	if !d.step() {
		return errCrash
	}
	kept := d.names[:0]
	for _, c := range d.names {
		if c.dir != dir {
			kept = append(kept, c)
		}
	}
	d.names = kept
	return nil
}

type crashingFile struct {
	d    *crashing
	f    file
	path string
	n    int
}

func (f *crashingFile) Write(p []byte) (int, error) {
	if !f.d.step() {
		f.f.Write(p[:len(p)/2]) // a torn write
		return 0, errCrash
	}
	f.n += len(p)
	return f.f.Write(p)
}

func (f *crashingFile) Sync() error {
	if !f.d.step() {
		return errCrash
	}
	delete(f.d.data, f.path)
	return nil
}

func (f *crashingFile) Close() error {
	err := f.f.Close()
	if !f.d.step() {
		return errCrash
	}
	return err
}

// loseData truncates the files that were not synced. loseNames undoes changes to directories
// that were not synced. A file system may do either or both.
func (d *crashing) loseData(t *testing.T) {
	for path, safe := range d.data {
		if err := os.Truncate(path, int64(safe)); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

func (d *crashing) loseNames(t *testing.T) {
	for i := len(d.names) - 1; i >= 0; i-- {
		c := d.names[i]
		var err error
		if c.from == "" {
			err = os.RemoveAll(c.to)
		} else {
			err = os.Rename(c.to, c.from)
		}
		fatal.If(t, err)
	}
}

// work performs a part of a job: it saves step 200, saves it again with other content, and
// prunes. After each call it records what readers must find.
func work(d disk, root string, done func(tag string)) error {
	if _, err := clean(d, root); err != nil {
		return err
	}
	for _, tag := range []string{"new", "newer"} {
		if err := save(d, root, 200, sample(tag)); err != nil {
			return err
		}
		done(tag)
	}
	if err := new(Keeper).prune(d, root, 1, nil); err != nil {
		return err
	}
	done("newer")
	return nil
}

// TestACrashAtAnyOperation: after a crash at any operation of the disk, readers find a
// checkpoint that was committed, and saving works again.
func TestACrashAtAnyOperation(t *testing.T) {
	stop := 1
	for ; ; stop++ {
		finished := false
		for _, lose := range []string{"", "data", "names", "data names"} {
			finished = crashAt(t, stop, lose)
		}
		if finished {
			break
		}
	}
	if stop < 40 {
		t.Fatalf("only %d operations were counted, so the simulation is wrong", stop)
	}
	t.Logf("%d operations", stop-1)
}

// crashAt reports whether the work was complete before the crash.
func crashAt(t *testing.T, stop int, lose string) (finished bool) {
	root := t.TempDir()
	mustSave(t, root, 100, sample("old"))
	last := "old"
	d := &crashing{stop: stop, graves: t.TempDir(), data: map[string]int{}}
	err := work(d, root, func(tag string) { last = tag })
	if err != nil && !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	if strings.Contains(lose, "data") {
		d.loseData(t)
	}
	if strings.Contains(lose, "names") {
		d.loseNames(t)
	}
	where := fmt.Sprintf("crash at operation %d, lost %q", stop, lose)
	c, refused, lerr := Latest(root, func(c *Checkpoint) error { return c.Verify(t.Context()) })
	if lerr != nil || len(refused) != 0 {
		t.Fatalf("%s: %v, refused %v", where, lerr, refused)
	}
	wholeOnly(t, root, where)
	got, lerr := load(c)
	if lerr != nil {
		t.Fatalf("%s: %v", where, lerr)
	}
	order := []string{"old", "new", "newer"}
	found := ""
	for _, tag := range order {
		if bytes.Equal(got["dense"], []byte("weights "+tag)) {
			found = tag
			sameContent(t, got, sample(tag))
		}
	}
	if at(order, found) < at(order, last) {
		t.Fatalf("%s: found %q, although %q was committed", where, found, last)
	}
	restart(t, root, where, found)
	return err == nil
}

// wholeOnly checks that every directory with the name of a checkpoint contains one.
func wholeOnly(t *testing.T, root, where string) {
	t.Helper()
	found, err := List(root)
	fatal.If(t, err)
	for _, f := range found {
		if err := verify(t.Context(), f.Dir); err != nil {
			t.Fatalf("%s: %v", where, err)
		}
	}
}

func at(order []string, tag string) int {
	for i, t := range order {
		if t == tag {
			return i
		}
	}
	return -1
}

// restart cleans up after a crash and saves again, which must succeed.
func restart(t *testing.T, root, where, found string) {
	if _, err := clean(unsynced{}, root); err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	entries, err := os.ReadDir(root)
	fatal.If(t, err)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			t.Fatalf("%s: Clean left %s", where, e.Name())
		}
	}
	c, _, err := Latest(root)
	if err != nil {
		t.Fatalf("%s: after Clean: %v", where, err)
	}
	mustEqual(t, c, sample(found))
	mustSave(t, root, 200, sample("again"))
	if c, _, err = Latest(root); err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	mustEqual(t, c, sample("again"))
}
