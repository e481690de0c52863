package arrow

import (
	"fmt"
	"slices"
	"time"

	"github.com/wdlrun/wdlrun/internal/data/flat"
	"github.com/wdlrun/wdlrun/internal/data/table"
)

// Types of the schema.
const (
	typeNull = iota + 1
	typeInt
	typeFloat
	typeBinary
	typeUtf8
	typeBool
	typeDecimal
	typeDate
	typeTime
	typeTimestamp
	typeInterval
	typeList
	typeStruct
	typeUnion
	typeFixedBinary
	typeFixedList
	typeMap
	typeDuration
	typeLargeBinary
	typeLargeUtf8
	typeLargeList
	typeRunEnds
	typeBinaryView
	typeUtf8View
	typeListView
	typeLargeListView
)

// Limits of a schema.
const (
	maxNesting = 64
	maxFields  = 1 << 16
)

// field is a field of the schema.
type field struct {
	name      string
	kind      byte
	number    int  // in depth-first order
	width     int  // bits of a number, bytes of a fixed string, values of a fixed list
	signed    bool // of a number
	scale     int
	unit      int    // of a time: 10^(-3·unit) s; of a date: 0 for days
	zone      string // of a timestamp; "" for none
	dense     bool   // of a union
	extension string
	children  []*field

	indexed bool // values are those of a dictionary
	dict    int64
	index   *field // type of the indexes
}

// schema reads the fields of a schema.
type schema struct {
	flat.Buffer
	fields int
}

func (s *schema) field(at, nesting int) (*field, error) {
	if s.fields++; s.fields > maxFields || nesting > maxNesting {
		return nil, fmt.Errorf("its schema has more than %d fields, or %d in one another", maxFields, maxNesting)
	}
	f := &field{name: s.Text(at, 0), kind: byte(s.Number(at, 2, 1, 0)), number: s.fields - 1}
	s.parameters(f, s.Ref(at, 3))
	if d := s.Ref(at, 4); d != 0 {
		f.indexed, f.dict = true, s.Number(d, 0, 8, 0)
		f.index = &field{kind: typeInt, width: 32, signed: true}
		if t := s.Ref(d, 1); t != 0 {
			s.parameters(f.index, t)
		}
	}
	s.Each(at, 6, func(pair int) {
		if s.Text(pair, 0) == "ARROW:extension:name" {
			f.extension = s.Text(pair, 1)
		}
	})
	var fault error
	s.Each(at, 5, func(child int) {
		if fault != nil {
			return
		}
		var c *field
		if c, fault = s.field(child, nesting+1); fault == nil {
			f.children = append(f.children, c)
		}
	})
	return f, fault
}

// parameters reads the table of a type.
func (s *schema) parameters(f *field, t int) {
	switch f.kind {
	case typeInt:
		f.width, f.signed = int(s.Number(t, 0, 4, 0)), s.Number(t, 1, 1, 0) != 0
	case typeFloat:
		f.width = 16 << min(uint(s.Number(t, 0, 2, 0)), 2)
	case typeDecimal:
		f.scale, f.width = int(s.Number(t, 1, 4, 0)), int(s.Number(t, 2, 4, 128))
	case typeDate:
		f.unit, f.width = int(s.Number(t, 0, 2, 1)), 32
		if f.unit != 0 {
			f.width = 64
		}
	case typeTime:
		f.unit, f.width = int(s.Number(t, 0, 2, 1)), int(s.Number(t, 1, 4, 32))
	case typeTimestamp:
		f.unit, f.width, f.zone = int(s.Number(t, 0, 2, 0)), 64, s.Text(t, 1)
	case typeFixedBinary, typeFixedList:
		f.width = int(s.Number(t, 0, 4, 0))
	case typeUnion:
		f.dense = s.Number(t, 0, 2, 0) == 1
	}
}

// column is a column that can be read.
type column struct {
	table.Column
	within     []*field // structs
	list       *field   // or map; nil: flat
	items      []*field // structs in the list
	leaf       *field
	convert    *table.Converter
	dictionary dictionary
}

// columns finds the columns in a field. up has the structs and the list around it.
func (x *File) columns(f *field, name string, up column) {
	why := unread(f)
	switch {
	case why != "":
	case f.kind == typeStruct:
		if up.list == nil {
			up.within = append(slices.Clip(up.within), f)
		} else {
			up.items = append(slices.Clip(up.items), f)
		}
		for _, child := range f.children {
			x.columns(child, name+"."+child.name, up)
		}
		return
	case f.kind == typeMap:
		up.list, up.items = f, f.children[:1:1]
		for i, part := range []string{".key", ".value"} {
			x.columns(f.children[0].children[i], name+part, up)
		}
		return
	case isNested(f) && up.list != nil:
		why = notPlain
	case isNested(f):
		if item := f.children[0]; isNested(item) && item.kind != typeStruct {
			why = notPlain
			break
		}
		up.list = f
		x.columns(f.children[0], name, up)
		return
	default:
		why = x.column(f, name, up)
	}
	if why != "" {
		x.unread = append(x.unread, table.Unread{Name: name, Why: why})
	}
}

