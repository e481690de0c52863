package record

import "io"

// Input reads records of a set. It has one file open at a time. It belongs to one
// goroutine.
type Input struct {
	of      *Set
	Reader  Records
	opened  int // file that src is, if src is not nil
	Content Content
}

// NewInput reads records with the fields of these names.
func (s *Set) NewInput(names []string) *Input {
	return &Input{of: s, Reader: s.Format.Records(names)}
}

// Close gives back what is open.
func (in *Input) Close() {
	if c, ok := in.Reader.(io.Closer); ok {
		c.Close()
	}
	if in.Content != nil {
		in.Content.Close()
		in.Content = nil
	}
}

// OpenFile opens a file unless it is open.
func (in *Input) OpenFile(i int) error {
	if in.Content != nil && in.opened == i {
		return in.of.Files[i].unchanged(in.Content)
	}
	src, err := in.of.Files[i].Open() // before the last is closed: partitions of a topic share connections
	in.Close()
	in.opened, in.Content = i, src
	return err
}
