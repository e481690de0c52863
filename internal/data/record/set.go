package record

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/internal/data/kafka"
	"github.com/wdlrun/wdlrun/internal/data/registry"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/value"
)

// Set is a list of files of records in one format, with the names of their fields.
type Set struct {
	Source schema.Source
	Format Format
	Fields []string // nil: any name is possible
	Files  []File
	Blocks []Block
	drifts bool // the files have different columns, or the same in another order

	Unselected int      // files that OpenSelected has left out
	Empty      []string // files without records

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
	files, empty, err := ResolveAll(patterns)
	if err != nil {
		return nil, err
	}
	if files, err = choose(files); err != nil {
		return nil, err
	}
	s, err := openFiles(src, files)
	if err == nil {
		names := make([]string, len(empty))
		for i := range empty {
			names[i] = empty[i].Name
		}
		s.Empty = append(names, s.Empty...)
	}
	return s, err
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
			s.Files, s.Empty = s.Files[:len(s.Files)-1], append(s.Empty, all[i].Name)
			first = cmp.Or(first, err)
			continue
		}
		if err != nil {
			return err
		}
		if s.Files[len(s.Files)-1].bare {
			s.Empty = append(s.Empty, all[i].Name)
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
	s.arrange()
	return nil
}

// arrange makes the readers of files put the fields of lines in the order of the fields of the set.
func (s *Set) arrange() {
	form, ok := s.Format.(*Delimited)
	if !ok || !s.drifts {
		return
	}
	for i := range s.Files {
		f := &s.Files[i]
		f.arranged = NewArranged(form, f.columns, s.Fields)
	}
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

// Headless returns the error for a first line that is taken for a header and seems to be a record: it has none of
// the fields of the schema, and one of its words is a number.
func (s *Set) Headless(names []string) error {
	if !s.Source.Header || len(s.Files) == 0 {
		return nil
	}
	header := slices.DeleteFunc(slices.Clone(s.Files[0].columns), func(name string) bool { return slices.Contains(s.partitions, name) })
	number := func(word string) bool { _, why := value.ParseNumber([]byte(word)); return why == "" }
	if !slices.ContainsFunc(header, number) || slices.ContainsFunc(header, func(name string) bool { return slices.Contains(names, name) }) {
		return nil
	}
	return fmt.Errorf("%s: its first line, %s, is taken for a header and has none of the fields of the configuration: if it is a record, add a header to the file",
		s.Files[0].Name, CutLong([]byte(strings.Join(header, string(NewDelimited(s.Source).Delim)))))
}

// Look reads the beginning of file i.
func (s *Set) Look(i int) error {
	f := &s.Files[i]
	open := f.Open
	if f.Log == nil {
		open = func() (Content, error) { return f.begin(s.Source.FormatName()) }
	}
	src, err := open()
	if err != nil {
		return err
	}
	defer src.Close()
	names, err := s.Format.Look(f, src)
	if err != nil {
		return err
	}
	if names, err = s.addPartitions(f, src, names); err != nil {
		return err
	}
	_, named := namingOf(s.Format)
	switch {
	case named && s.Source.Follow.On: // later files may have more
	case i == 0:
		s.Fields, f.columns = names, names
	case s.Source.Header && !slices.Equal(names, s.Files[0].columns) && !Related(s.inFile(names), s.inFile(s.Files[0].columns)):
		return fmt.Errorf("%s: its header differs from the header of %s: %s, there: %s; columns are found by name, but too few names are equal, or one is repeated",
			f.Name, s.Files[0].Name, strings.Join(names, ","), strings.Join(s.Files[0].columns, ","))
	case IsTable(s.Format) || s.Source.Header:
		if f.columns = s.Files[0].columns; !slices.Equal(names, f.columns) { // else one list for all files
			s.Fields, f.columns, s.drifts = union(slices.Clip(s.Fields), names), names, true
		}
	case named:
		s.Fields = union(s.Fields, names)
	}
	return nil
}

// inFile returns names without those of folders, which say nothing about a file.
func (s *Set) inFile(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(s.partitions, name) })
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
		if f.columns != nil {
			return f.columns, nil
		}
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

// MayLack reports whether a file may lack columns: it has a header or typed columns.
func (s *Set) MayLack() bool { return s.Source.Header || IsTable(s.Format) }

// Lack adds columns that no file need have, if files may lack them: their values are missing there.
func (s *Set) Lack(names []string) {
	if before := len(s.Fields); s.MayLack() {
		if s.Add(names); len(s.Fields) > before {
			s.drifts = true
			s.arrange()
		}
	}
}

// Named reports whether records name their fields and the fields of the first records are known.
func (s *Set) Named() bool { return s.Fields != nil && Named(s.Format) }

