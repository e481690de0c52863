package save

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/sparse"
)

// partStore returns a store of many shards, and a step that changes the rows of most shards.
func partStore(t *testing.T) (s *sparse.Store, step func()) {
	t.Helper()
	s, err := sparse.Open(sparse.Local{}, sparse.Config{Shards: 64, Tables: []sparse.Table{{Name: "x", Parts: []sparse.Part{{Name: "p", Dim: 16}}}}})
	fatal.If(t, err)
	t.Cleanup(func() { s.Close() })
	bags := []sparse.Bags{{Offsets: []int32{0}}}
	for key := range uint64(3000) {
		bags[0].Values = append(bags[0].Values, key)
		bags[0].Offsets = append(bags[0].Offsets, int32(key+1))
	}
	l, n := s.NewLookup(), int64(0)
	return s, func() {
		t.Helper()
		n++
		grad := make([]float32, 3000*16)
		for i := range grad {
			grad[i] = float32(i%7) - 3
		}
		err := s.Pull(l, bags, true)
		if err == nil {
			l.PoolGrad(0, 0, grad, 16)
			err = errors.Join(s.Push(l), s.Apply(sparse.Step{N: n, Scale: 1, Rate: 1}))
		}
		fatal.If(t, err)
	}
}

// TestPartInTurns: a part copied in turns between steps has the bytes of a part written
// without steps in between.
func TestPartInTurns(t *testing.T) {
	s, step := partStore(t)
	step()
	step()
	roots := [2]string{t.TempDir(), t.TempDir()}
	w, err := checkpoint.Create(roots[0], 2, 0, 1)
	fatal.If(t, err)
	first := func(w interface {
		Section(string, func(io.Writer) error) error
	}) error {
		return w.Section("first", func(out io.Writer) error { _, err := out.Write(make([]byte, 3<<20)); return err })
	}
	fatal.If(t, first(w))
	for _, x := range s.Files().Sections() {
		fatal.If(t, w.Section(x.Name, func(out io.Writer) error { return s.Files().SaveShard(out, x.Table, x.Shard) }))
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}

	var memory [buffers]checkpoint.Buffer
	x := newPart(&memory, 0)
	done := make(chan error)
	go func() {
		_, err := x.write(func() (*checkpoint.Writer, error) { return checkpoint.Create(roots[1], 2, 0, 1) })
		done <- err
	}()
	x.begin(func(w *checkpoint.Buffer) (*sparse.Snapshot, error) {
		return s.Files().Snapshot(sparse.Everything), first(w)
	})
	turns := 0
	for ; turns < 10 && x.rest != nil; turns++ {
		step()
		x.turned = time.Now() // whose share is a section
		x.copySlice()
	}
	if turns < 10 {
		t.Errorf("%d turns were enough for 64 sections: they are too long", turns)
	}
	x.finish()
	fatal.If(t, <-done)
	var files [2][]byte
	for i, root := range roots {
		found, err := filepath.Glob(filepath.Join(root, ".tmp-*", "*.wck"))
		if err != nil || len(found) != 1 {
			t.Fatal(found, err)
		}
		if files[i], err = os.ReadFile(found[0]); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(files[0], files[1]) {
		t.Errorf("files of %d and %d bytes differ", len(files[0]), len(files[1]))
	}
	if x.copySlice(); x.rest != nil || !x.ended {
		t.Error("it did not end")
	}
}

// TestATurnTakesAShareOfAStep: other activities since the last turn, such as an evaluation,
// do not make the turn longer.
func TestATurnTakesAShareOfAStep(t *testing.T) {
	s, step := partStore(t)
	step()
	var memory [buffers]checkpoint.Buffer
	x := newPart(&memory, 1)
	sections := 0
	x.begin(func(*checkpoint.Buffer) (*sparse.Snapshot, error) { return s.Files().Snapshot(sparse.Everything), nil })
	written := make(chan struct{})
	go func() {
		defer close(written)
		x.write(func() (*checkpoint.Writer, error) { return checkpoint.Create(t.TempDir(), 1, 0, 1) })
	}()
	for x.rest != nil {
		x.turned = time.Now().Add(-time.Hour)
		x.copySlice()
		sections++
	}
	<-written
	if sections < 60 {
		t.Errorf("%d turns for 64 sections, each of which takes longer than a share of the step", sections)
	}
}

// TestPartMeanwhile: during other work the whole part is copied without turns, nothing is
// copied after that work has ended, and a part that cannot be written ends.
func TestPartMeanwhile(t *testing.T) {
	for _, full := range []bool{false, true} {
		s, step := partStore(t)
		step()
		var memory [buffers]checkpoint.Buffer
		x := newPart(&memory, 0)
		begin, done := make(chan struct{}), make(chan error)
		go func() {
			<-begin
			_, err := x.write(func() (*checkpoint.Writer, error) {
				if full {
					return nil, syscall.ENOSPC
				}
				return checkpoint.Create(t.TempDir(), 1, 0, 1)
			})
			done <- err
		}()
		x.begin(func(*checkpoint.Buffer) (*sparse.Snapshot, error) { return s.Files().Snapshot(sparse.Everything), nil })
		saver := &Saver{pending: &pending{part: x}}
		busy := <-x.free // with the other, which is not written yet, all there are
		end := saver.CopyInBackground()
		if end(); x.rest == nil {
			t.Error("all is taken though nothing could be written")
		}
		x.free <- busy
		step()
		end = saver.CopyInBackground()
		close(begin)
		if err := <-done; (err == nil) == full || full && !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("full disk %v: %v", full, err)
		}
		if end(); x.rest != nil || !x.ended {
			t.Error("it did not end")
		}
		saver.CopyInBackground()()
		step()
	}
}

// TestPartThatCannotBeWritten: a full disk, a failing copy or an abandoned job does not
// block.
func TestPartThatCannotBeWritten(t *testing.T) {
	torn := errors.New("torn")
	for name, c := range map[string]struct {
		create, copy error
		stop         bool
		want         error
	}{
		"full disk": {create: syscall.ENOSPC, want: syscall.ENOSPC},
		"torn copy": {copy: torn, want: torn},
		"given up":  {stop: true, want: errDecided},
	} {
		t.Run(name, func(t *testing.T) {
			s, step := partStore(t)
			step()
			var memory [buffers]checkpoint.Buffer
			x := newPart(&memory, 0)
			done := make(chan error)
			go func() {
				_, err := x.write(func() (*checkpoint.Writer, error) {
					if c.create != nil {
						return nil, c.create
					}
					return checkpoint.Create(t.TempDir(), 1, 0, 1)
				})
				done <- err
			}()
			x.begin(func(*checkpoint.Buffer) (*sparse.Snapshot, error) {
				if c.copy != nil {
					return nil, c.copy
				}
				return s.Files().Snapshot(sparse.Everything), nil
			})
			x.copySlice()
			if c.stop {
				x.end(errDecided)
			}
			x.finish()
			if err := <-done; !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			step()
		})
	}
}