// column adds a column of plain values, or returns why they cannot be read.
func (x *File) column(f *field, name string, c column) (why string) {
	c.Name, c.List, c.leaf = name, c.list != nil, f
	var err error
	if c.Type, err = typeOf(f); err == nil {
		c.convert, err = table.NewConverter(c.Type)
	}
	if err != nil {
		return err.Error()
	}
	x.all = append(x.all, c)
	return ""
}

const notPlain = "is a list of lists or maps; write lists of plain values or of structs of them (DuckDB: flatten, list_transform)"

// unread returns why the values of a field are not read, "" if they may be.
func unread(f *field) string {
	switch children := len(f.children); {
	case f.indexed && isNested(f):
		return "is a dictionary of lists or structs; write it without dictionary"
	case f.extension != "" && !table.SameAsStored(f.extension):
		return fmt.Sprintf("is of the Arrow extension type %s; write its values as a plain type", f.extension)
	case f.kind == typeMap && !hasPlainEntries(f):
		return "is a map of other than plain values; write a column for each key that matters (DuckDB: SELECT m['key'] AS key)"
	case f.kind == typeUnion:
		return "is a union; write a column for each of its types"
	case f.kind == typeRunEnds:
		return "is run-end encoded; write it as plain values (pyarrow: pc.run_end_decode)"
	case f.kind == typeInterval:
		return "is an interval; write it as a number"
	case f.kind == typeDuration:
		return "is a duration; write it as a number (Polars, pandas: dt.total_seconds())"
	case f.kind == typeInt && f.width > 64:
		return fmt.Sprintf("is an integer of %d bits; write it as an integer of 64 bits or as text", f.width)
	case isNested(f) && f.kind != typeStruct && f.kind != typeMap && children != 1:
		return fmt.Sprintf("is a list of %d types", children)
	}
	return ""
}

// hasPlainEntries reports whether the keys and values of a map are plain.
func hasPlainEntries(f *field) bool {
	if len(f.children) != 1 || f.children[0].kind != typeStruct || len(f.children[0].children) != 2 {
		return false
	}
	return !slices.ContainsFunc(f.children[0].children, func(c *field) bool { return isNested(c) || unread(c) != "" })
}

// isNested reports whether a field has members or elements.
func isNested(f *field) bool {
	switch f.kind {
	case typeList, typeLargeList, typeFixedList, typeListView, typeLargeListView, typeStruct, typeUnion, typeMap, typeRunEnds:
		return true
	}
	return false
}

// typeOf returns the type of the values of a field.
func typeOf(f *field) (t table.Type, err error) {
	units := []time.Duration{time.Millisecond, time.Millisecond, time.Microsecond, time.Nanosecond}
	t.Unit = units[min(max(f.unit, 0), 3)]
	t.UTC, t.Zone = f.zone != "", f.zone
	switch f.kind {
	case typeNull, typeUtf8, typeLargeUtf8, typeUtf8View:
		t.Kind = table.String
	case typeBinary, typeLargeBinary, typeBinaryView:
		t.Kind = table.Bytes
	case typeFixedBinary:
		t.Width = f.width
		if f.extension == "arrow.uuid" && f.width == 16 {
			t.Kind = table.UUID
		}
		if f.width <= 0 || f.width > maxWidth {
			err = fmt.Errorf("has strings of %d bytes, 1 to %d are possible", f.width, maxWidth)
		}
	case typeBool:
		t.Kind = table.Boolean
	case typeFloat:
		t.Kind = map[int]table.Kind{16: table.Float16, 32: table.Float, 64: table.Double}[f.width]
		if f.width == 16 {
			t.Width = 2
		}
	case typeDecimal:
		t.Kind, t.Scale, t.Width = table.Decimal, f.scale, f.width/8
		if f.width != 32 && f.width != 64 && f.width != 128 && f.width != 256 {
			err = fmt.Errorf("is a decimal of %d bits", f.width)
		}
	case typeDate:
		t.Kind = table.Date
	case typeTime:
		t.Kind, t.Wide = table.TimeOfDay, f.width == 64
		if f.width != 32 && f.width != 64 {
			err = fmt.Errorf("is a time of %d bits", f.width)
		}
	case typeTimestamp:
		t.Kind, t.Wide = table.Timestamp, true
	case typeInt:
		switch {
		case f.width != 8 && f.width != 16 && f.width != 32 && f.width != 64:
			err = fmt.Errorf("is an integer of %d bits", f.width)
		case f.width == 64 && f.signed:
			t.Kind, t.Wide = table.Int, true
		case f.width == 64:
			t.Kind, t.Wide = table.Uint64, true
		case f.width == 32 && !f.signed:
			t.Kind = table.Uint
		default:
			t.Kind = table.Int
		}
	default:
		err = fmt.Errorf("is of the type %d of Arrow, which is not supported; write it as another type", f.kind)
	}
	return t, err
}
