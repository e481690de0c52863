package export

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/zeebo/xxh3"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// section is a part of a file with its checksum.
type section struct {
	Name     string         `json:"name"`
	Length   int64          `json:"length"`
	Checksum checkpoint.Sum `json:"checksum"`
}

// file is the manifest's entry of a file: its sections in order, without gaps.
type file struct {
	Name     string    `json:"name"`
	Sections []section `json:"sections"`
}

// size returns the total size of the sections, -1 if it overflows int64.
func (f *file) size() (n int64) {
	for _, s := range f.Sections {
		if n += s.Length; s.Length < 0 || n < 0 {
			return -1
		}
	}
	return n
}

// disk contains all operations of this package that change the file system. Tests replace
// it by a full one.
type disk interface {
	Create(path string) (io.WriteCloser, error)
	Sync(path string) error // makes the bytes of a file, or the names in a directory, durable
	Rename(from, to string) error
}

type system struct{}

func (system) Create(path string) (io.WriteCloser, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err // not a nil *os.File in an interface
	}
	return f, nil
}

func (system) Sync(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil // some network file systems cannot sync directories and need not
	}
	return errors.Join(err, f.Close())
}

func (system) Rename(from, to string) error { return regular.Rename(from, to) }

// writer writes a file section by section. It keeps the first error; close returns it.
type writer struct {
	disk disk
	path string
	to   io.WriteCloser
	buf  *bufio.Writer
	hash *xxh3.Hasher
	n    int64 // bytes of the section
	file file
	err  error
}

func newWriter(d disk, dir, name string) *writer {
	w := &writer{disk: d, path: filepath.Join(dir, name), hash: xxh3.New(), file: file{Name: name}}
	if w.to, w.err = d.Create(w.path); w.err == nil {
		w.buf = bufio.NewWriterSize(w.to, hugePage)
	}
	return w
}

// hugePage is the size of the pages that the processor maps with one entry. Linux keeps a file in
// such pages if it is written in multiples of them. A server then has fewer misses of the TLB.
const hugePage = 2 << 20

// Write appends to the current section.
func (w *writer) Write(b []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	_, _ = w.hash.Write(b) // a hash never fails
	n, err := w.buf.Write(b)
	w.n += int64(n)
	w.err = err
	return n, err
}

// end ends the section, padded with zeros to a multiple of align bytes.
func (w *writer) end(name string, align int64) {
	if rest := w.n % align; rest > 0 {
		_, _ = w.Write(make([]byte, align-rest)) // the error is kept
	}
	w.file.Sections = append(w.file.Sections, section{name, w.n, checkpoint.Sum(w.hash.Sum64())})
	w.hash.Reset()
	w.n = 0
}

// close makes the file durable.
func (w *writer) close() (file, error) {
	if w.to != nil {
		if w.err == nil {
			w.err = w.buf.Flush()
		}
		if err := w.to.Close(); w.err == nil {
			w.err = err
		}
		if w.err == nil {
			w.err = w.disk.Sync(w.path)
		}
	}
	if w.err != nil {
		return file{}, fmt.Errorf("%s: %w", w.file.Name, w.err)
	}
	return w.file, nil
}

// whole writes a file of one section.
func whole(d disk, dir, name string, write func(io.Writer) error) (file, error) {
	w := newWriter(d, dir, name)
	if w.err == nil {
		if err := write(w); w.err == nil {
			w.err = err
		}
	}
	w.end("content", 1)
	return w.close()
}

// content writes b.
func content(b []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	}
}

// put is Write without a count.
func (w *writer) put(b []byte) error {
	_, err := w.Write(b)
	return err
}
