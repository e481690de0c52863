// Package table reads Parquet files: flat columns, and lists of plain values,
// row by row across the columns that are wanted, from typed pages. Values are
// never boxed.
//
// A row is handed on as bytes, which a shuffle can keep and Decode turns back
// into values:
//
//	per column: kind, 1 byte · count, uvarint · values
//	value: 8 bytes little-endian (Int, Float32, Float64), or uvarint length and
//	the bytes (Text); no count and no values for kind None
//
// Integers of any width and booleans (0 and 1) become Int; strings, binaries and
// decimals stored as bytes Text. The older INT96 timestamps, maps, structs and
// lists of lists are not read. A null, and a list without values, is None; nulls
// in a list are left out.
//
// Rows come one by one (Append), or as spans of each column's pages for those who
// take them column by column (Next).
//
// What a file can hold wrong is an error, also where the library under this
// package panics or takes whatever memory a page asks for: a page unpacks to at
// most 256 MiB and 2^26 values. A Reader belongs to one goroutine.
package table

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/wdlrun/wdlrun/data/value"
)

// File is an open Parquet file.
type File struct {
	file   *parquet.File
	source io.ReaderAt
	size   int64
	leaves map[string]parquet.LeafColumn
	names  []string
	groups []int64
}

// mostGroups bounds the row groups of a file.
const mostGroups = 1 << 20

// Open reads the footer of a file. It keeps r.
func Open(r io.ReaderAt, size int64) (f *File, err error) {
	defer caught(&err)
	p, err := parquet.OpenFile(r, size, parquet.SkipBloomFilters(true), parquet.SkipPageIndex(true))
	if err != nil {
		return nil, err
	}
	f = &File{file: p, source: r, size: size, leaves: map[string]parquet.LeafColumn{}}
	for _, field := range p.Schema().Fields() {
		leaf, ok := onlyLeaf(p.Schema(), field)
		if !ok {
			continue
		}
		f.leaves[field.Name()] = leaf
		f.names = append(f.names, field.Name())
	}
	groups := p.RowGroups()
	if len(groups) > mostGroups {
		return nil, fmt.Errorf("it has %d row groups, at most %d are possible", len(groups), mostGroups)
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

// caught makes an error of a panic in the library: some are all it has to say of
// broken files.
func caught(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("it is damaged: %v", p)
	}
}

// onlyLeaf is the one column that a field is made of, directly or as a list.
func onlyLeaf(s *parquet.Schema, field parquet.Field) (leaf parquet.LeafColumn, ok bool) {
	path, node := []string{field.Name()}, parquet.Node(field)
	for !node.Leaf() {
		children := node.Fields()
		if len(children) != 1 {
			return leaf, false
		}
		path, node = append(path, children[0].Name()), children[0]
	}
	leaf, ok = s.Lookup(path...)
	return leaf, ok && leaf.MaxRepetitionLevel <= 1 && leaf.Node.Type().Kind() != parquet.Int96
}

// Columns names the columns that can be read. The caller must not change it.
func (f *File) Columns() []string { return f.names }

// Groups is the number of rows of each row group. The caller must not change it.
func (f *File) Groups() []int64 { return f.groups }

// Reader reads rows of a row group.
type Reader struct {
	columns []column
	left    int64 // rows of the group
}

// Rows starts to read a row group, in the columns of these names.
func (f *File) Rows(group int, names []string) (r *Reader, err error) {
	defer caught(&err)
	if group < 0 || group >= len(f.groups) {
		return nil, fmt.Errorf("there is no row group %d of %d", group, len(f.groups))
	}
	chunks := f.file.RowGroups()[group].ColumnChunks()
	r = &Reader{left: f.groups[group]}
	for _, name := range names {
		leaf, ok := f.leaves[name]
		if !ok {
			r.Close()
			return nil, fmt.Errorf("there is no column %q of plain values", name)
		}
		if err := checkPages(f.source, f.size, &f.file.Metadata().RowGroups[group].Columns[leaf.ColumnIndex].MetaData); err != nil {
			r.Close()
			return nil, fmt.Errorf("column %s: %w", name, err)
		}
		r.columns = append(r.columns, column{
			name: name, pages: chunks[leaf.ColumnIndex].Pages(),
			most: byte(leaf.MaxDefinitionLevel), list: leaf.MaxRepetitionLevel > 0, unsigned: unsigned(leaf.Node.Type()),
		})
	}
	return r, nil
}

func unsigned(t parquet.Type) bool {
	l := t.LogicalType()
	if l == nil {
		return false
	}
	i, ok := l.Value.(*format.IntType)
	return ok && !i.IsSigned
}

// Close frees the pages that are held.
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

// errRow means that bytes are not what Append appends.
var errRow = errors.New("the row is damaged")

// Decode fills lists from a row, one per column. Texts lie in the row.
func Decode(row []byte, lists []value.List) error {
	for i := range lists {
		l := &lists[i]
		l.Reset()
		if len(row) == 0 {
			return errRow
		}
		kind := value.Kind(row[0])
		if row = row[1:]; kind == value.None {
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
