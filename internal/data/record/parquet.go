package record

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/internal/data/arrow"
	"github.com/wdlrun/wdlrun/internal/data/avro"
	"github.com/wdlrun/wdlrun/internal/data/table"
	"github.com/wdlrun/wdlrun/internal/data/value"
)

// typedFormat is Parquet, Arrow IPC or Avro. A block is a group of rows; offsets are row numbers.
// Files are read as streams: a page of a column must be unpacked as a whole.
type typedFormat struct{ name string }

// openTable opens a file of any of these formats.
func openTable(s Content, size int64) (*table.File, error) {
	head := make([]byte, min(size, 16))
	if _, err := s.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	var form table.Form
	var err error
	switch TypedIn(head) {
	case "arrow":
		form, err = arrow.Open(s, size)
	case "avro":
		form, err = avro.Open(s, size)
	default:
		return table.Open(s, size)
	}
	if err != nil {
		return nil, err
	}
	return table.New(form)
}

// TypedIn returns the format of typed columns by the first bytes of a file, "" if there is none.
func TypedIn(head []byte) string {
	switch {
	case bytes.HasPrefix(head, []byte("PAR1")):
		return "parquet"
	case bytes.HasPrefix(head, []byte(arrow.Magic)), arrow.IsStream(head):
		return "arrow"
	case bytes.HasPrefix(head, []byte(avro.Magic)):
		return "avro"
	}
	return ""
}

func (t typedFormat) Look(f *File, s Content) ([]string, error) {
	title := map[string]string{"parquet": "Parquet", "arrow": "Arrow IPC", "avro": "Avro"}[t.name]
	if f.Packing != nil {
		return nil, fmt.Errorf("%s: %s in a %s file; unpack it first, its columns can be packed in the file", f.Name, title, f.Packing.name)
	}
	x, err := openTable(s, f.size)
	if err != nil {
		return nil, fmt.Errorf("%s: no file of %s, or a damaged one: %w", f.Name, title, err)
	}
	f.Groups = append([]int64{}, x.Groups()...)
	names := f.readable(x)
	if len(names) == 0 {
		return nil, fmt.Errorf("%s: it has no column of plain values or lists of them: %s", f.Name, strings.Join(f.Unread(), "; "))
	}
	return names, nil
}

func (typedFormat) Place(f *File, offset int64) (Fault, error) {
	return Fault{File: f.Name, Row: offset + 1}, nil
}

func (typedFormat) Records(names []string) Records { return &TableRecords{Names: names} }

func (typedFormat) Decoder(_, _ []string) (Decoder, error) { return tableDecoder{}, nil }

type tableDecoder struct{}

func (tableDecoder) Decode(record []byte, lists []value.List) *Flaw {
	if err := table.Decode(record, lists); err != nil {
		return &Flaw{Field: -1, Want: err.Error()}
	}
	return nil
}

// Unread lists the columns of a table that cannot be read, with reasons.
func (f *File) Unread() []string {
	all := make([]string, len(f.unread))
	for i, u := range f.unread {
		all[i] = fmt.Sprintf("%s %s", u.Name, u.Why)
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

// Unread lists the columns that cannot be read, with reasons.
func (f *Files) Unread() (all []string) {
	for i := range f.set.Files {
		all = union(all, f.set.Files[i].Unread())
	}
	return all
}

// Partial describes the columns of tables that some files do not have.
func (f *Files) Partial() []string { return f.set.Partial(f.set.Fields) }

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

// TableRecords reads the rows of row groups.
type TableRecords struct {
	Names []string
	Check bool // compare all row groups with their statistics, not only the first of a file
	// Compared reports, by file, that the first row group has been compared before; nil: none has.
	Compared []bool

	src    Content
	file   *table.File
	Rows   *table.Reader
	row    []byte
	Offset int64
	Number int32
	next   placed // the group read last
}

// placed is a group and its first row.
type placed struct {
	group int
	lo    int64
}

func (r *TableRecords) Begin(s Content, f *File, b Block, offset int64, _ int32) (err error) {
	if r.src != s {
		r.Close()
		if r.file, err = openTable(s, f.size); err != nil {
			return err
		}
		r.src, r.next = s, placed{}
		if c := f.carried; c != nil {
			for i, name := range c.names {
				r.file.Fix(name, c.values[i])
			}
		}
	}
	r.Close()
	group, first := 0, int64(0)
	if r.next.lo <= b.Lo { // blocks are usually read in order
		group, first = r.next.group, r.next.lo
	}
	for first != b.Lo || first+f.Groups[group] != b.Hi {
		first += f.Groups[group]
		group++
	}
	r.next = placed{group, first}
	check := r.Check || group == 0 && (r.Compared == nil || !r.Compared[b.File])
	if r.Rows, err = r.file.Rows(group, f.inFile(r.file, r.Names), check); err != nil {
		return err
	}
	for r.Offset, r.Number = b.Lo, 0; r.Offset < offset; {
		if _, err := r.Next(); err != nil {
			return err
		}
	}
	return nil
}

func (r *TableRecords) Next() (u Unit, err error) {
	u = Unit{Offset: r.Offset, Number: r.Number}
	if r.row, err = r.Rows.Append(r.row[:0]); err != nil {
		return u, err
	}
	r.Offset++
	r.Number++
	u.Record = r.row
	return u, nil
}

// Close frees the pages.
func (r *TableRecords) Close() error {
	if r.Rows != nil {
		r.Rows.Close()
		r.Rows = nil
	}
	return nil
}

// Onwards reports whether a file can only be read from its beginning, or from that of a
// row group.
func (f *File) Onwards() bool { return f.Packing != nil || f.Groups != nil || f.onwards }

// IsTable reports whether f is a format of typed columns.
func IsTable(f Format) bool {
	_, ok := f.(typedFormat)
	return ok
}
