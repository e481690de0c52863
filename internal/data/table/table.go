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
// column of its own, struct.member. So are the members of a list of structs, and keys and values
// of a map, which are lists of equal length: list.member, map.key, map.value. A vector of Spark is
// a list of numbers. Lists of lists or maps, maps of other than plain values, BSON, VARIANT and
// geometries are not read; Unread lists such columns.
//
// Rows are read one by one (Append), or column by column as spans of pages (Next), of which Records
// makes rows.
//
// Pages are read, decompressed and split into levels and values here; values are decoded by
// parquet-go, except booleans in runs and 32-bit integers with wider differences, which it
// decodes wrong. A page has at most 256 MiB, decompressed, and 2^26 values. Faults of a file are
// errors. This includes faults for which the library panics. A File and its Readers belong to
// one goroutine.
package table

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/parquet-go/parquet-go/format"

	"github.com/wdlrun/wdlrun/internal/data/value"
)

// File is an open Parquet file.
type File struct {
	source io.ReaderAt
	size   int64
	footer *footer
	unpack unpacker
	*layout
	groups []int64
	fixed  map[string][]byte // columns of one value
	gone   [][]uint32        // by group, rows of the file that Leave leaves out; nil: none
	form   Form              // of another format than Parquet
}

// maxGroups is the maximum number of row groups of a file.
const maxGroups = 1 << 20

// Open reads the footer of a file. The File reads from r.
func Open(r io.ReaderAt, size int64) (*File, error) { return open(r, size, nil) }

// OpenByID is Open of a file whose columns are found by their field ids: they have the names that
// names gives to their ids, whatever their names in the file are.
func OpenByID(r io.ReaderAt, size int64, names map[int32]string) (*File, error) {
	return open(r, size, names)
}

// open is Open, with names of columns by field id if there are any.
func open(r io.ReaderAt, size int64, names map[int32]string) (f *File, err error) {
	defer caught(&err)
	f = &File{source: r, size: size}
	if f.footer, err = readFooter(r, size); err != nil {
		return nil, err
	}
	if names != nil {
		if err := rename(f.footer.Schema, names); err != nil {
			return nil, err
		}
	}
	if f.layout, err = columnsOf(f.footer.Schema, meaningsOf(f.footer.KeyValues)); err != nil {
		return nil, err
	}
	if n := len(f.footer.Groups); n > maxGroups {
		return nil, fmt.Errorf("it has %d row groups, at most %d are possible", n, maxGroups)
	}
	for i := range f.footer.Groups {
		g := &f.footer.Groups[i]
		if g.Rows < 0 || g.Rows > math.MaxInt32 {
			return nil, fmt.Errorf("a row group of %d rows", g.Rows)
		}
		if len(g.Chunks) != f.leaves {
			return nil, fmt.Errorf("row group %d has %d columns, the schema has %d", i, len(g.Chunks), f.leaves)
		}
		f.groups = append(f.groups, g.Rows)
	}
	f.leaveEncrypted()
	return f, nil
}

