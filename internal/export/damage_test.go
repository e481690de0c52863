package export_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/export"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
	"github.com/wdlrun/wdlrun/internal/train"
	"github.com/wdlrun/wdlrun/trace"
)

// small trains a model of a few bytes.
func small(t testing.TB) train.Trained {
	t.Helper()
	dir := t.TempDir()
	var b strings.Builder
	b.WriteString("color,size,click\n")
	for i := range 60 {
		fmt.Fprintf(&b, "%c,%d,%d\n", 'a'+i%7, i%5, i%3%2)
	}
	csv := filepath.Join(dir, "clicks.csv")
	fatal.If(t, os.WriteFile(csv, []byte(b.String()), 0o644))
	c, err := config.Parse("small.yaml", []byte(`
data: {train: [`+csv+`], header: true}
label: {field: click, positive: ["1"]}
features:
  - {field: color, encode: vocabulary}
  - {field: size, encode: standardise}
model: {embedding_dim: 2, hidden: [2]}
train: {epochs: 1, batch: 20}
`))
	fatal.If(t, err)
	r, err := train.NewJob(collective.New(mem.New(1, 2)[0]), trace.New(0), train.Options{Config: c, Out: dir}).Run(context.Background())
	fatal.If(t, err)
	m, err := train.OpenTrained(context.Background(), r.RunDir, func(line string) { t.Error(line) })
	fatal.If(t, err)
	return m
}

// TestDamagedModelsAreRejected: a model that is truncated at any byte, or with any byte
// changed, does not open. The error names the file.
func TestDamagedModelsAreRejected(t *testing.T) {
	m := small(t)
	r, err := export.Write(context.Background(), source(m), export.Options{Out: t.TempDir(), Name: "small", Version: -1})
	fatal.If(t, err)
	names, err := filepath.Glob(filepath.Join(r.Dir, "*"))
	if err != nil || len(names) != 6 {
		t.Fatalf("%v, %v", names, err)
	}
	every := patient.Size(17, 1) // odd, so that every bit of a byte is changed
	rejected := func(what, name string) {
		t.Helper()
		x, err := export.Open(r.Dir)
		if err == nil {
			x.Close()
			t.Fatalf("%s of %s: it opens", what, name)
		}
		if !strings.Contains(err.Error(), filepath.Base(name)) {
			t.Fatalf("%s of %s: %v", what, name, err)
		}
	}
	for _, name := range names {
		whole, err := os.ReadFile(name)
		fatal.If(t, err)
		put := func(b []byte) {
			t.Helper()
			fatal.If(t, os.WriteFile(name, b, 0o644))
		}
		for n := 0; n < len(whole); n += every {
			put(whole[:n])
			rejected(fmt.Sprintf("the first %d bytes", n), name)
			whole[n] ^= 1 << (n % 8)
			put(whole)
			rejected(fmt.Sprintf("another byte %d", n), name)
			whole[n] ^= 1 << (n % 8)
		}
		put(append(whole, 0))
		rejected("one byte more", name)
		fatal.If(t, os.Remove(name))
		rejected("absence", name)
		put(whole)
	}
	x, err := export.Open(r.Dir)
	fatal.If(t, err)
	x.Close()
}

// TestAFileOfAnOpenModelIsCutShort: reading a row of a table that was truncated after Open is
// an error that names the file.
func TestAFileOfAnOpenModelIsCutShort(t *testing.T) {
	r, err := export.Write(context.Background(), source(small(t)), export.Options{Out: t.TempDir(), Name: "small", Version: -1})
	fatal.If(t, err)
	m, err := export.Open(r.Dir)
	fatal.If(t, err)
	defer m.Close()
	queries := []step.Query{{Keys: []uint64{1}, Values: make([]float32, m.Manifest().Tables[0].Width)}}
	fatal.If(t, m.Read(queries))
	fatal.If(t, os.Truncate(filepath.Join(r.Dir, "table-0000.bin"), 0))
	if err := m.Read(queries); err == nil || !strings.Contains(err.Error(), "table-0000.bin: 0 bytes, the manifest has ") {
		t.Errorf("error %v", err)
	}
}

// TestFullDisks: after a failure of any operation of the disk, no version is visible and
// the error contains the cause.
func TestFullDisks(t *testing.T) {
	m := small(t)
	for n := 0; ; n++ {
		out := t.TempDir()
		disk := &fullDisk{left: n}
		_, err := export.Write(context.Background(), source(m), export.On(disk, export.Options{Out: out, Name: "small", Version: 3}))
		if err == nil {
			if n < 10 {
				t.Fatalf("only %d operations", n)
			}
			break
		}
		if !errors.Is(err, errFull) {
			t.Fatalf("operation %d: %v", n, err)
		}
		found, _ := os.ReadDir(filepath.Join(out, "small"))
		for _, f := range found {
			if f.Name() != ".lock" && !disk.renamed {
				t.Fatalf("operation %d leaves %s", n, f.Name())
			}
		}
	}
}

var errFull = errors.New("no space left on device")

// fullDisk fails after a number of operations.
type fullDisk struct {
	export.System
	left    int
	renamed bool
}

func (d *fullDisk) next() error {
	if d.left--; d.left < 0 {
		return errFull
	}
	return nil
}

func (d *fullDisk) Create(path string) (io.WriteCloser, error) {
	if err := d.next(); err != nil {
		return nil, err
	}
	f, err := d.System.Create(path)
	return &fullFile{f, d}, err
}

func (d *fullDisk) Sync(path string) error {
	if err := d.next(); err != nil {
		return err
	}
	return d.System.Sync(path)
}

func (d *fullDisk) Rename(from, to string) error {
	if err := d.next(); err != nil {
		return err
	}
	d.renamed = true
	return d.System.Rename(from, to)
}

type fullFile struct {
	io.WriteCloser
	d *fullDisk
}

func (f *fullFile) Write(b []byte) (int, error) {
	if err := f.d.next(); err != nil {
		n, _ := f.WriteCloser.Write(b[:len(b)/2])
		return n, err
	}
	return f.WriteCloser.Write(b)
}
