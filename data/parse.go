package data

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unsafe"
)

// column is a field that the label or a feature needs.
type column struct {
	name   string
	number bool // some encoding takes it as a number
}

// columns are the fields a filled schema needs, each once; the label's first.
func (s Schema) columns() []column {
	cols := []column{{s.Label.Field, s.Label.Threshold != nil}}
	at := map[string]int{}
	for _, f := range s.Features {
		i, ok := at[f.Field]
		if !ok {
			i = len(cols)
			at[f.Field] = i
			cols = append(cols, column{name: f.Field})
		}
		if e, _ := encodingOf(f.Encode); e.number() {
			cols[i].number = true
		}
	}
	return cols
}

// value is one field of the current record.
type value struct {
	text    []byte
	number  float64 // of columns that are numbers
	missing bool
}

// parser turns lines into the values of the columns of a schema. It belongs to
// one goroutine.
type parser struct {
	format  format
	width   int // fields of a record
	columns []column
	field   []int // of each column, its place in the record
	missing []string
	label   labelRule

	fields [][]byte
	values []value // of the columns; valid until the next line
	one    bool    // the label is 1
}

func newParser(src Source, fields []string, s Schema) *parser {
	p := &parser{
		format: newFormat(src), width: len(fields), columns: s.columns(),
		missing: src.Missing, label: newLabelRule(s.Label),
	}
	p.values = make([]value, len(p.columns))
	for _, c := range p.columns {
		for i, name := range fields {
			if name == c.name {
				p.field = append(p.field, i)
				break
			}
		}
	}
	return p
}

// parse reads a record into p.values and p.one.
func (p *parser) parse(line []byte) (fl *flaw) {
	if p.fields, fl = p.format.split(line, p.fields[:0]); fl != nil {
		return fl
	}
	if len(p.fields) != p.width {
		return &flaw{field: -1, width: true, want: fmt.Sprintf("the record has %d fields, %d are expected", len(p.fields), p.width)}
	}
	for i := range p.columns {
		v := &p.values[i]
		v.text = p.fields[p.field[i]]
		if v.missing = p.isMissing(v.text); v.missing {
			continue
		}
		if p.columns[i].number {
			x, why := parseNumber(v.text)
			if why != "" {
				return p.flaw(i, v.text, why)
			}
			v.number = x
		}
	}
	return p.parseLabel()
}

func (p *parser) parseLabel() *flaw {
	v := &p.values[0]
	if v.missing {
		return p.flaw(0, v.text, "is missing; every record needs a label")
	}
	one, ok := p.label.of(v)
	if !ok {
		return p.flaw(0, v.text, p.label.expected())
	}
	p.one = one
	return nil
}

func (p *parser) flaw(column int, text []byte, want string) *flaw {
	if string(text) == p.columns[column].name {
		want += "; this looks like a header: set data.header: true"
	}
	return &flaw{column: p.columns[column].name, value: string(cutLong(text)), want: want}
}

func (p *parser) isMissing(b []byte) bool {
	if len(b) == 0 {
		return true
	}
	for _, m := range p.missing {
		if string(b) == m {
			return true
		}
	}
	return false
}

// labelRule decides between 0 and 1.
type labelRule struct{ Label }

func newLabelRule(l Label) labelRule { return labelRule{l} }

func (l *labelRule) of(v *value) (one, ok bool) {
	if l.Threshold != nil {
		return v.number >= *l.Threshold, true
	}
	for _, p := range l.Positive {
		if string(v.text) == p {
			return true, true
		}
	}
	if len(l.Negative) == 0 {
		return false, true
	}
	for _, n := range l.Negative {
		if string(v.text) == n {
			return false, true
		}
	}
	return false, false
}

func (l *labelRule) expected() string {
	const listed = 8
	var all []string
	for _, s := range slices.Concat(l.Positive, l.Negative) {
		all = append(all, strconv.Quote(s))
	}
	if len(all) > listed {
		all = append(all[:listed], "…")
	}
	return "is no value of the label; expected one of " + strings.Join(all, ", ")
}

// parseNumber reads a decimal number. why says what is wrong with it, "" if
// nothing is. Numbers past the range of float32 are refused, for the model
// computes in float32.
func parseNumber(b []byte) (x float64, why string) {
	const want = "is no number"
	x, ok := smallNumber(b)
	if ok {
		return x, ""
	}
	for _, c := range b {
		if (c < '0' || c > '9') && c != '.' && c != '-' && c != '+' && c != 'e' && c != 'E' {
			if s := strings.ToLower(strings.TrimLeft(string(cutLong(b)), "+-")); s == "nan" || s == "inf" || s == "infinity" {
				return 0, "is no finite number; if it means missing, list it in data.missing"
			}
			return 0, want
		}
	}
	x, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(b), len(b)), 64)
	switch {
	case err != nil && !math.IsInf(x, 0):
		return 0, want
	case math.Abs(x) > math.MaxFloat32:
		return 0, "is larger than a 32-bit floating point number can be (3.4e38)"
	}
	return x, ""
}

var powersOfTen = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

// smallNumber reads decimals of at most 15 digits without an exponent, which
// are exact: digits and power of ten are both float64s, so their quotient is
// rounded once. Anything else is left to strconv.
func smallNumber(b []byte) (x float64, ok bool) {
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	if len(b) == 0 || len(b) > 16 {
		return 0, false
	}
	var digits uint64
	n, point := 0, -1
	for i, c := range b {
		switch {
		case c >= '0' && c <= '9':
			digits = digits*10 + uint64(c-'0')
			n++
		case c == '.' && point < 0:
			point = i
		default:
			return 0, false
		}
	}
	if n == 0 || n > 15 {
		return 0, false
	}
	x = float64(digits)
	if point >= 0 {
		x /= powersOfTen[len(b)-1-point]
	}
	if negative {
		x = -x
	}
	return x, true
}

// parseID reads a 64-bit integer; a negative one is taken as its two's
// complement.
func parseID(b []byte) (uint64, bool) {
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	if len(b) == 0 || len(b) > 20 {
		return 0, false
	}
	var x uint64
	for _, c := range b {
		d := uint64(c - '0')
		if d > 9 || x > (1<<64-1-d)/10 {
			return 0, false
		}
		x = x*10 + d
	}
	if negative {
		if x > 1<<63 {
			return 0, false
		}
		x = -x
	}
	return x, true
}
