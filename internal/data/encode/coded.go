package encode

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strconv"

	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/table"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/kernel/raw"
)

// CodedRows are the records of a table, encoded column by column while they are read. If a
// page has a dictionary, each entry is encoded once. A record then consists of 8-byte
// words; the first is its type:
//
//	0             a row of single keys (see row.go)
//	n > 0         n bytes, the record of TableRecords, then zeros
//
// The second form is for records that CodedRows cannot encode or that are faulty.
type CodedRows struct {
	record.TableRecords
	coder  *coder
	uses   []use
	spans  []table.Span
	stride int                 // words per record
	words  []uint64            // of the rows read together
	floats []float32           // the same memory
	odd    []bool              // by row: it cannot be encoded by column
	first  int64               // offset of the first of the rows
	off    bool                // all rows of the block are odd, or its columns are lists
	rest   record.TableRecords // is at or before the next odd row
	record []byte
	from   record.Content
	file   *record.File
	block  record.Block
	digits []byte
	keyAt  []int32 // by row: where its words, and its numbers, begin
	realAt []int32
}

const rowsAtOnce = 128 // few enough to stay in a cache until the last column is done

// Width returns the bytes of a record that is a row.
func (x *CodedRows) Width() int { return 8 * x.stride }

// CodedRow returns the row in an encoded record, or the record that it contains.
func CodedRow(record []byte) (row []uint64, inner []byte) {
	n := binary.LittleEndian.Uint64(record)
	if n == 0 {
		return raw.Of[uint64](record[8:]), nil
	}
	return nil, record[8 : 8+n]
}

// use is one feature, or the label, and its column.
type use struct {
	code   *featureCode // nil for the label and targets
	target *target
	column int
	sparse bool
	at     int // index among the keys, or the numbers
	counts *countTable

	dict  int      // dictionary of words
	words []uint64 // encoded entries
	bad   []bool
	odd   bool // some entries are bad

	small   []uint64 // encodings of the integers from 0 up, as far as possible
	learned bool     // small is filled
}

// cells are the destination of one feature of some rows.
type cells struct {
	keys  []uint64  // for keys and the label
	reals []float32 // for numbers
	at    []int32   // by row: index in keys or reals
}

// NewCodedRows returns a reader of the rows that t would read. It returns nil if the schema has
// features whose values are lists.
func NewCodedRows(r *RowCoder, t *record.TableRecords) *CodedRows {
	c := r.coder
	if hasLists(c) || c.parser.derives {
		return nil
	}
	x := &CodedRows{TableRecords: record.TableRecords{Names: c.parser.names(), Compared: t.Compared}, coder: c, stride: 1 + c.shape.plainWords()}
	x.rest.Names, x.rest.Compared = x.Names, x.Compared
	x.uses = append(x.uses, use{})
	for i := range c.sparse {
		x.uses = append(x.uses, use{code: &c.sparse[i], column: c.sparse[i].column, sparse: true, at: i})
	}
	tables := countTables{}
	for i := range c.dense {
		if c.dense[i].encoding == schema.Rate {
			continue
		}
		x.uses = append(x.uses, use{code: &c.dense[i], column: c.dense[i].column, at: i, counts: tables.of(&c.dense[i])})
	}
	for i := range c.parser.targets {
		t := &c.parser.targets[i]
		x.uses = append(x.uses, use{target: t, column: t.column, at: len(c.dense) + i})
	}
	for r := range int32(rowsAtOnce) {
		x.keyAt, x.realAt = append(x.keyAt, r*int32(x.stride)), append(x.realAt, 2*r*int32(x.stride))
	}
	x.spans = make([]table.Span, len(x.Names))
	x.words, x.odd = make([]uint64, rowsAtOnce*x.stride), make([]bool, rowsAtOnce)
	x.floats = raw.Of[float32](raw.Bytes(x.words))
	return x
}

