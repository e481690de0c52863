package record

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/internal/data/table"
	"github.com/wdlrun/wdlrun/internal/data/value"
)

// parquetFormat is Parquet. A block is a row group; offsets are row numbers. Files are
// read as streams: a page of a column must be unpacked as a whole.
type parquetFormat struct{}

func (parquetFormat) Look(f *File, s Content) ([]string, error) {
	if f.Packing != nil {
		return nil, fmt.Errorf("%s: a Parquet file in a %s file; unpack it first, its columns are packed already", f.Name, f.Packing.name)
	}
	t, err := table.Open(s, f.size)
	if err != nil {
		return nil, fmt.Errorf("%s: no Parquet file, or a damaged one: %w", f.Name, err)
	}
	f.Groups = append([]int64{}, t.Groups()...)
	names := f.readable(t)
	if len(names) == 0 {
		return nil, fmt.Errorf("%s: it has no column of plain values or lists of them: %s", f.Name, strings.Join(f.Unread(), "; "))
	}
	return names, nil
}

func (parquetFormat) Place(f *File, offset int64) (Fault, error) {
	return Fault{File: f.Name, Row: offset + 1}, nil
}

func (parquetFormat) Records(names []string) Records { return &TableRecords{Names: names} }

func (parquetFormat) Decoder(_, _ []string) (Decoder, error) { return tableDecoder{}, nil }

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
	Names  []string
	Check  bool // compare all row groups with their statistics, not only the first of a file
	src    Content
	file   *table.File
	Rows   *table.Reader
	row    []byte
	Offset int64
	Number int32
}

func (r *TableRecords) Begin(s Content, f *File, b Block, offset int64, _ int32) (err error) {
	if r.src != s {
		r.Close()
		if r.file, err = table.Open(s, f.size); err != nil {
			return err
		}
		r.src = s
		if c := f.carried; c != nil {
			for i, name := range c.names {
				r.file.Fix(name, c.values[i])
			}
		}
	}
	r.Close()
	group, first := 0, int64(0)
	for first != b.Lo || first+f.Groups[group] != b.Hi {
		first += f.Groups[group]
		group++
	}
	if r.Rows, err = r.file.Rows(group, f.inFile(r.file, r.Names), group == 0 || r.Check); err != nil {
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

// IsTable reports whether f is a columnar format.
func IsTable(f Format) bool {
	_, ok := f.(parquetFormat)
	return ok
}
