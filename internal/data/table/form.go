package table

import (
	"fmt"
	"io"
	"math"
	"time"

	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"
)

// Form is a file of another format than Parquet, whose pages its own package decodes. Rows,
// nulls, lists, texts of values and everything that reads them are those of Parquet.
type Form interface {
	// Columns returns the columns that can be read.
	Columns() []Column
	// Unread returns the columns that cannot be read.
	Unread() []Unread
	// Groups returns the number of rows of each group.
	Groups() []int64
	// Open returns the pages of some columns of a group. A column is an index in Columns.
	Open(group int, columns []int) (Pages, error)
}

// Pages are the pages of some columns. The pages of all columns have the same rows.
type Pages interface {
	// Next decodes the next page of each column; io.EOF after the last.
	Next() error
	// Page returns the page of column i of those opened.
	Page(i int) *Page
	// Close ends the use of the pages: the next ones of the Form may take their memory.
	Close()
}

// Column is a column of a Form.
type Column struct {
	Name string
	List bool // its rows have lists of values
	Type Type
}

// Page is some rows of a column.
type Page struct {
	Values Values  // without nulls, or of a dictionary
	Index  []int32 // of the values, in Values; nil: all in order
	Dict   int     // number of the dictionary, which changes with Values; 0: none
	Rows   int

	// Levels says what is in each row: 0 if there is nothing, 1 for a value; nil: a value in each.
	// Of a list, it says what is in each place: 0 for a row without places, 1 for a null, 2 for a
	// value; and Repeats is 1 if the place is in the same row as the one before.
	Levels, Repeats []byte
}

// Kind is the logical type of a column.
type Kind int

// The kinds. Each has one physical type, or one of several.
const (
	Bytes     Kind = iota // Bytes
	String                // Bytes
	Boolean               // Bits
	Int                   // Int32s, Int64s
	Uint                  // Int32s
	Uint64                // Int64s
	Float16               // Bytes of width 2
	Float                 // Floats
	Double                // Doubles
	Decimal               // Int32s, Int64s, Bytes with the highest byte first
	Date                  // Int32s, days
	TimeOfDay             // Int32s, Int64s
	Timestamp             // Int64s
	UUID                  // Bytes of width 16
	Interval              // Bytes of width 12: months, days, milliseconds
)

// Type is the type of a column.
type Type struct {
	Kind  Kind
	Wide  bool // numbers are in Int64s
	Width int  // of Bytes; 0: values have offsets
	Scale int
	Unit  time.Duration
	UTC   bool
	Zone  string // its name, if there is one
}

// element returns the column of Parquet that has the same values.
func (t Type) element() *format.SchemaElement {
	e := new(format.SchemaElement)
	physical := format.ByteArray
	switch {
	case t.Kind == Boolean:
		physical = format.Boolean
	case t.Kind == Float:
		physical = format.Float
	case t.Kind == Double:
		physical = format.Double
	case t.Width > 0:
		physical = format.FixedLenByteArray
		e.TypeLength.V, e.TypeLength.Valid = int32(t.Width), true
	case t.Wide:
		physical = format.Int64
	case t.Kind == Int || t.Kind == Uint || t.Kind == Date || t.Kind == TimeOfDay:
		physical = format.Int32
	}
	e.Type.V, e.Type.Valid = physical, true
	unit := format.TimeUnit{Value: &format.NanoSeconds{}}
	switch t.Unit {
	case time.Millisecond:
		unit.Value = &format.MilliSeconds{}
	case time.Microsecond:
		unit.Value = &format.MicroSeconds{}
	}
	l := &e.LogicalType
	switch t.Kind {
	case String:
		l.Value = &format.StringType{}
	case Int:
		l.Value = &format.IntType{BitWidth: 64, IsSigned: true}
	case Uint:
		l.Value = &format.IntType{BitWidth: 32}
	case Uint64:
		l.Value = &format.IntType{BitWidth: 64}
	case Float16:
		l.Value = &format.Float16Type{}
	case Decimal:
		l.Value = &format.DecimalType{Scale: int32(t.Scale)}
	case Date:
		l.Value = &format.DateType{}
	case TimeOfDay:
		l.Value = &format.TimeType{IsAdjustedToUTC: t.UTC, Unit: unit}
	case Timestamp:
		l.Value = &format.TimestampType{IsAdjustedToUTC: t.UTC, Unit: unit}
	case UUID:
		l.Value = &format.UUIDType{}
	case Interval:
		e.ConvertedType.V, e.ConvertedType.Valid = deprecated.Interval, true
	}
	return e
}