// leaveEncrypted makes columns that are encrypted unreadable.
func (f *File) leaveEncrypted() {
	f.names = slices.DeleteFunc(f.names, func(name string) bool {
		leaves := append([]leaf{f.found[name]}, f.found[name].vector...)
		if !slices.ContainsFunc(f.footer.Groups, func(g rowGroup) bool {
			return slices.ContainsFunc(leaves, func(l leaf) bool { return g.Chunks[l.index].isEncrypted() })
		}) {
			return false
		}
		delete(f.found, name)
		f.unread = append(f.unread, Unread{name, "is encrypted; write it without encryption"})
		return true
	})
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

// Has reports whether Rows reads a column of this name.
func (f *File) Has(name string) bool {
	_, ok := f.found[name]
	return ok
}

// Types of Declared that are not logical types of Parquet.
const (
	TypeBytes        = "BYTES"         // strings without a logical type
	TypeTimeUTC      = "TIME UTC"      // TIME in UTC
	TypeTimestampUTC = "TIMESTAMP UTC" // TIMESTAMP in UTC
)

// Declared is what a file declares about the values of a column.
type Declared struct {
	// Type is the logical type, such as DATE; "" if there is none, and for numbers and truth values.
	Type string
	List bool
	Zone string // time zone of a TypeTimestampUTC; "" if it is UTC or has no name
}

// Declares returns what the file declares about a column.
func (f *File) Declares(name string) (d Declared) {
	leaf, ok := f.found[name]
	switch {
	case ok && f.form != nil:
		c := &f.form.Columns()[leaf.index]
		d = Declared{typeOf(c.Type.element()), c.List, c.Type.Zone}
	case leaf.element != nil:
		d = Declared{typeOf(leaf.element), leaf.repeats > 0, f.meant.zones[name]}
	default: // none, or a vector of Spark
		d.List = leaf.vector != nil
	}
	if d.Type != TypeTimestampUTC || d.Zone == "UTC" || d.Zone == "Etc/UTC" || d.Zone == "Z" {
		d.Zone = ""
	}
	return d
}

// typeOf returns the Declared.Type of a column.
func typeOf(e *format.SchemaElement) string {
	kind := kindOf(e)
	if kind == "" {
		return map[format.Type]string{format.Int96: "TIMESTAMP", format.ByteArray: TypeBytes, format.FixedLenByteArray: TypeBytes}[e.Type.V]
	}
	_, utc := unitOf(e)
	switch {
	case kind == "INT", kind == "UINT", kind == "FLOAT16":
		return ""
	case kind == "TIME" && utc:
		return TypeTimeUTC
	case kind == "TIMESTAMP" && utc:
		return TypeTimestampUTC
	}
	return kind
}

// Unread returns the columns that cannot be read. The caller must not change the slice.
func (f *File) Unread() []Unread { return f.unread }

// Groups returns the number of rows of each row group. The caller must not change the
// slice.
func (f *File) Groups() []int64 { return f.groups }

// Reader reads rows of a row group.
type Reader struct {
	columns []column
	left    int64 // rows of the group
	gone    []uint32
	row     int64 // of the file, the next one
	form    Pages // of a file that is not Parquet
}

// Rows returns a Reader of the columns of these names in a row group. A column that the file
// does not have is null: only the caller knows whether another file has it. If check is set,
// values that contradict the statistics of the file are errors.
func (f *File) Rows(group int, names []string, check bool) (r *Reader, err error) {
	defer caught(&err)
	if group < 0 || group >= len(f.groups) {
		return nil, fmt.Errorf("there is no row group %d of %d", group, len(f.groups))
	}
	r = &Reader{left: f.groups[group], columns: make([]column, len(names))}
	if f.gone != nil {
		r.left, r.gone = f.footer.Groups[group].Rows, f.gone[group]
		for i := range group {
			r.row += f.footer.Groups[i].Rows
		}
	}
	for i, name := range names {
		if text, ok := f.fixed[name]; ok {
			r.columns[i] = fixedColumn(name, text)
			continue
		}
		if f.form != nil {
			if err := f.absent(&r.columns[i], name); err != nil {
				return nil, fmt.Errorf("column %s: %w", name, err)
			}
			continue
		}
		if err := f.column(&r.columns[i], group, name, check); err != nil {
			return nil, fmt.Errorf("column %s: %w", name, err)
		}
	}
	if f.form != nil {
		err = r.formed(f, group, names)
	}
	return r, err
}

// absent makes c a column of nulls if the file has none of this name.
func (f *File) absent(c *column, name string) error {
	if f.Has(name) {
		return nil
	}
	for _, u := range f.unread {
		if u.Name == name {
			return errors.New("it " + u.Why)
		}
	}
	*c = fixedColumn(name, nil)
	return nil
}

// column prepares a column of a row group.
func (f *File) column(c *column, group int, name string, check bool) error {
	leaf, ok := f.found[name]
	if !ok {
		return f.absent(c, name)
	}
	if leaf.vector != nil {
		*c = column{name: name, list: true, composed: composed{parts: make([]column, len(leaf.vector))}}
		for i := range leaf.vector {
			if err := f.stored(&c.parts[i], group, name, leaf.vector[i], check); err != nil {
				return err
			}
		}
		return nil
	}
	return f.stored(c, group, name, leaf, check)
}

// stored prepares a column as it is in the file.
func (f *File) stored(c *column, group int, name string, leaf leaf, check bool) (err error) {
	stored := &f.footer.Groups[group].Chunks[leaf.index]
	if err := stored.check(leaf.element, f.size); err != nil {
		return err
	}
	m := &stored.Meta
	*c = column{name: name, leaf: leaf, codec: m.Codec, unpack: &f.unpack, most: leaf.maxLevel, list: leaf.repeats > 0,
		pages: pages{r: f.source, at: m.begin(), end: m.begin() + m.Bytes}}
	if check && !c.list {
		c.check = &checker{group: group, element: leaf.element, order: orderOf(leaf.element), chunk: m.Statistics, total: m.Values}
		if orders := f.footer.Orders; leaf.index < len(orders) {
			_, c.check.defined = orders[leaf.index].Value.(*format.TypeDefinedOrder)
		}
	}
	c.convert, err = conversionOf(leaf.element)
	return err
}

// Close frees the memory of pages.
func (r *Reader) Close() {
	if r.form != nil {
		r.form.Close()
	}
	r.columns, r.left, r.form = nil, 0, nil
}

// Append appends the next row to dst; io.EOF after the last of the group.
func (r *Reader) Append(dst []byte) (b []byte, err error) {
	defer caught(&err)
	begin := len(dst)
	for r.left > 0 {
		for i := range r.columns {
			c := &r.columns[i]
			if dst, err = c.append(dst); err != nil {
				return dst, fmt.Errorf("column %s: %w", c.name, err)
			}
		}
		if !r.isGone() {
			r.pass(1)
			return dst, nil
		}
		r.pass(1)
		dst = dst[:begin]
	}
	return dst, io.EOF
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

// AppendRow appends lists, one per column, as a row.
func AppendRow(row []byte, lists []value.List) []byte {
	for i := range lists {
		l := &lists[i]
		if len(l.Nulls) == 0 {
			row = append(row, byte(l.Kind))
		} else {
			row = binary.AppendUvarint(append(row, byte(l.Kind)|hasNulls), uint64(len(l.Nulls)))
			for _, place := range l.Nulls {
				row = binary.AppendUvarint(row, uint64(place))
			}
		}
		if l.Kind == value.None {
			continue
		}
		row = binary.AppendUvarint(row, uint64(l.Len()))
		switch l.Kind {
		case value.Text:
			for _, text := range l.Texts {
				row = append(binary.AppendUvarint(row, uint64(len(text))), text...)
			}
		case value.Int:
			for _, n := range l.Ints {
				row = binary.LittleEndian.AppendUint64(row, uint64(n))
			}
		default:
			for _, x := range l.Reals {
				row = binary.LittleEndian.AppendUint64(row, math.Float64bits(x))
			}
		}
	}
	return row
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
