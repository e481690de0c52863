package write

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"

	"github.com/wdlrun/wdlrun/internal/data/value"
)

// groupRows is the number of rows of a row group. Row groups are shared by the ranks.
const groupRows = 1 << 16

// parquetRows writes Parquet.
type parquetRows struct {
	table
	w   *parquet.GenericWriter[any]
	row parquet.Row
}

// ordered is a group that keeps the order of its fields.
type ordered struct {
	parquet.Group
	names []string
}

func (o ordered) Fields() []parquet.Field {
	fields := o.Group.Fields()
	slices.SortFunc(fields, func(a, b parquet.Field) int {
		return slices.Index(o.names, a.Name()) - slices.Index(o.names, b.Name())
	})
	return fields
}

func newParquet(w io.Writer, codec string, t table) (*parquetRows, error) {
	c, err := codecOf(codec)
	if err != nil {
		return nil, err
	}
	o := ordered{parquet.Group{}, t.names()}
	for i, column := range t.columns {
		if column.Name == "" {
			return nil, fmt.Errorf("write: column %d has no name", i+1)
		}
		var n parquet.Node
		switch column.Kind {
		case value.Int:
			n = parquetInts(column.Time)
		case value.Float32:
			n = parquet.Leaf(parquet.FloatType)
		case value.Float64:
			n = parquet.Leaf(parquet.DoubleType)
		default:
			if column.Truth {
				n = parquet.Leaf(parquet.BooleanType)
				break
			}
			n = parquet.Encoded(parquet.String(), &parquet.RLEDictionary)
		}
		if n = parquet.Compressed(n, c); column.Many {
			n = parquet.List(parquet.Optional(n))
		} else {
			n = parquet.Optional(n)
		}
		o.Group[column.Name] = n
	}
	schema := parquet.NewSchema("records", o)
	return &parquetRows{table: t, w: parquet.NewGenericWriter[any](w, schema, parquet.MaxRowsPerRowGroup(groupRows))}, nil
}

// parquetInts returns the type of integers, or of the dates or times that they are.
func parquetInts(t Time) parquet.Node {
	unit := parquet.Microsecond
	if t.Nanos {
		unit = parquet.Nanosecond
	}
	switch {
	case t == Time{}:
		return parquet.Int(64)
	case t.Type == typeDate:
		return parquet.Date()
	case t.clock():
		return parquet.TimeAdjusted(unit, t.zoned())
	}
	return parquet.TimestampAdjusted(unit, t.zoned())
}

func codecOf(name string) (compress.Codec, error) {
	switch name {
	case "", "snappy":
		return &parquet.Snappy, nil
	case "gzip":
		return &parquet.Gzip, nil
	case "zstd":
		return &parquet.Zstd, nil
	case "none":
		return &parquet.Uncompressed, nil
	}
	return nil, fmt.Errorf("write: there is no compression %q; there are %s", name, strings.Join(Packings(), ", "))
}

func (x *parquetRows) Write(lists []value.List) error {
	if err := x.take(lists); err != nil {
		return err
	}
	x.row = x.row[:0]
	for i := range x.typed {
		l := &x.typed[i]
		if l.Places() == 0 {
			x.row = append(x.row, parquet.NullValue().Level(0, 0, i))
		}
		level, repeated := 1, 0
		if x.columns[i].Many {
			level = 2
		}
		for j := range l.All {
			if j < 0 {
				x.row = append(x.row, parquet.NullValue().Level(repeated, level-1, i))
			} else {
				x.row = append(x.row, parquetValue(l, j, &x.columns[i]).Level(repeated, level, i))
			}
			repeated = 1
		}
	}
	if _, err := x.w.WriteRows([]parquet.Row{x.row}); err != nil {
		return fmt.Errorf("write: record %d: %w", x.rows, err)
	}
	return nil
}

func parquetValue(l *value.List, j int, c *Column) parquet.Value {
	switch l.Kind {
	case value.Int:
		if c.Time.Type == typeDate {
			return parquet.Int32Value(int32(l.Ints[j]))
		}
		return parquet.Int64Value(l.Ints[j])
	case value.Text:
		if c.Truth {
			return parquet.BooleanValue(string(l.Texts[j]) == "true")
		}
		return parquet.ByteArrayValue(l.Texts[j])
	}
	if c.Kind == value.Float32 {
		return parquet.FloatValue(float32(l.Reals[j]))
	}
	return parquet.DoubleValue(l.Reals[j])
}

func (x *parquetRows) Close() error {
	if err := x.w.Close(); err != nil {
		return fmt.Errorf("write: the footer: %w", err)
	}
	return nil
}
