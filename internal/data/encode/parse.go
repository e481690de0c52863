package encode

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/value"
)

// parser turns records into the values of the columns of a schema. It belongs
// to one goroutine.
type parser struct {
	decoder record.Decoder
	reads   []string // read by the decoder
	derives bool     // some columns are derived, or a condition excludes records
	columns []schema.Column
	numeric []bool // by column
	missing []string
	label   labelRule
	targets []target
	headed  string // hint for a value that is the name of its column

	// By column, valid until the next record:
	lists   []value.List
	numbers []float64   // if the column is numeric
	vectors [][]float64 // the elements, if the column is a vector, NaN where they are missing; otherwise nil
	cuts    [][]byte    // their separators
	absent  []bool      // the value is missing
	one     bool        // the label is 1

	text []byte
	// invalid, if not nil, is called for a number that is not finite, which then is missing. Otherwise
	// it is a flaw.
	invalid func(column string, rows int64)
	undated func(column string, rows int64) // counts values that should be dates and are none; nil: nothing does
	rows    int64                           // that have the value which is parsed
	strict  bool                            // such a value is a flaw
	notDate *record.Flaw                    // of the last one, if strict
}

// newParser returns a parser of records with these fields, which include all that the
// schema names.
func newParser(src schema.Source, fields []string, s schema.Schema) (*parser, error) {
	return newParserOf(src, s, func(reads []string) (record.Decoder, error) {
		return record.NewFormat(src).Decoder(fields, reads)
	})
}

// newParserOf returns a parser of the records that a decoder of the fields read decodes.
func newParserOf(src schema.Source, s schema.Schema, decoder func(reads []string) (record.Decoder, error)) (*parser, error) {
	p := &parser{columns: s.Columns(), missing: src.Missing, label: newLabelRule(s.Label), rows: 1}
	p.targets = newTargets(s, p.columns)
	n := len(p.columns)
	for _, c := range p.columns {
		p.numeric = append(p.numeric, c.Number)
		var v []float64
		if c.Vector > 0 {
			v = make([]float64, c.Vector)
		}
		p.vectors, p.cuts = append(p.vectors, v), append(p.cuts, []byte(c.Separator))
	}
	p.lists, p.numbers, p.absent = make([]value.List, n), make([]float64, n), make([]bool, n)
	switch {
	case src.Header && src.HasLayout():
		p.headed = "; this looks like another header: remove the line, or let it be left out with data.max_bad"
	case src.HasLayout():
		p.headed = "; this looks like a header: set data.header: true"
	}
	d, err := newDeriver(src, p.columns, p)
	if err != nil {
		return nil, err
	}
	if d == nil {
		p.reads = p.names()
		p.decoder, err = decoder(p.reads)
		return p, err
	}
	p.reads, p.decoder, p.derives = d.fields, d, true
	d.Decoder, err = decoder(p.reads)
	return p, err
}

// names returns the names of the columns.
func (p *parser) names() []string {
	names := make([]string, len(p.columns))
	for i, c := range p.columns {
		names[i] = c.Name
	}
	return names
}

// parse reads a record into the parser's columns.
func (p *parser) parse(record []byte) *record.Flaw {
	if fl := p.decoder.Decode(record, p.lists); fl != nil {
		return fl
	}
	plain := len(p.missing) == 0
	for i := range p.lists {
		l := &p.lists[i]
		if plain && l.Kind == value.Text && len(l.Texts) == 1 && p.vectors[i] == nil { // the common case
			text := l.Texts[0]
			if p.absent[i] = len(text) == 0; p.absent[i] || !p.numeric[i] {
				continue
			}
			if x, ok := value.SmallNumber(text); ok {
				p.numbers[i] = x
				continue
			}
		}
		if fl := p.parseColumn(i); fl != nil {
			return fl
		}
	}
	if fl := p.parseLabel(); fl != nil {
		return fl
	}
	return p.checkTargets()
}

// parseColumn decides whether a column is missing, and parses its number.
func (p *parser) parseColumn(i int) *record.Flaw {
	l := &p.lists[i]
	if p.absent[i] = p.isAbsent(l); p.absent[i] {
		return nil
	}
	if p.vectors[i] != nil {
		return p.parseVector(i)
	}
	if !p.numeric[i] {
		p.absent[i] = l.Len() == 1 && p.isInvalid(i, l, 0)
		return nil
	}
	x, why := number(l)
	if p.forgives(p.columns[i].Name, why) {
		p.absent[i] = true
		return nil
	}
	if why != "" {
		return p.flaw(i, why)
	}
	p.numbers[i] = x
	return nil
}

// isInvalid reports whether value k of a column of strings is a number that is not finite, which then is missing, and
// counts it. Its text would be a word like any other.
func (p *parser) isInvalid(column int, l *value.List, k int) bool {
	if p.invalid == nil || l.Kind != value.Float32 && l.Kind != value.Float64 || !math.IsNaN(l.Reals[k]-l.Reals[k]) {
		return false
	}
	p.invalid(p.columns[column].Name, p.rows)
	return true
}

