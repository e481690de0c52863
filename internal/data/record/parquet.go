package record

import (
	"bytes"
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

// table opens a file without its deleted rows.
func (f *File) table(s Content) (*table.File, error) {
	x, err := f.openTable(s)
	if err == nil {
		err = x.Leave(f.deleted)
	}
	return x, err
}

func (f *File) openTable(s Content) (*table.File, error) {
	if f.physical != nil {
		return table.OpenByID(s, f.size, f.physical)
	}
	return openTable(s, f.size)
}

func (t typedFormat) Look(f *File, s Content) ([]string, error) {
	title := map[string]string{"parquet": "Parquet", "arrow": "Arrow IPC", "avro": "Avro"}[t.name]
	if f.Packing != nil {
		return nil, fmt.Errorf("%s: %s in a %s file; unpack it first, its columns can be packed in the file", f.Name, title, f.Packing.name)
	}
	x, err := f.table(s)
	if err != nil {
		return nil, fmt.Errorf("%s: no file of %s, or a damaged one: %w", f.Name, title, err)
	}
	f.Groups = append([]int64{}, x.Groups()...)
	f.bare = !slices.ContainsFunc(f.Groups, func(rows int64) bool { return rows > 0 })
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
		if r.file, err = f.table(s); err != nil {
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

// IsTable reports whether f is a format of typed columns.
func IsTable(f Format) bool {
	_, ok := f.(typedFormat)
	return ok
}

// inFile returns the names of columns in a file. A column that was added to the table after the
// file was written has no values in it.
func (f *File) inFile(t *table.File, names []string) []string {
	if f.named == nil {
		return names
	}
	known := make(map[string]string, len(f.named))
	for _, c := range f.named {
		known[c.Name] = c.In
	}
	all := make([]string, len(names))
	for i, name := range names {
		switch in, ok := known[name]; {
		case !ok:
			all[i] = name // a partition
		case t.Has(in):
			all[i] = in
		default:
			all[i] = absent
		}
	}
	return all
}

// readable returns the columns of a file that can be read, and sets those that cannot.
func (f *File) readable(t *table.File) []string {
	f.unread = t.Unread()
	if f.named == nil {
		return t.Columns()
	}
	why := map[string]string{}
	for _, u := range t.Unread() {
		why[u.Name] = u.Why
	}
	f.unread = nil
	names := make([]string, 0, len(f.named))
	for _, c := range f.named {
		if reason, ok := why[c.In]; ok {
			f.unread = append(f.unread, table.Unread{Name: c.Name, Why: reason})
		} else {
			names = append(names, c.Name)
		}
	}
	return names
}

// addTypes adds what is declared about the columns of a file that all does not have.
func (f *File) addTypes(all map[string]table.Declared) error {
	names := slices.DeleteFunc(slices.Clone(f.columns), func(name string) bool { _, ok := all[name]; return ok })
	if len(names) == 0 {
		return nil
	}
	s, err := f.Open()
	if err != nil {
		return err
	}
	defer s.Close()
	t, err := f.table(s)
	if err != nil {
		return fmt.Errorf("%s: %w", f.Name, err)
	}
	for i, in := range f.inFile(t, names) {
		all[names[i]] = t.Declares(in)
	}
	return nil
}

// absent is the name of no column: its values are missing.
const absent = "\x00"