func (x *CodedRows) Begin(s record.Content, f *record.File, b record.Block, offset int64, number int32) error {
	if err := x.TableRecords.Begin(s, f, b, -1, 0); err != nil {
		return err
	}
	x.from, x.file, x.block = s, f, b
	x.rest.Close()
	x.odd, x.off = x.odd[:0], !x.Rows.Flat()
	x.forget()
	if !x.off {
		if err := x.skip(offset - x.Offset); err != nil {
			return err
		}
	}
	x.Offset = max(x.Offset, offset)
	x.first = x.Offset
	return nil
}

// forget drops the encoded dictionaries of a row group.
func (x *CodedRows) forget() {
	for i := range x.uses {
		x.uses[i].dict = 0
	}
}

// skip skips n rows.
func (x *CodedRows) skip(n int64) error {
	for n > 0 {
		got, err := x.Rows.Next(int(min(n, math.MaxInt32)), x.spans)
		if err != nil {
			return err
		}
		x.Offset += int64(got)
		x.Number += int32(got)
		n -= int64(got)
	}
	return nil
}

func (x *CodedRows) Next() (u record.Unit, err error) {
	u = record.Unit{Offset: x.Offset, Number: x.Number}
	if i := int(x.Offset - x.first); i == len(x.odd) && !x.off {
		if err := x.load(); err != nil {
			return u, err
		}
	}
	i := int(x.Offset - x.first)
	x.Offset++
	x.Number++
	if x.off || x.odd[i] {
		return x.uncommon(u)
	}
	u.Record = raw.Bytes(x.words[i*x.stride:][:x.stride])
	return u, nil
}

// uncommon encodes an odd row with parser and coder.
func (x *CodedRows) uncommon(u record.Unit) (record.Unit, error) {
	if x.rest.Rows == nil {
		if err := x.rest.Begin(x.from, x.file, x.block, u.Offset, 0); err != nil {
			return u, err
		}
	}
	for {
		r, err := x.rest.Next()
		if err != nil {
			return u, err
		}
		if r.Offset == u.Offset {
			x.record = binary.LittleEndian.AppendUint64(x.record[:0], uint64(len(r.Record)))
			x.record = append(x.record, r.Record...)
			for len(x.record)%8 != 0 {
				x.record = append(x.record, 0)
			}
			u.Record = x.record
			return u, nil
		}
	}
}

// Close frees the resources.
func (x *CodedRows) Close() error {
	x.rest.Close()
	return x.TableRecords.Close()
}

// load encodes the next rows.
func (x *CodedRows) load() error {
	n, err := x.Rows.Next(rowsAtOnce, x.spans)
	if err != nil {
		return err
	}
	x.first, x.odd = x.Offset, x.odd[:n]
	clear(x.odd)
	for i := range x.uses {
		u := &x.uses[i]
		if err := x.fill(u, &x.spans[u.column], n, x.inRows(u)); err != nil {
			return err
		}
	}
	x.off = !slices.Contains(x.odd, false)
	first := x.coder.shape.firstKey()
	for i := range x.coder.crosses {
		for r := range n {
			keys := x.words[r*x.stride+1+first : (r+1)*x.stride]
			keys[len(x.coder.sparse)+i] = x.coder.cross(&x.coder.crosses[i], places{keys: keys, step: 1})
		}
	}
	return nil
}

func (u *use) isLabel() bool { return u.code == nil && u.target == nil }

// inRows returns the cells of a feature in rows.
func (x *CodedRows) inRows(u *use) cells {
	switch {
	case u.sparse:
		return cells{keys: x.words[1+x.coder.shape.firstKey()+u.at:], at: x.keyAt}
	case u.isLabel():
		return cells{keys: x.words[1:], at: x.keyAt}
	}
	return cells{reals: x.floats[2*2+u.at:], at: x.realAt}
}

