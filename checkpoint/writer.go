package checkpoint

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/zeebo/xxh3"
)

// bufferSize is the size of the buffer for small writes.
const bufferSize = 64 << 10

// usualSections is the approximate number of sections in a part of a small model.
const usualSections = 512

// File is the entry of one part in the manifest. Each rank gets the entry of its part from
// Close and sends it, as JSON or otherwise, to the rank that commits.
type File struct {
	Name      string `json:"name"`
	Size      int64  `json:"size"`
	Sections  int    `json:"sections"`
	Directory Sum    `json:"directory_checksum"` // of the directory of sections, which holds their checksums

	// Hosts names the hosts that hold the file, if they do not share the directory of the
	// checkpoint. Without hosts, every host that sees the checkpoint has the file.
	Hosts []string `json:"hosts,omitempty"`
}

// Writer writes one part. After the first error every call returns that error.
type Writer struct {
	disk     disk
	path     string
	who      string // "part 1 of 4"
	f        file   // nil once closed
	buf      *bufio.Writer
	hash     *xxh3.Hasher
	offset   int64
	sections []section
	names    map[string]bool
	writing  string // the section being written, if any
	done     bool   // Close succeeded
	err      error
}

// Create starts part `part` of `parts` of the checkpoint of a step, in a directory that is
// invisible until Commit. It replaces a file left by an earlier attempt.
//
//	w, err := checkpoint.Create(root, step, rank, size)
//	if err != nil { … }
//	defer w.Discard() // does nothing after a Close without error
//	err = w.Section("dense", model.Save)
//	…
//	file, err := w.Close()
func Create(root string, step int64, part, parts int) (*Writer, error) {
	return create(system{}, root, step, part, parts)
}

func create(d disk, root string, step int64, part, parts int) (*Writer, error) {
	if err := checkPlace(step, part, parts); err != nil {
		return nil, fmt.Errorf("checkpoint: create: %w", err)
	}
	w := &Writer{
		disk:  d,
		path:  filepath.Join(tmpDir(root, step), partName(part, parts)),
		who:   fmt.Sprintf("part %d of %d", part, parts),
		hash:  xxh3.New(),
		names: make(map[string]bool, usualSections),
	}
	f, err := d.Create(w.path)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: create: %s: %s: %w%s", w.who, w.path, withoutPath(w.path, err), advice(err))
	}
	w.f, w.buf = f, bufio.NewWriterSize(f, bufferSize)
	w.put(head{partVersion, uint32(part), uint32(parts), step}.encode())
	return w, nil
}

// Receive writes a part that another host has sent, with the name that Create gives it there, to
// the directory of a step that is not committed. It has its name only when write has succeeded and
// it is durable. After an error nothing is left of it.
func Receive(root string, step int64, name string, write func(io.Writer) error) error {
	d, to := system{}, filepath.Join(tmpDir(root, step), name)
	if name != filepath.Base(name) {
		return fmt.Errorf("checkpoint: receive: step %d: %q is not the name of a part", step, name)
	}
	part := to + ".copy"
	f, err := d.Create(part)
	if err == nil {
		if err = write(f); err == nil {
			err = f.Sync()
		}
		if err = errors.Join(err, f.Close()); err == nil {
			err = d.Rename(part, to)
		}
		if err != nil {
			d.Remove(part) // Clean tries again at the next start
		}
	}
	if err != nil {
		return fmt.Errorf("checkpoint: receive: step %d: %w%s", step, err, advice(err))
	}
	return nil
}

// Drop removes a part that Receive has written.
func Drop(root string, step int64, name string) error {
	return system{}.Remove(filepath.Join(tmpDir(root, step), filepath.Base(name)))
}

// put appends b to the file and stores the first error.
func (w *Writer) put(b []byte) {
	if w.err != nil {
		return
	}
	n, err := w.buf.Write(b)
	w.offset += int64(n)
	w.fail(err)
}

// fail stores the first error of the disk, with its place.
func (w *Writer) fail(err error) {
	if err != nil && w.err == nil {
		w.err = fmt.Errorf("checkpoint: write: %s: %s: near offset %d: %w%s", w.who, w.path, w.offset, withoutPath(w.path, err), advice(err))
	}
}