// AnyName reports whether a field of any name may occur.
func (s *Set) AnyName() bool {
	_, named := namingOf(s.Format)
	_, svm := svmOf(s.Format)
	return s.Fields == nil && (named || svm)
}

// ColumnsOf returns the columns of file i, if the files have a header or typed columns.
func (s *Set) ColumnsOf(i int) []string { return s.Files[i].columns }

// Partial describes those of some columns that a file, but not every file, has. Their values
// are missing in the other files.
func (s *Set) Partial(names []string) (all []string) {
	if !s.drifts {
		return nil
	}
	for _, name := range names {
		without, example := 0, ""
		for i := range s.Files {
			if !slices.Contains(s.Files[i].columns, name) {
				without++
				example = cmp.Or(example, s.Files[i].Name)
			}
		}
		if without > 0 && without < len(s.Files) {
			all = append(all, fmt.Sprintf("column %s is not in %d of %d files, such as %s: its values are missing there", name, without, len(s.Files), example))
		}
	}
	return all
}

// Unreadable returns the error for a field of these names that exists but cannot be read;
// nil if there is none.
func (s *Set) Unreadable(names []string) error {
	for i := range s.Files {
		for _, u := range s.Files[i].unread {
			if slices.Contains(names, u.Name) {
				return fmt.Errorf("%s: column %s %s", s.Files[i].Name, u.Name, u.Why)
			}
		}
	}
	return nil
}

// Schemas returns the schemas of messages of a topic; nil for other records.
func (s *Set) Schemas() *registry.Schemas {
	if t, ok := s.Format.(topicFormat); ok {
		if m, ok := t.Format.(*messageFormat); ok {
			return m.schemas
		}
	}
	return nil
}

// UseSchemas makes the set use schemas that another set of the same source has fetched.
func (s *Set) UseSchemas(x *registry.Schemas) {
	if s.Schemas() != nil {
		s.Format = topicFormat{Format: newMessageFormat(s.Source.Format, x)}
	}
}

// addPartitions makes the readers of a file add its partitions to records. names are the fields of the
// file; addPartitions returns them with the partitions that it adds. A field that the file has too is
// read from the file, but the two must not contradict each other.
func (s *Set) addPartitions(f *File, src Content, names []string) ([]string, error) {
	if len(s.partitions) == 0 {
		return names, nil
	}
	var own, added []string
	for _, name := range s.partitions {
		if slices.Contains(names, name) {
			own = append(own, name)
		} else {
			added = append(added, name)
		}
	}
	if err := s.agree(f, src, names, own); err != nil {
		return nil, err
	}
	var err error
	if f.carried, err = newCarried(s.Format, f, added); err != nil || names == nil {
		return nil, err
	}
	return append(slices.Clip(names), added...), nil
}

// agree returns an error if one of the first records of a file has another value in a field
// than the folder of the file.
func (s *Set) agree(f *File, src Content, fields, names []string) error {
	names = slices.DeleteFunc(names, func(name string) bool {
		_, ok := f.Partition(name)
		return !ok
	})
	if len(names) == 0 {
		return nil
	}
	d, err := s.Format.Decoder(fields, names)
	if err != nil {
		return err
	}
	lists, text := make([]value.List, len(names)), []byte(nil)
	return FirstUnits(s.Format, names, f, src, lookRecords, func(record []byte) error {
		if d.Decode(record, lists) != nil {
			return nil // the scan reports faults
		}
		for i, name := range names {
			want, _ := f.Partition(name)
			if lists[i].Len() == 0 {
				continue
			}
			text = lists[i].Append(text[:0], 0)
			if lists[i].Len() == 1 && len(text) == 0 {
				continue // missing
			}
			if lists[i].Len() > 1 || !sameValue(text, []byte(want)) {
				return fmt.Errorf("%s: its column %s contains %q, but its folder is %s=%s: move the file, or remove or rename the column",
					f.Name, name, CutLong(text), name, want)
			}
		}
		return nil
	})
}

// sameValue reports whether two texts are equal, or are equal numbers.
func sameValue(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, why := value.ParseNumber(a)
	y, whyNot := value.ParseNumber(b)
	return why == "" && whyNot == "" && x == y
}

// Fault returns the fault of a record of the set, still without its place.
func (s *Set) Fault(fl *Flaw) Fault {
	f := Fault{Column: fl.Column, Value: fl.Value, Want: fl.Want}
	if added := len(s.partitions); fl.Expected > 0 && added > 0 { // fields of folders are not in the file
		f.Want = widthText(fl.Fields-added, fl.Expected-added)
	}
	if fl.Column == "" && fl.Field >= 0 {
		if f.Column = fmt.Sprint(fl.Field + 1); fl.Field < len(s.Fields) {
			f.Column = s.Fields[fl.Field]
		}
	}
	return f
}