// fill encodes one feature of n rows.
func (x *CodedRows) fill(u *use, s *table.Span, n int, to cells) error {
	if s.Dict != u.dict || s.Dict == 0 {
		x.encodeDictionary(u, s)
	}
	to.at = to.at[:n]
	ints := s.Values.Ints()
	switch {
	case s.Index != nil && s.There == nil && !u.odd && to.keys != nil:
		return fillKeys(u.words, s.Index, to)
	case s.Index != nil:
		return x.fillEntries(u, s, to)
	case ints != nil && u.counts != nil && len(x.coder.parser.missing) == 0:
		u.fillCounts(s, ints[s.First:], to)
	case ints != nil && to.keys != nil:
		x.fillInts(u, s, ints, to)
	default:
		x.fillValues(u, s, to)
	}
	return nil
}

// put writes an encoded value.
func (c *cells) put(r int, w uint64) {
	if c.keys != nil {
		c.keys[c.at[r]] = w
	} else {
		c.reals[c.at[r]] = math.Float32frombits(uint32(w))
	}
}

// fillKeys is fill for keys from a dictionary, if no value is missing.
func fillKeys(words []uint64, index []int32, to cells) error {
	keys := to.keys
	for r, at := range to.at[:len(index)] {
		j := index[r]
		if uint(j) >= uint(len(words)) {
			return errIndex
		}
		keys[at] = words[j]
	}
	return nil
}

// fillEntries is fill for values from a dictionary.
func (x *CodedRows) fillEntries(u *use, s *table.Span, to cells) error {
	missing, never := x.missing(u)
	index := s.Index
	for r := range to.at {
		w, odd := missing, never
		if s.There == nil || s.There[r] == s.Most {
			if uint(index[0]) >= uint(len(u.words)) {
				return errIndex
			}
			w, odd = u.words[index[0]], u.odd && u.bad[index[0]]
			index = index[1:]
		}
		if odd {
			x.odd[r] = true
		}
		to.put(r, w)
	}
	return nil
}

// fillCounts is fill for a dense input of integers.
func (u *use) fillCounts(s *table.Span, ints []int64, to cells) {
	reals, counts := to.reals, u.counts
	for r, at := range to.at {
		y := float32(0)
		if s.There == nil || s.There[r] == s.Most {
			if c := uint64(ints[0]); c < smallCounts {
				y = counts[c]
			} else {
				y = u.code.scaled(float64(ints[0]))
			}
			ints = ints[1:]
		}
		reals[at] = y
	}
}

// fillInts is fill for keys of integers.
func (x *CodedRows) fillInts(u *use, s *table.Span, ints []int64, to cells) {
	if !u.learned {
		x.learnSmall(u)
	}
	missing, never := x.missing(u)
	keys, small, i := to.keys, u.small, s.First
	for r, at := range to.at {
		w, odd := missing, never
		if s.There == nil || s.There[r] == s.Most {
			if n := uint64(ints[i]); n < uint64(len(small)) {
				w, odd = small[n], false
			} else {
				w, odd = x.intWord(u, ints[i])
			}
			i++
		}
		if keys[at] = w; odd {
			x.odd[r] = true
		}
	}
}

// fillValues is fill for every other case.
func (x *CodedRows) fillValues(u *use, s *table.Span, to cells) {
	missing, never := x.missing(u)
	i := s.First
	for r := range to.at {
		w, odd := missing, never
		if s.There == nil || s.There[r] == s.Most {
			w, odd = x.encodeValue(u, s.Values, i)
			i++
		}
		if odd {
			x.odd[r] = true
		}
		to.put(r, w)
	}
}

var errIndex = errors.New("a page names an entry that its dictionary does not have")

// encodeDictionary encodes the entries of a dictionary.
func (x *CodedRows) encodeDictionary(u *use, s *table.Span) {
	if u.dict = s.Dict; u.dict == 0 {
		return
	}
	u.words, u.bad, u.odd = u.words[:0], u.bad[:0], false
	for j := range s.Values.Len() {
		w, bad := x.encodeValue(u, s.Values, j)
		u.words, u.bad, u.odd = append(u.words, w), append(u.bad, bad), u.odd || bad
	}
}

