package data

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strconv"

	"github.com/wdlrun/wdlrun/data/table"
	"github.com/wdlrun/wdlrun/data/value"
	"github.com/wdlrun/wdlrun/internal/raw"
)

// codedRows are the records of a table, encoded column by column while they are
// read: where a page has a dictionary, every entry becomes a key once. A record is
// then in words of eight bytes, the first of which says what follows:
//
//	0             a row of single keys (see row.go)
//	n > 0         n bytes, the record that tableRecords gives, and zeros
//
// the latter for what this cannot encode, or no encoder may.
type codedRows struct {
	tableRecords
	coder  *coder
	uses   []use
	spans  []table.Span
	stride int          // words of a record
	words  []uint64     // of the rows that were read together
	floats []float32    // the same memory
	odd    []bool       // of each: it cannot be encoded so
	first  int64        // offset of the first of them
	off    bool         // all rows of the block are odd, or its columns are lists
	rest   tableRecords // stands at or before the next odd row
	record []byte
	from   source
	file   *file
	block  block
	digits []byte
	labels [smallLabel]struct { // of small integers
		word uint64
		odd  bool
	}
}

const (
	rowsAtOnce = 128 // so that they stay in a cache until the last column is done
	smallLabel = 2   // labels that are looked up
)

// codedRow is the row that a record is, or the record that it holds.
func codedRow(record []byte) (row []uint64, inner []byte) {
	n := binary.LittleEndian.Uint64(record)
	if n == 0 {
		return raw.Of[uint64](record[8:]), nil
	}
	return nil, record[8 : 8+n]
}

// use is one feature, or the label, and the column it is made of.
type use struct {
	code   *featureCode // nil: the label
	column int
	sparse bool
	at     int // place among the keys, or the numbers
	counts *[smallCounts]float32

	dict  int      // whose words are known
	words []uint64 // of its entries
	bad   []bool
	odd   bool // some are bad
}

// newCodedRows is nil if the schema has features whose values are lists.
func newCodedRows(c *coder) *codedRows {
	if hasLists(c) {
		return nil
	}
	x := &codedRows{tableRecords: tableRecords{names: c.parser.names()}, coder: c, stride: 1 + c.shape.plainWords()}
	x.rest.names = x.names
	x.uses = append(x.uses, use{})
	for i := range x.labels {
		x.labels[i].word, x.labels[i].odd = x.labelWord(strconv.AppendInt(nil, int64(i), 10))
	}
	for i := range c.sparse {
		x.uses = append(x.uses, use{code: &c.sparse[i], column: c.sparse[i].column, sparse: true, at: i})
	}
	tables := countTables{}
	for i := range c.dense {
		x.uses = append(x.uses, use{code: &c.dense[i], column: c.dense[i].column, at: i, counts: tables.of(&c.dense[i])})
	}
	x.spans = make([]table.Span, len(x.names))
	x.words, x.odd = make([]uint64, rowsAtOnce*x.stride), make([]bool, rowsAtOnce)
	x.floats = raw.Of[float32](raw.Bytes(x.words))
	return x
}

func (x *codedRows) begin(s source, f *file, b block, offset int64, number int32) error {
	if err := x.tableRecords.begin(s, f, b, -1, 0); err != nil {
		return err
	}
	x.from, x.file, x.block = s, f, b
	x.rest.Close()
	x.odd, x.off = x.odd[:0], !x.rows.Flat()
	for i := range x.uses {
		x.uses[i].dict = 0
	}
	for x.offset < offset && !x.off {
		n, err := x.rows.Next(int(min(offset-x.offset, math.MaxInt32)), x.spans)
		if err != nil {
			return err
		}
		x.offset += int64(n)
		x.number += int32(n)
	}
	x.offset = max(x.offset, offset)
	x.first = x.offset
	return nil
}

func (x *codedRows) next() (u unit, err error) {
	u = unit{offset: x.offset, end: x.offset + 1, number: x.number}
	if i := int(x.offset - x.first); i == len(x.odd) && !x.off {
		if err := x.load(); err != nil {
			return u, err
		}
	}
	i := int(x.offset - x.first)
	x.offset++
	x.number++
	if x.off || x.odd[i] {
		return x.beside(u)
	}
	u.record = raw.Bytes(x.words[i*x.stride:][:x.stride])
	return u, nil
}

