package record

import "io"

// Input reads records of a set. At most one file is open. It belongs to one goroutine.
type Input struct {
	of      *Set
	Reader  Records
	opened  int // index of the file open as Content
	Content Content
}

// NewInput returns an Input of records with the fields of these names.
func (s *Set) NewInput(names []string) *Input {
	return &Input{of: s, Reader: s.Format.Records(names)}
}

// Close closes the open file and the reader.
func (in *Input) Close() {
	if c, ok := in.Reader.(io.Closer); ok {
		c.Close()
	}
	if in.Content != nil {
		in.Content.Close()
		in.Content = nil
	}
}

// OpenFile opens a file unless it is open already.
func (in *Input) OpenFile(i int) error {
	if in.Content != nil && in.opened == i {
		return in.Unchanged()
	}
	src, err := in.of.Files[i].Open() // before closing the previous one: partitions of a topic share connections
	in.Close()
	in.opened, in.Content = i, src
	return err
}

// Unchanged returns an error if the open file has changed since the set was opened. It is called after
// a file is read, and if it cannot be read, which may be because it has changed.
func (in *Input) Unchanged() error { return in.of.Files[in.opened].unchanged(in.Content) }