// learnSmall encodes the integers from 0 up, the most frequent values.
func (x *CodedRows) learnSmall(u *use) {
	u.learned = true
	for i := range int64(smallCounts) {
		w, odd := x.intWord(u, i)
		if odd {
			return
		}
		u.small = append(u.small, w)
	}
}

// missing returns the encoding of a missing value.
func (x *CodedRows) missing(u *use) (w uint64, odd bool) {
	if u.sparse {
		return KeyMissing, false
	}
	return 0, u.code == nil && !(u.isLabel() && x.coder.parser.label.IsNone())
}

// encodeValue returns the encoding of value i. It is odd if parser and coder must decide.
func (x *CodedRows) encodeValue(u *use, v *table.Values, i int) (w uint64, odd bool) {
	switch v.Kind() {
	case value.Text:
		return x.textWord(u, v.Text(i))
	case value.Int:
		return x.intWord(u, v.Int(i))
	}
	return x.realWord(u, v.Real(i))
}

// intWord returns the encoding of an integer.
func (x *CodedRows) intWord(u *use, n int64) (w uint64, odd bool) {
	switch {
	case u.isLabel() || len(x.coder.parser.missing) > 0 || u.code != nil && u.code.encoding.Date() || u.sparse && !u.code.encoding.Number() && u.code.encoding != schema.ID:
		x.digits = strconv.AppendInt(x.digits[:0], n, 10)
		return x.textWord(u, x.digits)
	case u.sparse && u.code.encoding == schema.ID:
		return uint64(n), false
	}
	return x.numbered(u, float64(n))
}

// realWord returns the encoding of a floating point number.
func (x *CodedRows) realWord(u *use, y float64) (w uint64, odd bool) {
	switch {
	case u.code != nil && u.code.encoding.Date():
		return 0, true // its text is needed
	case u.isLabel() || len(x.coder.parser.missing) > 0 || u.sparse && !u.code.encoding.Number():
		x.digits = value.AppendNumber(x.digits[:0], y, 64)
		return x.textWord(u, x.digits)
	}
	y, why := value.CheckNumber(y)
	w, odd = x.numbered(u, y)
	return w, odd || why != ""
}

// textWord returns the encoding of a string.
func (x *CodedRows) textWord(u *use, text []byte) (w uint64, odd bool) {
	switch {
	case len(text) == 0 || len(x.coder.parser.missing) > 0 && x.coder.parser.isMissingText(text):
		return x.missing(u)
	case u.isLabel():
		return x.labelWord(text)
	case u.sparse && !u.code.encoding.Number():
		w, ok := u.code.key(text)
		return w, !ok
	case u.code != nil && u.code.encoding == schema.Age:
		return uint64(math.Float32bits(u.code.age(text))), false
	}
	y, ok := value.SmallNumber(text)
	w, odd = x.numbered(u, y)
	return w, odd || !ok
}

// numbered returns the encoding of a number for a numeric feature or a target.
func (x *CodedRows) numbered(u *use, y float64) (w uint64, odd bool) {
	switch {
	case u.target != nil:
		v, why := u.target.value(y)
		return uint64(math.Float32bits(v)), why != ""
	case u.sparse:
		return uint64(interval(u.code.limits, y)), false
	}
	return uint64(math.Float32bits(u.code.scaled(y))), false
}

// labelWord returns the head of a row.
func (x *CodedRows) labelWord(text []byte) (w uint64, odd bool) {
	rule := &x.coder.parser.label
	one, ok := false, rule.IsNumber() // a number is a target
	if ok || rule.IsNone() {
		return 0, false
	}
	if rule.Threshold != nil {
		y, is := value.SmallNumber(text)
		one, ok = y >= *rule.Threshold, is
	} else {
		one, ok = rule.of(text)
	}
	if one {
		w = headLabel
	}
	return w, !ok
}