// beside reads an odd row by itself.
func (x *codedRows) beside(u unit) (unit, error) {
	if x.rest.rows == nil {
		if err := x.rest.begin(x.from, x.file, x.block, u.offset, 0); err != nil {
			return u, err
		}
	}
	for {
		r, err := x.rest.next()
		if err != nil {
			return u, err
		}
		if r.offset == u.offset {
			x.record = binary.LittleEndian.AppendUint64(x.record[:0], uint64(len(r.record)))
			x.record = append(x.record, r.record...)
			for len(x.record)%8 != 0 {
				x.record = append(x.record, 0)
			}
			u.record = x.record
			return u, nil
		}
	}
}

// Close frees what is held.
func (x *codedRows) Close() error {
	x.rest.Close()
	return x.tableRecords.Close()
}

// load encodes the next rows.
func (x *codedRows) load() error {
	n, err := x.rows.Next(rowsAtOnce, x.spans)
	if err != nil {
		return err
	}
	x.first, x.odd = x.offset, x.odd[:n]
	clear(x.odd)
	for i := range x.uses {
		if err := x.fill(&x.uses[i], &x.spans[x.uses[i].column], n); err != nil {
			return err
		}
	}
	x.off = !slices.Contains(x.odd, false)
	first := x.coder.shape.firstKey()
	for i := range x.coder.crosses {
		for r := range n {
			keys := x.words[r*x.stride+1+first : (r+1)*x.stride]
			keys[len(x.coder.sparse)+i] = x.coder.cross(&x.coder.crosses[i], keys)
		}
	}
	return nil
}

// fill encodes one feature of n rows.
func (x *codedRows) fill(u *use, s *table.Span, n int) error {
	if s.Dict != u.dict || s.Dict == 0 {
		x.learn(u, s)
	}
	if u.sparse && s.Index != nil && s.There == nil && !u.odd {
		return x.fillKeys(u, s)
	}
	if ints := s.Values.Ints(); u.counts != nil && ints != nil && s.Index == nil && len(x.coder.parser.missing) == 0 {
		x.fillCounts(u, s, ints, n)
		return nil
	}
	missing, never := x.missing(u)
	to, high := x.place(u)
	at, there, index := s.First, s.There, s.Index
	for r := range n {
		w, odd := missing, never
		switch {
		case there != nil && there[r] != s.Most:
		case index != nil:
			if uint(index[0]) >= uint(len(u.words)) {
				return errIndex
			}
			w, odd = u.words[index[0]], u.odd && u.bad[index[0]]
			index = index[1:]
		default:
			w, odd = x.word(u, s.Values, at)
			at++
		}
		if odd {
			x.odd[r] = true
		}
		if high {
			w = x.words[to]&math.MaxUint32 | w<<32
		}
		x.words[to] = w
		to += x.stride
	}
	return nil
}

// fillKeys is fill of a sparse feature with a dictionary that no row misses.
func (x *codedRows) fillKeys(u *use, s *table.Span) error {
	to, _ := x.place(u)
	words, keys := x.words, u.words
	for _, j := range s.Index {
		if uint(j) >= uint(len(keys)) {
			return errIndex
		}
		words[to] = keys[j]
		to += x.stride
	}
	return nil
}

// fillCounts is fill of a dense input that is made of integers.
func (x *codedRows) fillCounts(u *use, s *table.Span, ints []int64, n int) {
	to, high := x.place(u)
	if to *= 2; high {
		to++
	}
	ints = ints[s.First:]
	for r := range n {
		y := float32(0)
		if s.There == nil || s.There[r] == s.Most {
			if c := uint64(ints[0]); c < smallCounts {
				y = u.counts[c]
			} else {
				y = u.code.scaled(float64(ints[0]))
			}
			ints = ints[1:]
		}
		x.floats[to] = y
		to += 2 * x.stride
	}
}

var errIndex = errors.New("a page names an entry that its dictionary does not have")

