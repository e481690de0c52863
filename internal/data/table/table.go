// Package table reads selected columns of Parquet files: flat columns and lists of plain
// values, row by row, from typed pages. Values are never boxed.
//
// A row is encoded as bytes, which a shuffle can keep and Decode turns back into values:
//
//	per column: kind, 1 byte · [nulls] · count, uvarint · values
//	nulls: if bit 7 of kind is set: count, uvarint · places, uvarint each
//	value: 8 bytes little-endian (Int, Float32, Float64), or uvarint length and
//	the bytes (Text); no count and no values for kind None
//
// The logical type of a column determines its values, formatted as DuckDB writes them to CSV:
//
//	INT, UINT                 Int; Text from 2^63 on
//	FLOAT16, FLOAT, DOUBLE    Float64; a narrow number is its shortest decimal
//	BOOLEAN                   true, false
//	DECIMAL                   22.96, with all digits of its scale
//	DATE, TIME                2024-05-01, 12:34:56.5; with +00 if the time is in UTC
//	TIMESTAMP, INT96          2024-05-01 12:34:56.5, or with +00
//	INTERVAL                  1 year 2 days 03:00:04.5
//	UUID                      00112233-4455-6677-8899-aabbccddeeff
//	STRING, ENUM, JSON        as stored; so are bytes without a type if they are UTF-8,
//	                          and others are written \x00\xFF
//
// A null and an empty list are None. Nulls in a list keep their places. A member of a struct is a
// column of its own, struct.member. Maps, lists of lists or structs, BSON, VARIANT and
// geometries are not read; Unread lists such columns.
//
// Rows are read one by one (Append), or column by column as spans of pages (Next).
//
// Faults of a file are errors. This includes faults for which the underlying library panics.
// That library allocates the size that a page states; this package limits a page to 256 MiB,
// decompressed, and 2^26 values. A Reader belongs to one goroutine.
package table

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/wdlrun/wdlrun/internal/data/value"
)

// File is an open Parquet file.
type File struct {
	file   *parquet.File
	source io.ReaderAt
	size   int64
	*layout
	groups []int64
}

// maxGroups is the maximum number of row groups of a file.
const maxGroups = 1 << 20

// Open reads the footer of a file. The File reads from r.
func Open(r io.ReaderAt, size int64) (f *File, err error) {
	defer caught(&err)
	p, err := parquet.OpenFile(withFooter{r, size}, size, parquet.SkipBloomFilters(true), parquet.SkipPageIndex(true))
	if err != nil {
		return nil, err
	}
	f = &File{file: p, source: r, size: size}
	if f.layout, err = columnsOf(p.Metadata().Schema); err != nil {
		return nil, err
	}
	groups := p.RowGroups()
	if len(groups) > maxGroups {
		return nil, fmt.Errorf("it has %d row groups, at most %d are possible", len(groups), maxGroups)
	}
	for _, g := range groups {
		n := g.NumRows()
		if n < 0 || n > math.MaxInt32 {
			return nil, fmt.Errorf("a row group of %d rows", n)
		}
		f.groups = append(f.groups, n)
	}
	return f, nil
}

// withFooter reads a file of size bytes. It checks the length of the footer when the library
// reads it, because the library allocates that many bytes, up to 4 GiB, before it reads them.
type withFooter struct {
	io.ReaderAt
	size int64
}

func (r withFooter) ReadAt(b []byte, at int64) (int, error) {
	n, err := r.ReaderAt.ReadAt(b, at)
	if at == r.size-8 && n == 8 {
		if length := int64(binary.LittleEndian.Uint32(b)); length > r.size-12 {
			return 0, fmt.Errorf("a footer of %d bytes in a file of %d bytes", length, r.size)
		}
	}
	return n, err
}

// caught turns a panic of the library into an error: for some broken files it only panics.
func caught(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("it is damaged: %v", p)
	}
}

// Columns returns the names of the columns that can be read. The caller must not change
// the slice.
func (f *File) Columns() []string { return f.names }

// Unread returns the columns that cannot be read. The caller must not change the slice.
func (f *File) Unread() []Unread { return f.unread }

// Groups returns the number of rows of each row group. The caller must not change the
// slice.
func (f *File) Groups() []int64 { return f.groups }

// Reader reads rows of a row group.
type Reader struct {
	columns []column
	left    int64 // rows of the group
}