// Stored are values as a file stores them, in the field of their physical type. Offsets are those
// of strings in Bytes, one more than there are strings. The slices are used by the Values made of
// them.
type Stored struct {
	Bits    []byte
	Int32s  []int32
	Int64s  []int64
	Floats  []float32
	Doubles []float64
	Bytes   []byte
	Offsets []uint32
}

// Converter makes Values of stored values of one type.
type Converter struct {
	element *format.SchemaElement
	convert conversion
	src     typed
}

// NewConverter returns an error if there is no text for values of a type.
func NewConverter(t Type) (*Converter, error) {
	c := &Converter{element: t.element()}
	var err error
	c.convert, err = conversionOf(c.element)
	return c, err
}

// Convert sets v to n stored values. It keeps the memory of v, which is not shared by others.
func (c *Converter) Convert(v *Values, s *Stored, n int) error {
	c.src = typed{bits: s.Bits, int32s: s.Int32s, int64s: s.Int64s, floats: s.Floats, doubles: s.Doubles, bytes: s.Bytes, offsets: s.Offsets}
	c.src.prepare(c.element)
	if c.element.Type.V == format.Boolean {
		// bits beyond the last value would count as values
		return c.booleans(v, n)
	}
	if c.src.len() != n {
		return fmt.Errorf("%d values of %d", c.src.len(), n)
	}
	if c.convert == nil {
		v.typed = c.src
		return nil
	}
	return c.convert(&v.typed, &c.src)
}

// booleans writes n bits.
func (c *Converter) booleans(v *Values, n int) (err error) {
	if n > 8*len(c.src.bits) {
		return errShort
	}
	t := &v.typed
	t.begin()
	for i := range n {
		if t.bytes, err = appendBool(t.bytes, &c.src, i); err != nil {
			return err
		}
		t.offsets = append(t.offsets, uint32(len(t.bytes)))
	}
	return nil
}

// New returns a File of another format.
func New(form Form) (*File, error) {
	f := &File{form: form, layout: &layout{found: map[string]leaf{}, unread: form.Unread()}, groups: form.Groups()}
	if len(f.groups) > maxGroups {
		return nil, fmt.Errorf("it has %d groups of rows, at most %d are possible", len(f.groups), maxGroups)
	}
	for _, n := range f.groups {
		if n < 0 || n > math.MaxInt32 {
			return nil, fmt.Errorf("a group of %d rows", n)
		}
	}
	for i, c := range form.Columns() {
		if _, twice := f.found[c.Name]; twice {
			f.unread = append(f.unread, Unread{c.Name + " (again)", "has the name of another column, which is read; rename one"})
			continue
		}
		f.found[c.Name], f.names = leaf{index: i}, append(f.names, c.Name)
	}
	return f, nil
}

// formed prepares the columns of a Reader of a Form.
func (r *Reader) formed(f *File, group int, names []string) error {
	columns := f.form.Columns()
	var of []int
	shared := &shared{}
	for i, name := range names {
		leaf, ok := f.found[name]
		if !ok || r.columns[i].fixed {
			continue
		}
		r.columns[i] = column{name: name, list: columns[leaf.index].List, origin: origin{form: shared, of: len(of)}}
		if r.columns[i].most = 1; r.columns[i].list {
			r.columns[i].most, r.columns[i].leaf.place = 2, 1
		}
		of = append(of, leaf.index)
	}
	var err error
	shared.pages, err = f.form.Open(group, of)
	r.form = shared.pages
	return err
}

// shared are the pages of the columns of a Reader.
type shared struct {
	pages Pages
	turn  int // number of the pages read
}

// next sets c to its next page.
func (s *shared) next(c *column) error {
	if c.turn == s.turn {
		if err := s.pages.Next(); err != nil {
			return err
		}
		s.turn++
	}
	c.turn = s.turn
	p := s.pages.Page(c.of)
	c.level, c.at, c.index, c.dict, c.values = 0, 0, p.Index, p.Dict, &p.Values
	c.levels, c.repeats, c.count = p.Levels, p.Repeats, len(p.Levels)
	if p.Levels == nil {
		c.count, c.most = p.Rows, 0
	} else if c.most = 1; c.list {
		c.most = 2
	}
	if c.list && c.levels == nil {
		return io.ErrUnexpectedEOF
	}
	return nil
}
