package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestDraftWritesTheSameFile: a part written through a Buffer has the bytes of one written
// directly, even when memory is reused.
func TestDraftWritesTheSameFile(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var d Buffer
	for round, sizes := range [][]int{{3 * slabBytes, 0, 5}, {slabBytes - 1, 1, slabBytes, 7}, {1}} {
		d.Reset()
		d.Reserve(round * slabBytes)
		roots := [2]string{t.TempDir(), t.TempDir()}
		direct, err := Create(roots[0], 3, 0, 1)
		fatal.If(t, err)
		later, err := Create(roots[1], 3, 0, 1)
		fatal.If(t, err)
		for i, n := range sizes {
			b := make([]byte, n)
			for j := range b {
				b[j] = byte(rng.Uint32())
			}
			write := func(w io.Writer) error {
				for left := b; len(left) > 0; { // written in pieces
					k := min(len(left), 100_000)
					if _, err := w.Write(left[:k]); err != nil {
						return err
					}
					left = left[k:]
				}
				return nil
			}
			name := string(rune('a' + i))
			fatal.If(t, errors.Join(direct.Section(name, write), d.Section(name, write)))
			clear(b) // the caller reuses its memory
			if d.Size() == 0 && n > 0 {
				t.Error("the buffer holds no data")
			}
			for j := range b {
				b[j] = byte(i)
			}
		}
		fatal.If(t, d.Write(later))
		var files [2][]byte
		for i, w := range []*Writer{direct, later} {
			if _, err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if files[i], err = os.ReadFile(w.path); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(files[0], files[1]) {
			t.Errorf("round %d: the files of %d and %d bytes differ", round, len(files[0]), len(files[1]))
		}
	}
}

// TestWritten: Written waits for parts without a trailer, and its result can be committed.
func TestWritten(t *testing.T) {
	root, parts := t.TempDir(), sample("x")
	first, err := savePart(unsynced{}, root, 5, parts, 0)
	fatal.If(t, err)
	w, err := Create(root, 5, 1, len(parts))
	fatal.If(t, err)
	fatal.If(t, w.Section("other", func(out io.Writer) error { _, err := out.Write([]byte("x")); return err }))
	fatal.If(t, w.buf.Flush())
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := Written(short, root, 5, len(parts)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("an unfinished part counts as written: %v", err)
	}
	closed := make(chan File)
	go func() {
		f, err := w.Close()
		if err != nil {
			t.Error(err)
		}
		closed <- f
	}()
	files, err := Written(t.Context(), root, 5, len(parts))
	if second := <-closed; err != nil || !reflect.DeepEqual(files, []File{first, second}) {
		t.Fatalf("%+v, %v; the ranks reported %+v and %+v", files, err, first, second)
	}
	fatal.If(t, Commit(root, Manifest{Step: 5, Files: files}))
}

// TestReservedMemoryIsUsed: sections that fit in reserved memory allocate nothing.
func TestReservedMemoryIsUsed(t *testing.T) {
	var d Buffer
	d.Reserve(slabBytes + 1)
	b, slabs := make([]byte, 2*slabBytes), len(d.slabs)
	write := func(w io.Writer) error { _, err := w.Write(b); return err }
	if err := d.Section("all of it", write); err != nil || slabs != 2 || len(d.slabs) != slabs || d.Size() != int64(len(b)) {
		t.Errorf("%v: %d bytes in %d slabs, want the %d reserved ones", err, d.Size(), len(d.slabs), slabs)
	}
	d.Reserve(1)
	if len(d.slabs) != slabs {
		t.Errorf("%d slabs after reserving memory that was already there", len(d.slabs))
	}
}