// flush makes all appended bytes durable.
func (w *Writer) flush() {
	if w.err == nil {
		w.fail(w.buf.Flush())
	}
	if w.err == nil {
		w.fail(w.f.Sync())
	}
}

// Section appends a section with the payload that write writes. Names are unique in a
// checkpoint: Section checks this within the part, Commit among the parts. An error of write
// makes the whole part unusable, as does a full disk.
func (w *Writer) Section(name string, write func(io.Writer) error) error {
	if w.err != nil {
		return w.err
	}
	if err := w.begin(name); err != nil {
		w.err = fmt.Errorf("checkpoint: section: %s: %s: %w", w.who, w.path, err)
		return w.err
	}
	start := w.offset
	w.hash.Reset()
	w.writing = name
	err := write(sectionWriter{w, name})
	w.writing = ""
	if w.err == nil && err != nil {
		w.err = fmt.Errorf("checkpoint: section: %s: %s: section %q: %w", w.who, w.path, name, err)
	}
	if w.err != nil {
		return w.err // an error of the disk takes precedence over the caller's error about it
	}
	w.names[name] = true
	w.sections = append(w.sections, section{name, start, w.offset - start, Sum(w.hash.Sum64())})
	return nil
}

func (w *Writer) begin(name string) error {
	switch {
	case w.f == nil:
		return fmt.Errorf("section %q comes after Close or Discard", name)
	case w.writing != "":
		return fmt.Errorf("section %q begins inside section %q", name, w.writing)
	case w.names[name]:
		return fmt.Errorf("section %q is written twice", name)
	case len(w.sections) == maxSections:
		return fmt.Errorf("section %q is one more than the %d that a part may have", name, maxSections)
	}
	return checkName(name)
}

// sectionWriter writes the payload of one section.
type sectionWriter struct {
	w    *Writer
	name string
}

func (s sectionWriter) Write(p []byte) (int, error) {
	w := s.w
	if w.err != nil {
		return 0, w.err
	}
	if w.writing != s.name {
		return 0, fmt.Errorf("checkpoint: section: %s: %s: section %q is written to after its function returned", w.who, w.path, s.name)
	}
	w.hash.Write(p) // never fails
	w.put(p)
	if w.err != nil {
		return 0, w.err
	}
	return len(p), nil
}

// Close writes the directory and makes the part durable. The part is not visible until
// Commit.
func (w *Writer) Close() (File, error) {
	if w.f == nil && w.err == nil {
		w.err = fmt.Errorf("checkpoint: close: %s: %s: closed or discarded before", w.who, w.path)
	}
	if w.writing != "" && w.err == nil {
		w.err = fmt.Errorf("checkpoint: close: %s: %s: section %q is still being written", w.who, w.path, w.writing)
	}
	dir := encodeDirectory(w.sections)
	if len(dir) > maxDirectory && w.err == nil {
		w.err = fmt.Errorf("checkpoint: close: %s: %s: the names of %d sections need a directory of %d bytes, at most %d are allowed",
			w.who, w.path, len(w.sections), len(dir), maxDirectory)
	}
	if w.err != nil {
		return File{}, w.err
	}
	sum := Sum(xxh3.Hash(dir))
	at := w.offset
	w.put(dir)
	w.flush()
	// Write the trailer when all bytes before it are durable: a rank that sees it may commit,
	// which makes the names durable before the directory is renamed.
	w.put(tail{at, int64(len(dir)), sum}.encode())
	w.flush()
	w.fail(w.f.Close())
	w.f = nil
	if w.err != nil {
		return File{}, w.err
	}
	w.done = true
	return File{Name: filepath.Base(w.path), Size: w.offset, Sections: len(w.sections), Directory: sum}, nil
}

// Discard abandons the part and removes its file. After a successful Close or another Discard
// it does nothing; Abandon removes finished parts.
func (w *Writer) Discard() {
	if w.done {
		return
	}
	w.done = true
	if w.f != nil {
		w.f.Close() // the data is not needed
		w.f = nil
	}
	if w.err == nil {
		w.err = fmt.Errorf("checkpoint: write: %s: %s: the part was discarded", w.who, w.path)
	}
	if err := w.disk.Remove(w.path); err != nil {
		w.err = errors.Join(w.err, err) // Clean will try again at the next start
	}
}
