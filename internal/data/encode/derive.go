package encode

import (
	"math"
	"slices"

	"github.com/wdlrun/wdlrun/internal/data/expr"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/value"
)

// Excluded is the flaw of a record that data.where excludes.
var Excluded = &record.Flaw{Field: -1, Want: "data.where excludes it"}

// deriver is a decoder that adds derived columns to a record and finds the records that
// a condition excludes.
type deriver struct {
	record.Decoder
	parser *parser
	fields []string
	lists  []value.List // of the fields
	copied []int        // by column: its field; −1 if it is derived
	values []derived    // of the derived columns, then the condition
	where  bool         // the last of values is the condition
}

// derived computes one column.
type derived struct {
	*expr.Expr
	column int
	field  []int // by field of the expression: its field of the record
	row    expr.Row
	bufs   [][]byte // decimal strings of numbers
}

// newDeriver returns nil if there are neither derived columns nor a condition.
func newDeriver(src schema.Source, columns []schema.Column, p *parser) (*deriver, error) {
	names := p.names()
	d := &deriver{parser: p, fields: src.Reads(names), where: src.Where != ""}
	for i, c := range columns {
		at := slices.IndexFunc(src.Derive, func(x schema.Derived) bool { return x.Name() == c.Name })
		if at < 0 {
			d.copied = append(d.copied, slices.Index(d.fields, c.Name))
			continue
		}
		d.copied = append(d.copied, -1)
		if err := d.add(src.Derive[at].Expression(), i); err != nil {
			return nil, err
		}
	}
	if d.where {
		if err := d.add(src.Where, -1); err != nil {
			return nil, err
		}
	}
	if len(d.values) == 0 {
		return nil, nil
	}
	d.lists = make([]value.List, len(d.fields))
	return d, nil
}

func (d *deriver) add(expression string, column int) error {
	e, err := expr.Parse(expression)
	if err != nil {
		return err
	}
	x := derived{Expr: e, column: column, row: expr.Row{Numbers: make([]float64, len(e.Fields)), Texts: make([][]byte, len(e.Fields))}}
	for _, f := range e.Fields {
		x.field, x.bufs = append(x.field, slices.Index(d.fields, f.Name)), append(x.bufs, nil)
	}
	d.values = append(d.values, x)
	return nil
}

// Decode fills one list per column.
func (d *deriver) Decode(b []byte, lists []value.List) *record.Flaw {
	if fl := d.Decoder.Decode(b, d.lists); fl != nil {
		return fl
	}
	for i, field := range d.copied {
		if field >= 0 {
			lists[i] = d.lists[field]
		}
	}
	for i := range d.values {
		if fl := d.compute(&d.values[i], lists); fl != nil {
			return fl
		}
	}
	return nil
}

// compute computes a derived column from the lists of the fields.
func (d *deriver) compute(x *derived, lists []value.List) *record.Flaw {
	if fl := d.load(x); fl != nil {
		return fl
	}
	v := x.Value(&x.row)
	switch {
	case x.column >= 0:
		put(&lists[x.column], v)
	case v != 1:
		return Excluded
	}
	return nil
}

// put sets l to one number, or to missing. An integral number becomes an integer, whose
// text is 1, not 1.0.
func put(l *value.List, x float64) {
	l.Reset()
	switch {
	case math.IsNaN(x) || math.IsInf(x, 0):
	case x == math.Trunc(x) && math.Abs(x) < 1<<53:
		l.Begin(value.Int)
		l.Ints = append(l.Ints, int64(x))
	default:
		l.Begin(value.Float64)
		l.Reals = append(l.Reals, x)
	}
}

// load sets the variables of an expression to the values of its fields.
func (d *deriver) load(x *derived) *record.Flaw {
	for i, f := range x.Fields {
		l := &d.lists[x.field[i]]
		x.row.Numbers[i], x.row.Texts[i] = math.NaN(), nil
		if d.parser.isAbsent(l) {
			continue
		}
		if f.Number {
			y, why := number(l)
			if d.parser.forgives(f.Name, why) {
				continue
			}
			if why != "" {
				return &record.Flaw{Column: f.Name, Value: string(record.CutLong(l.Append(nil, 0))), Want: why}
			}
			x.row.Numbers[i] = y
		}
		if !f.Text {
			continue
		}
		if l.Len() > 1 {
			return &record.Flaw{Column: f.Name, Want: "is several values; an expression takes one"}
		}
		if l.Kind == value.Text {
			x.row.Texts[i] = l.Texts[0]
		} else {
			x.bufs[i] = l.Append(x.bufs[i][:0], 0)
			x.row.Texts[i] = x.bufs[i]
		}
	}
	return nil
}
