package checkpoint

import (
	"fmt"
	"io"
	"os"
	"slices"
)

// slabBytes is the unit in which a Buffer allocates memory.
const slabBytes = 1 << 20

// Buffer holds a part, or a piece of one, in memory. Sections are copied to it while the state
// does not change, and written to a file later. It reuses its memory. The zero value is
// empty. A Buffer must be used by one goroutine at a time.
type Buffer struct {
	slabs    [][]byte // all full except the last one in use
	used     int      // number of slabs in use
	sections []buffered
}

type buffered struct {
	name   string
	length int64
}

// Reset removes the sections.
func (d *Buffer) Reset() {
	for i := range d.slabs {
		d.slabs[i] = d.slabs[i][:0]
	}
	d.used, d.sections = 0, d.sections[:0]
}

// Reserve allocates memory for the given number of bytes of sections, so that copying them
// later does not allocate.
func (d *Buffer) Reserve(bytes int) {
	for n := len(d.slabs); n*slabBytes < bytes; n++ {
		slab := make([]byte, slabBytes)
		for at := 0; at < min(bytes-n*slabBytes, slabBytes); at += os.Getpagesize() {
			slab[at] = 1 // the system provides a page when it is first written
		}
		d.slabs = append(d.slabs, slab[:0])
	}
	d.sections = slices.Grow(d.sections, 1024)
}

// Section appends a section, as Writer.Section does. After an error only Reset may be called.
func (d *Buffer) Section(name string, write func(io.Writer) error) error {
	before := d.Size()
	if err := write(draftWriter{d}); err != nil {
		return fmt.Errorf("checkpoint: buffer: section %q: %w", name, err)
	}
	d.sections = append(d.sections, buffered{name, d.Size() - before})
	return nil
}

// Size returns the number of bytes of all sections.
func (d *Buffer) Size() int64 {
	if d.used == 0 {
		return 0
	}
	return int64(d.used-1)*slabBytes + int64(len(d.slabs[d.used-1]))
}

type draftWriter struct{ *Buffer }

func (d draftWriter) Write(b []byte) (int, error) {
	for left := b; len(left) > 0; {
		if d.used == 0 || len(d.slabs[d.used-1]) == slabBytes {
			if d.used == len(d.slabs) {
				d.slabs = append(d.slabs, make([]byte, 0, slabBytes))
			}
			d.used++
		}
		slab := &d.slabs[d.used-1]
		n := min(len(left), slabBytes-len(*slab))
		*slab, left = append(*slab, left[:n]...), left[n:]
	}
	return len(b), nil
}

// Write writes the sections to a part. The pieces of a part are written one after the other.
func (d *Buffer) Write(w *Writer) error {
	slab, at := 0, 0
	for _, s := range d.sections {
		err := w.Section(s.name, func(out io.Writer) error {
			for left := s.length; left > 0; {
				n := min(left, int64(slabBytes-at))
				if _, err := out.Write(d.slabs[slab][at : at+int(n)]); err != nil {
					return err
				}
				if left, at = left-n, at+int(n); at == slabBytes {
					slab, at = slab+1, 0
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
