package encode

import (
	"encoding/binary"
	"fmt"

	"github.com/zeebo/xxh3"

	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/data/wire"
)

// Fit gathers the statistics of the training data that encodings need: the values of
// numeric columns, the strings of vocabularies. Each part of a Scan fills a separate Fit.
// The merged result is the same for any number of parts.
type Fit struct {
	schema schema.Schema // with defaults filled in
	digest uint64
	// One entry per column of the schema that a feature standardises or cuts into quantiles,
	// and one per field and separator of a vocabulary.
	numbers []fitNumbers
	words   []fitWords
	dates   []fitDates
	forms   []fitForms   // one entry per field and separator of a hash
	vectors []fitVectors // one entry per field whose elements are standardised
	// One entry per column of the other encodings.
	constants []fitConstant

	sketches     map[string]*sketch // of numbers, by field
	vocabularies map[wordsKey]*vocabulary
	calendars    map[datesKey]*dateStats

	columns []fitColumn // the entries by column
}

// fitColumn are the entries of one column.
type fitColumn struct {
	column    int
	numbers   []fitNumbers
	words     []fitWords
	dates     []fitDates
	forms     []*fitForms
	vectors   []*fitVectors
	constants []*fitConstant
}

// wordsKey identifies a vocabulary.
type wordsKey struct{ field, separator, pairs, padding string }

func wordsKeyOf(f *schema.Feature) wordsKey {
	return wordsKey{f.Field, f.Separator, f.Pairs, f.Padding}
}

type fitNumbers struct {
	column int
	*sketch
}

type fitWords struct {
	column int
	wordsKey
	*vocabulary
}

// NewFit returns an empty Fit. The schema must be valid.
func NewFit(s schema.Schema) *Fit {
	f := &Fit{schema: s.Fill(), sketches: map[string]*sketch{}, vocabularies: map[wordsKey]*vocabulary{}, calendars: map[datesKey]*dateStats{}}
	cols := f.schema.Columns()
	columnOf := map[string]int{}
	for i, c := range cols[1:] {
		columnOf[c.Name] = i + 1
	}
	h := xxh3.New()
	for _, ft := range f.schema.Features {
		e, _ := schema.EncodingOf(ft.Encode)
		if comparesAll(&ft) && f.constantOf(ft.Field) == nil {
			f.constants = append(f.constants, fitConstant{column: columnOf[ft.Field], field: ft.Field})
		}
		switch e {
		case schema.Quantile, schema.Standardise:
			if f.numbersOf(ft.Field) == nil {
				f.sketches[ft.Field] = newSketch()
				f.numbers = append(f.numbers, fitNumbers{columnOf[ft.Field], f.sketches[ft.Field]})
			}
		case schema.Vector:
			if ft.Standardise && f.vectorsOf(ft.Field) == nil {
				f.vectors = append(f.vectors, fitVectors{columnOf[ft.Field], ft.Field, make([]fitElement, ft.Size)})
			}
		case schema.Vocabulary:
			if f.wordsOf(&ft) == nil {
				v := newVocabulary()
				f.vocabularies[wordsKeyOf(&ft)] = v
				f.words = append(f.words, fitWords{columnOf[ft.Field], wordsKeyOf(&ft), v})
			}
		case schema.Hash, schema.Rate:
			if f.formsOf(&ft) == nil {
				f.forms = append(f.forms, fitForms{column: columnOf[ft.Field], wordsKey: wordsKeyOf(&ft)})
			}
		case schema.Hour, schema.Weekday, schema.Month, schema.Age:
			key := datesKey{ft.Field, ft.Format}
			if f.calendars[key] == nil {
				f.calendars[key] = newDateStats(ft.Format)
				f.dates = append(f.dates, fitDates{columnOf[ft.Field], key, f.calendars[key]})
			}
			f.calendars[key].ages = f.calendars[key].ages || e == schema.Age
		}
		fmt.Fprintf(h, "%q %q %q %q %q %d %t %q %q;", ft.Field, ft.Encode, ft.Separator, ft.Format, ft.Weights, ft.Size, ft.Standardise, ft.Pairs, ft.Padding)
	}
	f.digest = h.Sum64()
	f.group(len(cols))
	return f
}

// group groups the entries by column.
func (f *Fit) group(columns int) {
	for i := range columns {
		if c := f.entriesOf(i); len(c.numbers)+len(c.words)+len(c.dates)+len(c.forms)+len(c.vectors)+len(c.constants) > 0 {
			f.columns = append(f.columns, c)
		}
	}
}

// entriesOf returns the entries of a column.
func (f *Fit) entriesOf(column int) fitColumn {
	c := fitColumn{column: column}
	for _, x := range f.numbers {
		if x.column == column {
			c.numbers = append(c.numbers, x)
		}
	}
	for _, x := range f.words {
		if x.column == column {
			c.words = append(c.words, x)
		}
	}
	for _, x := range f.dates {
		if x.column == column {
			c.dates = append(c.dates, x)
		}
	}
	for i := range f.forms {
		if x := &f.forms[i]; x.column == column {
			c.forms = append(c.forms, x)
		}
	}
	for i := range f.vectors {
		if x := &f.vectors[i]; x.column == column {
			c.vectors = append(c.vectors, x)
		}
	}
	for i := range f.constants {
		if x := &f.constants[i]; x.column == column {
			c.constants = append(c.constants, x)
		}
	}
	return c
}