// noteUndated counts a value of a feature that should be a date and is none, and makes it a flaw if p is
// strict.
func (p *parser) noteUndated(f *featureCode, text []byte) {
	if p.undated == nil || !f.encoding.Date() || f.dates == nil {
		return
	}
	if _, ok := f.dates.format.Seconds(text); ok {
		return
	}
	if p.undated(p.columns[f.column].Name, p.rows); p.strict {
		p.notDate = &record.Flaw{Column: p.columns[f.column].Name, Value: string(record.CutLong(text)), Want: f.dates.notDate()}
	}
}

// takeNotDate returns the flaw that noteUndated has found since the last call.
func (p *parser) takeNotDate() (fl *record.Flaw) {
	fl, p.notDate = p.notDate, nil
	return fl
}

// forgives reports whether a value with this fault is missing instead, and counts it.
func (p *parser) forgives(column, why string) bool {
	if p.invalid == nil || !value.IsNotFinite(why) {
		return false
	}
	p.invalid(column, p.rows)
	return true
}

func (p *parser) parseLabel() *record.Flaw {
	if p.label.IsNone() {
		p.one = false
		return nil
	}
	if p.absent[0] {
		return p.flaw(0, p.whyMissing(0)+"; every record needs a label")
	}
	l := &p.lists[0]
	if n := l.Len(); n > 1 {
		return p.flaw(0, fmt.Sprintf("has %d values; a label has one", n))
	}
	if p.label.IsNumber() {
		p.one = false
		return nil
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

// flaw returns the flaw of the value of a column.
func (p *parser) flaw(column int, want string) *record.Flaw {
	const shown = 8 // values of a list
	l, text := &p.lists[column], []byte(nil)
	for i := range min(l.Len(), shown) {
		if i > 0 {
			text = append(text, ' ')
		}
		text = l.Append(text, i)
	}
	if l.Kind == value.Text && string(text) == p.columns[column].Name {
		want += p.headed
	}
	return &record.Flaw{Column: p.columns[column].Name, Value: string(record.CutLong(text)), Want: want}
}

// columnOf returns the column of a field that the schema names.
func (p *parser) columnOf(field string) int {
	return 1 + slices.IndexFunc(p.columns[1:], func(c schema.Column) bool { return c.Name == field })
}

// textOf returns value i as text, valid until the next call.
func (p *parser) textOf(l *value.List, i int) []byte {
	if l.Kind == value.Text {
		return l.Texts[i]
	}
	p.text = l.Append(p.text[:0], i)
	return p.text
}

// whyMissing describes a column that is missing, with the key of the configuration that makes
// its value missing.
func (p *parser) whyMissing(column int) string {
	if l := &p.lists[column]; l.Len() == 0 || len(l.Append(nil, 0)) == 0 {
		return "is missing"
	}
	return "is missing, because data.missing lists it"
}

// isAbsent reports whether a field is missing: it has no value, or one that is listed as
// missing.
func (p *parser) isAbsent(l *value.List) bool {
	switch l.Len() {
	case 0:
		return true
	case 1:
		return p.isMissing(l, 0)
	}
	return false
}

// isMissing reports whether value i is empty or listed as missing.
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

// number returns the number in a list of one. why is the fault, "" for none.
func number(l *value.List) (x float64, why string) {
	if n := l.Len(); n != 1 {
		return 0, fmt.Sprintf("has %d values; a number has one", n)
	}
	return numberAt(l, 0)
}

// numberAt returns value i as a number.
func numberAt(l *value.List, i int) (x float64, why string) {
	switch l.Kind {
	case value.Text:
		if x, why = value.ParseNumber(l.Texts[i]); why != "" {
			if all := truthsLike(l.Texts[i]); all != nil { // a truth value is 1 or 0
				return value.ParseNumber(all[0])
			}
		}
		return x, why
	case value.Int:
		return float64(l.Ints[i]), ""
	}
	return value.CheckNumber(l.Reals[i])
}

// labelRule maps values of the label to 0 and 1.
type labelRule struct {
	schema.Label
	ones, zeros []string // the listed values, and other forms of the same numbers
}

func newLabelRule(l schema.Label) labelRule {
	return labelRule{l, respelt(l.Positive, l.Negative), respelt(l.Negative, l.Positive)}
}

// respelt adds the other spellings of values, such as 1.0 and true of 1. Those that are in
// others are not added.
func respelt(values, others []string) []string {
	all := slices.Clone(values)
	for _, s := range values {
		for _, other := range Spellings([]byte(s)) {
			if !slices.Contains(others, other) && !slices.Contains(all, other) {
				all = append(all, other)
			}
		}
	}
	return all
}

// of maps a value by the listed values.
func (l *labelRule) of(text []byte) (one, ok bool) {
	for _, p := range l.ones {
		if string(text) == p {
			return true, true
		}
	}
	if len(l.Negative) == 0 {
		return false, true
	}
	for _, n := range l.zeros {
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
	set := "label.positive and label.negative"
	if slices.Equal(l.Positive, []string{"1"}) {
		set = "label.positive, or label.threshold for numbers"
	}
	return "is not a value of the label; expected one of " + strings.Join(all, ", ") + " (set " + set + ")"
}
