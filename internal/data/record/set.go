package record

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/internal/data/kafka"
	"github.com/wdlrun/wdlrun/internal/data/schema"
)

// Set is a list of files of records in one format, with the names of their fields.
type Set struct {
	Source schema.Source
	Format Format
	Fields []string // nil: any name is possible
	Files  []File
	Blocks []Block
	drifts bool // the tables have different columns

	Unselected int // files that OpenSelected has left out
	blank      int // files without any line

	partitions []string // fields that folders give to records
}

// OpenSet opens the files that patterns name (paths, globs, folders and builtin:NAME) and
// reads the beginning of each. Every file has the same fields.
func OpenSet(src schema.Source, patterns []string) (*Set, error) {
	return openSet(src, patterns, func(files []File) ([]File, error) { return files, nil })
}

// openSet is OpenSet of the files that choose returns; it is called before they are read.
func openSet(src schema.Source, patterns []string, choose func([]File) ([]File, error)) (*Set, error) {
	if err := schema.Joined("source", src.Validate()); err != nil {
		return nil, err
	}
	files, err := Resolve(patterns)
	if err != nil {
		return nil, err
	}
	if files, err = choose(files); err != nil {
		return nil, err
	}
	return openFiles(src, files)
}

// openFiles reads the beginning of each file.
func openFiles(src schema.Source, files []File) (s *Set, err error) {
	s = &Set{Source: src, Files: files, partitions: PartitionNames(files)}
	if len(s.partitions) > 0 && !src.HasLayout() {
		s.Source.Fields = s.partitions // decoders of LibSVM and LibFFM know no other names
	}
	if s.Format, err = formatFor(s.Source, files); err != nil {
		return nil, err
	}
	if err := s.lookAll(); err != nil {
		return nil, err
	}
	if n := countBlocks(s.Files); n > MaxBlocks {
		return nil, fmt.Errorf("%d blocks of data, at most %d (16 TiB) are possible", n, MaxBlocks)
	}
	s.Blocks = cut(s.Files)
	return s, nil
}

// ErrNoLine means that a file has neither records nor a header.
var ErrNoLine = errors.New("every line is blank or a comment")

// lookAll reads the beginning of each file. Files without any line are left out, unless all are:
// programs that write parts leave some empty.
func (s *Set) lookAll() (first error) {
	all := s.Files
	s.Files = make([]File, 0, len(all))
	var log *kafka.Log
	for i := range all {
		s.Files = append(s.Files, all[i])
		err := s.Look(len(s.Files) - 1)
		if errors.Is(err, ErrNoLine) {
			s.Files, s.blank = s.Files[:len(s.Files)-1], s.blank+1
			first = cmp.Or(first, err)
			continue
		}
		if err != nil {
			return err
		}
		if next := all[i].Log; next != nil && next != log { // keep its connections for all files
			if err := next.Open(); err != nil {
				return err
			}
			defer next.Close()
			log = next
		}
	}
	if len(s.Files) == 0 {
		return first
	}
	return nil
}

// Uncut returns the error for a header that is not split, but that another delimiter would
// split into fields of the schema. Otherwise each of them would be reported as missing.
func (s *Set) Uncut(names []string) error {
	if len(s.Fields) != 1 || !s.Source.Header {
		return nil
	}
	header, used := s.Fields[0], string(NewDelimited(s.Source).Delim)
	for _, name := range names {
		for _, other := range Delimiters() {
			if name != header && slices.Contains(strings.Split(header, other), name) {
				return fmt.Errorf("%s: its header is one field, %q, because the delimiter is %q; the file seems to use %q: set data.delimiter",
					s.Files[0].Name, CutLong([]byte(header)), used, other)
			}
		}
	}
	return nil
}

// Look reads the beginning of file i.
func (s *Set) Look(i int) error {
	f := &s.Files[i]
	if f.Log == nil {
		if err := f.Begin(s.Source.FormatName()); err != nil {
			return err
		}
	}
	src, err := f.Open()
	if err != nil {
		return err
	}
	defer src.Close()
	names, err := s.Format.Look(f, src)
	if err != nil {
		return err
	}
	if names, err = s.carry(f, src, names); err != nil {
		return err
	}
	_, named := namingOf(s.Format)
	switch {
	case named && s.Source.Follow.On: // later files may have more
	case i == 0:
		s.Fields, f.columns = names, names
	case IsTable(s.Format):
		if f.columns = s.Files[0].columns; !slices.Equal(names, f.columns) { // else one list for all files
			s.Fields, f.columns, s.drifts = union(slices.Clip(s.Fields), names), names, true
		}
	case named:
		s.Fields = union(s.Fields, names)
	case s.Source.Header && !slices.Equal(names, s.Fields):
		return fmt.Errorf("%s: its header differs from the header of %s: %s, there: %s; write the same columns in the same order to all files",
			f.Name, s.Files[0].Name, strings.Join(names, ","), strings.Join(s.Fields, ","))
	}
	return nil
}

// union returns a, followed by the elements of b that are not in a.
func union(a, b []string) []string {
	known := make(map[string]bool, len(a)+len(b))
	for _, s := range a {
		known[s] = true
	}
	for _, s := range b {
		if !known[s] {
			known[s] = true
			a = append(a, s)
		}
	}
	return a
}

// Names returns the names of the files in their order.
func (s *Set) Names() []string {
	names := make([]string, len(s.Files))
	for i, f := range s.Files {
		names[i] = f.Name
	}
	return names
}

// Bytes returns the size of the files as stored.
func (s *Set) Bytes() (n int64) {
	for i := range s.Files {
		n += s.Files[i].Bytes - s.Files[i].lo
	}
	return n
}

// NamesIn returns the fields of the records at the beginning of file i.
func (s *Set) NamesIn(i int) ([]string, error) {
	names, err := s.namesIn(i)
	return union(slices.Clip(names), s.partitions), err
}

func (s *Set) namesIn(i int) ([]string, error) {
	f := &s.Files[i]
	naming, named := namingOf(s.Format)
	lines, svm := svmOf(s.Format)
	if svm && !lines.fields {
		return []string{"label", "features", "values"}, nil
	}
	if !named && !svm {
		return s.Fields, nil
	}
	if named {
		src, err := f.Open()
		if err != nil {
			return nil, err
		}
		defer src.Close()
		if f.Log == nil {
			return naming.Look(f, src)
		}
		names, err := firstNames(s.Format, f, src)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		return names, nil
	}
	names, _, err := NumbersIn(s.Format, &Sample{Files: s.Files[i : i+1], Rows: DefaultLook})
	if err != nil {
		return nil, err
	}
	for _, n := range names[1:] {
		names = append(names, n+ValuesSuffix)
	}
	return names, nil
}

// BytesOf returns the number of bytes of a block in its file.
func (s *Set) BytesOf(b int) int64 {
	bl := s.Blocks[b]
	switch f := &s.Files[bl.File]; {
	case f.Packing != nil:
		return f.Bytes
	case f.Groups != nil:
		return f.Bytes / int64(len(f.Groups))
	}
	return bl.Hi - bl.Lo
}

// Add adds names of fields that may occur.
func (s *Set) Add(names []string) { s.Fields = union(slices.Clip(s.Fields), names) }

// Named reports whether records name their fields and the fields of the first records are known.
func (s *Set) Named() bool { return s.Fields != nil && Named(s.Format) }

// AnyName reports whether a field of any name may occur.
func (s *Set) AnyName() bool {
	_, named := namingOf(s.Format)
	_, svm := svmOf(s.Format)
	return s.Fields == nil && (named || svm)
}