// place is the word of the first row in which a feature lies; high if it is the
// high half of it, behind a number that is there already.
func (x *codedRows) place(u *use) (to int, high bool) {
	switch {
	case u.sparse:
		return 1 + x.coder.shape.firstKey() + u.at, false
	case u.code == nil:
		return 1, false
	}
	return 2 + u.at/2, u.at%2 == 1
}

// learn encodes the entries of a dictionary.
func (x *codedRows) learn(u *use, s *table.Span) {
	if u.dict = s.Dict; u.dict == 0 {
		return
	}
	u.words, u.bad, u.odd = u.words[:0], u.bad[:0], false
	for j := range s.Values.Len() {
		w, bad := x.word(u, s.Values, j)
		u.words, u.bad, u.odd = append(u.words, w), append(u.bad, bad), u.odd || bad
	}
}

// missing is what a missing value becomes.
func (x *codedRows) missing(u *use) (w uint64, odd bool) {
	if u.sparse {
		return KeyMissing, false
	}
	return 0, u.code == nil
}

// word is what value i becomes; odd if parser and coder must tell.
func (x *codedRows) word(u *use, v *table.Values, i int) (w uint64, odd bool) {
	if ints := v.Ints(); i < len(ints) && len(x.coder.parser.missing) == 0 { // the usual cases first
		switch n := uint64(ints[i]); {
		case u.counts != nil && n < smallCounts:
			return uint64(math.Float32bits(u.counts[n])), false
		case u.code == nil && n < smallLabel:
			return x.labels[n].word, x.labels[n].odd
		}
	}
	kind, text := v.Kind(), []byte(nil)
	switch {
	case kind == value.Text:
		text = v.Text(i)
	case kind == value.Int && (u.code == nil || len(x.coder.parser.missing) > 0 || u.sparse && !u.code.encoding.number() && u.code.encoding != encID):
		x.digits = strconv.AppendInt(x.digits[:0], v.Int(i), 10)
		text = x.digits
	case kind != value.Int && len(x.coder.parser.missing) > 0:
		return 0, true // its text may mean missing
	case kind != value.Int && u.code == nil:
		y := v.Real(i)
		if y != math.Trunc(y) || math.Abs(y) >= 1<<53 {
			return 0, true
		}
		x.digits = strconv.AppendInt(x.digits[:0], int64(y), 10)
		text = x.digits
	}
	if text == nil && kind != value.Text {
		return x.numberWord(u, v, i)
	}
	if len(text) == 0 || len(x.coder.parser.missing) > 0 && x.coder.parser.isMissingText(text) {
		return x.missing(u)
	}
	switch {
	case u.code == nil:
		return x.labelWord(text)
	case u.sparse && !u.code.encoding.number():
		w, ok := u.code.key(text)
		return w, !ok
	}
	y, ok := smallNumber(text)
	return x.numbered(u, y), !ok
}

// numberWord is what number i becomes.
func (x *codedRows) numberWord(u *use, v *table.Values, i int) (w uint64, odd bool) {
	y := 0.0
	if v.Kind() == value.Int {
		n := v.Int(i)
		if u.sparse && u.code.encoding == encID {
			return uint64(n), false
		}
		y = float64(n)
	} else {
		why := ""
		if y, why = checkNumber(v.Real(i)); why != "" || u.sparse && !u.code.encoding.number() {
			return 0, true
		}
	}
	return x.numbered(u, y), false
}

// numbered is what a number becomes that a feature is made of.
func (x *codedRows) numbered(u *use, y float64) uint64 {
	if u.sparse {
		return uint64(interval(u.code.limits, y))
	}
	return uint64(math.Float32bits(u.code.scaled(y)))
}

// labelWord is the head of a row.
func (x *codedRows) labelWord(text []byte) (w uint64, odd bool) {
	rule := &x.coder.parser.label
	one, ok := false, false
	if rule.Threshold != nil {
		y, is := smallNumber(text)
		one, ok = y >= *rule.Threshold, is
	} else {
		one, ok = rule.of(text)
	}
	if one {
		w = headLabel
	}
	return w, !ok
}