// Rows returns a Reader of the columns of these names in a row group.
func (f *File) Rows(group int, names []string) (r *Reader, err error) {
	defer caught(&err)
	if group < 0 || group >= len(f.groups) {
		return nil, fmt.Errorf("there is no row group %d of %d", group, len(f.groups))
	}
	chunks := f.file.RowGroups()[group].ColumnChunks()
	r = &Reader{left: f.groups[group]}
	for _, name := range names {
		c, err := f.column(group, name)
		if err != nil {
			r.Close()
			return nil, fmt.Errorf("column %s: %w", name, err)
		}
		c.pages = chunks[f.found[name].index].Pages()
		r.columns = append(r.columns, c)
	}
	return r, nil
}

// column prepares a column of a row group.
func (f *File) column(group int, name string) (c column, err error) {
	leaf, ok := f.found[name]
	if !ok {
		for _, u := range f.unread {
			if u.Name == name {
				return c, errors.New("it " + u.Why)
			}
		}
		return c, errors.New("there is none of this name")
	}
	stored := &f.file.Metadata().RowGroups[group].Columns[leaf.index].MetaData
	if err := checkCodec(stored.Codec); err != nil {
		return c, err
	}
	if err := checkPages(f.source, f.size, stored); err != nil {
		return c, err
	}
	nullable := leaf.list && leaf.element.RepetitionType.V == format.Optional
	c = column{name: name, most: byte(leaf.maxLevel), list: leaf.list, nullable: nullable, unsigned: kindOf(leaf.element) == "UINT"}
	c.convert, err = conversionOf(leaf.element)
	return c, err
}

// Close frees the pages.
func (r *Reader) Close() {
	for i := range r.columns {
		r.columns[i].close()
	}
	r.columns, r.left = nil, 0
}

// Append appends the next row to dst; io.EOF after the last of the group.
func (r *Reader) Append(dst []byte) (b []byte, err error) {
	defer caught(&err)
	if r.left == 0 {
		return dst, io.EOF
	}
	r.left--
	for i := range r.columns {
		c := &r.columns[i]
		if dst, err = c.append(dst); err != nil {
			return dst, fmt.Errorf("column %s: %w", c.name, err)
		}
	}
	return dst, nil
}

// errRow means that bytes are not a row made by Append.
var errRow = errors.New("the row is damaged")

// hasNulls is the bit of the kind of a list with nulls.
const hasNulls = 1 << 7

// decodeNulls decodes the places of nulls.
func decodeNulls(row []byte, l *value.List) ([]byte, bool) {
	n, size := binary.Uvarint(row)
	if size <= 0 || n > uint64(len(row)-size) {
		return nil, false
	}
	row = row[size:]
	for range n {
		place, size := binary.Uvarint(row)
		if size <= 0 || place > math.MaxInt32 {
			return nil, false
		}
		l.Nulls, row = append(l.Nulls, int32(place)), row[size:]
	}
	return row, true
}

// Decode fills lists from a row, one per column. Texts refer to the row.
func Decode(row []byte, lists []value.List) error {
	for i := range lists {
		l := &lists[i]
		l.Reset()
		if len(row) == 0 {
			return errRow
		}
		kind, nulls := value.Kind(row[0]&^hasNulls), row[0]&hasNulls != 0
		row = row[1:]
		if nulls {
			var ok bool
			if row, ok = decodeNulls(row, l); !ok {
				return errRow
			}
		}
		if kind == value.None {
			continue
		}
		n, size := binary.Uvarint(row)
		if size <= 0 || n > uint64(len(row)) || kind > value.Float64 {
			return errRow
		}
		l.Begin(kind)
		row = row[size:]
		if kind == value.Text {
			for range n {
				length, size := binary.Uvarint(row)
				if size <= 0 || length > uint64(len(row)-size) {
					return errRow
				}
				end := size + int(length)
				l.Texts, row = append(l.Texts, row[size:end:end]), row[end:]
			}
			continue
		}
		if uint64(len(row)) < 8*n {
			return errRow
		}
		for range n {
			x := binary.LittleEndian.Uint64(row)
			if row = row[8:]; kind == value.Int {
				l.Ints = append(l.Ints, int64(x))
			} else {
				l.Reals = append(l.Reals, math.Float64frombits(x))
			}
		}
	}
	if len(row) > 0 {
		return errRow
	}
	return nil
}