// Empty returns an empty Fit of the same schema.
func (f *Fit) Empty() *Fit { return NewFit(f.schema) }

// numbersOf and wordsOf return the statistics of a field, or nil.
func (f *Fit) numbersOf(field string) *sketch { return f.sketches[field] }

func (f *Fit) wordsOf(of *schema.Feature) *vocabulary {
	return f.vocabularies[wordsKeyOf(of)]
}

// constantOf returns the constant of a field, or nil.
func (f *Fit) constantOf(field string) *fitConstant {
	for i := range f.constants {
		if f.constants[i].field == field {
			return &f.constants[i]
		}
	}
	return nil
}

// Add adds the record that r checked last.
func (f *Fit) Add(r *RowCoder) error {
	for i := range f.columns {
		if err := f.columns[i].add(r.parser, 1); err != nil {
			return err
		}
	}
	return nil
}

// add adds n records whose value of the column is the one that the parser holds.
func (c *fitColumn) add(p *parser, n int64) error {
	absent, l := p.absent[c.column], &p.lists[c.column]
	for _, x := range c.numbers {
		if absent {
			x.missing += n
		} else {
			x.sketch.addMany(p.numbers[c.column], n)
		}
	}
	for _, x := range c.constants {
		if !x.varies {
			x.add(p)
		}
	}
	if absent {
		return nil
	}
	for _, w := range c.words {
		for i := range l.Len() {
			if err := w.count(p, p.textOf(l, i), n); err != nil {
				return fmt.Errorf("column %s: %w", w.field, err)
			}
		}
	}
	for _, x := range c.forms {
		x.add(p, l)
	}
	for range n {
		for _, x := range c.dates {
			x.addDates(p, l)
		}
		for _, x := range c.vectors {
			x.add(p)
		}
	}
	return nil
}

// learnsNothing reports whether further values of a kind, of a column that has no lists, change
// nothing.
func (c *fitColumn) learnsNothing(kind value.Kind) bool {
	if len(c.numbers)+len(c.words)+len(c.dates)+len(c.vectors) > 0 {
		return false
	}
	for _, x := range c.constants {
		if !x.varies {
			return false
		}
	}
	for _, x := range c.forms {
		if kind != value.Int || x.seen != formText|formInteger {
			return false
		}
	}
	return true
}

// count counts the values of one string of n records.
func (w *fitWords) count(p *parser, text []byte, n int64) error {
	for {
		var piece []byte
		if piece, text = nextPiece(text, w.separator); piece == nil {
			return nil
		}
		if piece = w.valueOf(piece); p.isMissingText(piece) {
			continue
		}
		if err := w.vocabulary.add(piece, n); err != nil {
			return err
		}
	}
}

const fitMagic = "wdlfit7\n"

// Marshal encodes f for Merge.
func (f *Fit) Marshal() []byte {
	b := binary.LittleEndian.AppendUint64([]byte(fitMagic), f.digest)
	for _, n := range f.numbers {
		b = n.sketch.append(b)
	}
	for _, w := range f.words {
		b = w.vocabulary.append(b)
	}
	for _, d := range f.dates {
		b = d.dateStats.append(b)
	}
	for i := range f.forms {
		b = append(b, byte(f.forms[i].seen))
	}
	for i := range f.vectors {
		b = f.vectors[i].append(b)
	}
	for i := range f.constants {
		b = f.constants[i].append(b)
	}
	return b
}

// Merge adds the statistics of another part, of the same schema. After an error f must not
// be used.
func (f *Fit) Merge(b []byte) error {
	r := &wire.Reader{B: b}
	r.Magic(fitMagic)
	if d := r.Uint64(); r.Err == nil && d != f.digest {
		return fmt.Errorf("merge: statistics of another schema (%016x, here %016x); all ranks need the same configuration", d, f.digest)
	}
	for _, n := range f.numbers {
		if s := sketchFrom(r); r.Err == nil {
			n.merge(s)
		}
	}
	for _, w := range f.words {
		if r.Err != nil {
			break
		}
		if err := w.merge(r); err != nil && r.Err == nil {
			return fmt.Errorf("merge: column %s: %w", w.field, err)
		}
	}
	for _, d := range f.dates {
		if r.Err == nil {
			d.merge(r)
		}
	}
	for i := range f.forms {
		if r.Err == nil {
			f.forms[i].merge(r)
		}
	}
	for i := range f.vectors {
		if r.Err == nil {
			f.vectors[i].merge(r)
		}
	}
	for i := range f.constants {
		if r.Err == nil {
			f.constants[i].merge(r)
		}
	}
	if err := r.End(); err != nil {
		return fmt.Errorf("merge: broken statistics: %w", err)
	}
	return nil
}
