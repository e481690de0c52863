package data

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/wdlrun/wdlrun/data/value"
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
		if _, ok := at[f.Weights]; f.Weights != "" && !ok {
			at[f.Weights] = len(cols)
			cols = append(cols, column{name: f.Weights})
		}
	}
	return cols
}

// parser turns records into the values of the columns of a schema. It belongs
// to one goroutine.
type parser struct {
	decoder decoder
	columns []column
	missing []string
	label   labelRule
	headed  string // what to do about a value that is the name of its column

	// Of the columns, valid until the next record:
	lists   []value.List
	numbers []float64 // of columns that are numbers
	absent  []bool    // the value is missing
	one     bool      // the label is 1

	text []byte
}

// newParser decodes records of these fields, all of which the schema names
// exist.
func newParser(src Source, fields []string, s Schema) (*parser, error) {
	p := &parser{columns: s.columns(), missing: src.Missing, label: newLabelRule(s.Label)}
	n := len(p.columns)
	p.lists, p.numbers, p.absent = make([]value.List, n), make([]float64, n), make([]bool, n)
	switch {
	case src.Header && src.HasLayout():
		p.headed = "; this looks like another header: remove the line, or let it be left out with data.max_bad"
	case src.HasLayout():
		p.headed = "; this looks like a header: set data.header: true"
	}
	var err error
	p.decoder, err = newFormat(src).decoder(fields, p.names())
	return p, err
}

// names are those of the columns.
func (p *parser) names() []string {
	names := make([]string, len(p.columns))
	for i, c := range p.columns {
		names[i] = c.name
	}
	return names
}

// parse reads a record into the parser's columns.
func (p *parser) parse(record []byte) *flaw {
	if fl := p.decoder.decode(record, p.lists); fl != nil {
		return fl
	}
	for i := range p.columns {
		l := &p.lists[i]
		if l.Kind == value.Text && len(l.Texts) == 1 && !p.columns[i].number && len(p.missing) == 0 {
			p.absent[i] = len(l.Texts[0]) == 0 // the usual case
			continue
		}
		if p.absent[i] = p.isAbsent(l); p.absent[i] || !p.columns[i].number {
			continue
		}
		x, why := number(l)
		if why != "" {
			return p.flaw(i, why)
		}
		p.numbers[i] = x
	}
	return p.parseLabel()
}

func (p *parser) parseLabel() *flaw {
	if p.absent[0] {
		return p.flaw(0, "is missing; every record needs a label")
	}
	l := &p.lists[0]
	if n := l.Len(); n > 1 {
		return p.flaw(0, fmt.Sprintf("is %d values; a label is one", n))
	}
	if p.label.Threshold != nil {
		p.one = p.numbers[0] >= *p.label.Threshold
		return nil
	}
	one, ok := p.label.of(p.textOf(l, 0))
	if !ok {
		return p.flaw(0, p.label.expected())
	}
	p.one = one
	return nil
}

// flaw is about the value of a column.
func (p *parser) flaw(column int, want string) *flaw {
	l, text := &p.lists[column], []byte(nil)
	if l.Len() > 0 {
		text = l.Append(nil, 0)
	}
	if l.Kind == value.Text && string(text) == p.columns[column].name {
		want += p.headed
	}
	return &flaw{column: p.columns[column].name, value: string(cutLong(text)), want: want}
}

// columnOf is the place of a field that the schema names.
func (p *parser) columnOf(field string) int {
	return 1 + slices.IndexFunc(p.columns[1:], func(c column) bool { return c.name == field })
}

// textOf is value i as text, valid until the next call.
func (p *parser) textOf(l *value.List, i int) []byte {
	if l.Kind == value.Text {
		return l.Texts[i]
	}
	p.text = l.Append(p.text[:0], i)
	return p.text
}

// isAbsent tells whether a field is missing: it has no value, or one that means
// so.
func (p *parser) isAbsent(l *value.List) bool {
	switch l.Len() {
	case 0:
		return true
	case 1:
		return p.isMissing(l, 0)
	}
	return false
}

// isMissing tells whether value i means missing.
func (p *parser) isMissing(l *value.List, i int) bool {
	if l.Kind != value.Text && len(p.missing) == 0 {
		return false
	}
	return p.isMissingText(p.textOf(l, i))
}

func (p *parser) isMissingText(b []byte) bool {
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

// number is the one number that a list is. why says what is wrong with it, ""
// if nothing is.
func number(l *value.List) (x float64, why string) {
	if n := l.Len(); n != 1 {
		return 0, fmt.Sprintf("is %d values; a number is one", n)
	}
	switch l.Kind {
	case value.Text:
		return parseNumber(l.Texts[0])
	case value.Int:
		return float64(l.Ints[0]), ""
	}
	return checkNumber(l.Reals[0])
}

// checkNumber refuses numbers that float32, in which the model computes, cannot
// hold.
func checkNumber(x float64) (float64, string) {
	switch {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return 0, notFinite
	case math.Abs(x) > math.MaxFloat32:
		return 0, tooLarge
	}
	return x, ""
}

// What may be wrong with a number.
const (
	notFinite = "is no finite number; if it means missing, list it in data.missing"
	tooLarge  = "is larger than a 32-bit floating point number can be (3.4e38)"
)

// labelRule decides between 0 and 1.
type labelRule struct{ Label }

func newLabelRule(l Label) labelRule { return labelRule{l} }

// of decides by the listed values.
func (l *labelRule) of(text []byte) (one, ok bool) {
	for _, p := range l.Positive {
		if string(text) == p {
			return true, true
		}
	}
	if len(l.Negative) == 0 {
		return false, true
	}
	for _, n := range l.Negative {
		if string(text) == n {
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
				return 0, notFinite
			}
			return 0, want
		}
	}
	x, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(b), len(b)), 64)
	switch {
	case err != nil && !math.IsInf(x, 0):
		return 0, want
	case math.Abs(x) > math.MaxFloat32:
		return 0, tooLarge
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
