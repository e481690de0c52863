package encode

import (
	"encoding/binary"
	"math"

	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/kernel/delim"
	"github.com/wdlrun/wdlrun/internal/kernel/eight"
)

// plain encodes simple lines of csv and tsv in one pass: without quotes, with one value
// per field, decimals as numbers. It leaves all others to parser and coder. Features of
// one kind are encoded together. Each numeric field is parsed once.
type plain struct {
	record.Layout
	parser  *parser
	coder   *coder
	longest int   // maximum length of a string that means missing
	label   int   // field
	targets []int // fields
	cutter  *delim.Cutter
	fields  []delim.Field // of the current line
	hashes  []plainHash
	words   []plainWord
	ids     []plainID
	counts  []plainCount
	dates   []plainDate
	texts   []int    // fields of hashes, then of words
	eights  []uint64 // hashes of texts, padded to a multiple of eight
}

// plainHash is a feature that hashes its field.
type plainHash struct {
	field, key int
	code       *featureCode
}

// plainWord is a feature that looks its field up in a vocabulary.
type plainWord struct {
	field, key int
	known      *keySet
}

// plainID is a feature whose field holds keys.
type plainID struct{ field, key int }

// plainDate is a feature of dates.
type plainDate struct {
	field, at int // at: key or dense input
	code      *featureCode
}

// plainCount is a numeric field with its dense input, its feature of intervals, or both.
type plainCount struct {
	field  int
	number int // dense input
	key    int // feature of intervals
	dense  *featureCode
	sparse *featureCode
	both   *plainTable // encodings of small counts, if there are intervals
	reals  *countTable // otherwise
}

// plainTable holds the encodings of small counts, then of a missing value.
type plainTable [smallCounts + 1]struct {
	real     uint32 // bits
	interval uint32
}

// noInterval is the interval of KeyMissing.
const noInterval = math.MaxUint32

// smallCounts is the number of counts whose encodings are in a table.
const smallCounts = 1 << 10

// newPlain returns nil if the schema has features that plain cannot encode, or the format
// is another.
func newPlain(c *coder) *plain {
	d, ok := record.LayoutOf(c.parser.decoder)
	if !ok || hasLists(c) {
		return nil
	}
	x := &plain{Layout: d, parser: c.parser, coder: c, label: d.At[0]}
	for _, m := range c.parser.missing {
		x.longest = max(x.longest, len(m))
	}
	x.cutter = delim.NewCutter(d.Width)
	for i := range c.sparse {
		f := &c.sparse[i]
		field := d.At[f.column]
		switch {
		case f.encoding == schema.Hash:
			x.hashes = append(x.hashes, plainHash{field, i, f})
		case f.encoding == schema.Vocabulary:
			x.words = append(x.words, plainWord{field, i, f.words})
		case f.encoding == schema.ID:
			x.ids = append(x.ids, plainID{field, i})
		case f.encoding.Date():
			x.dates = append(x.dates, plainDate{field, i, f})
		default:
			x.counts = append(x.counts, plainCount{field: field, key: i, sparse: f, both: intervalsOf(f)})
		}
	}
	for _, f := range x.hashes {
		x.texts = append(x.texts, f.field)
	}
	for _, f := range x.words {
		x.texts = append(x.texts, f.field)
	}
	x.eights = make([]uint64, (len(x.texts)+7)/8*8)
	for _, t := range c.parser.targets {
		x.targets = append(x.targets, d.At[t.column])
	}
	tables := countTables{}
	for i := range c.dense {
		if c.dense[i].encoding == schema.Rate {
			continue
		}
		x.addNumber(&c.dense[i], d.At[c.dense[i].column], i, tables)
	}
	return x
}

// intervalsOf returns the intervals of small counts.
func intervalsOf(f *featureCode) *plainTable {
	t := new(plainTable)
	for n := range smallCounts {
		t[n].interval = uint32(interval(f.limits, float64(n)))
	}
	t[smallCounts].interval = noInterval
	return t
}

// addNumber adds dense input i.
func (x *plain) addNumber(f *featureCode, field, i int, tables countTables) {
	if f.encoding.Date() {
		x.dates = append(x.dates, plainDate{field, i, f})
		return
	}
	reals := tables.of(f)
	for j := range x.counts {
		if p := &x.counts[j]; p.field == field && p.dense == nil {
			for n := range p.both {
				p.both[n].real = math.Float32bits(reals[n])
			}
			p.number, p.dense = i, f
			return
		}
	}
	x.counts = append(x.counts, plainCount{field: field, number: i, dense: f, reals: reals})
}

// hasLists reports whether a feature may have several keys in a record, weights, or several
// numbers.
func hasLists(c *coder) bool {
	for i := range c.dense {
		if c.dense[i].encoding == schema.Vector {
			return true
		}
	}
	for i := range c.sparse {
		if c.sparse[i].isList() {
			return true
		}
	}
	return false
}

// countTable holds the encodings of small counts, then 0 for a missing value.
type countTable [smallCounts + 1]float32

// countTables holds one countTable per encoding.
type countTables map[countScale]*countTable

type countScale struct {
	encoding      schema.Encoding
	log           bool
	mean, inverse float64
	least, most   float64
}

// of returns nil for dates, which are encoded from their text.
func (t countTables) of(f *featureCode) *countTable {
	if f.encoding.Date() || f.encoding == schema.Rate {
		return nil
	}
	s := countScale{f.encoding, f.Log, f.mean, f.inverse, f.least, f.most}
	x := t[s]
	if x == nil {
		x = new(countTable)
		for i := range smallCounts {
			x[i] = f.scaled(float64(i))
		}
		t[s] = x
	}
	return x
}

func (x *plain) encode(to places, line []byte) (one, ok bool) {
	if !x.IsPlain(line) || !x.cut(line) {
		return false, false
	}
	if one, ok = x.labelOf(line); !ok || !x.putCounts(to, line) || !x.putIDs(to, line) || !x.putTargets(to, line) {
		return false, false
	}
	x.putDates(to, line)
	x.mixTexts(line)
	x.putHashes(to, line)
	x.putWords(to, line)
	x.coder.putCrosses(to)
	return one, true
}

// mixTexts hashes the fields as if they all had eight bytes, which most have.
func (x *plain) mixTexts(line []byte) {
	fields, eights := x.fields, x.eights[:len(x.texts)]
	for i, field := range x.texts {
		if lo := int(fields[field].Lo); lo+8 <= len(line) {
			eights[i] = binary.LittleEndian.Uint64(line[lo:])
		}
	}
	eight.Hash(x.eights, shortFlip)
}

// putHashes writes the keys of hashed features.
func (x *plain) putHashes(to places, line []byte) {
	fields, eights := x.fields, x.eights[:len(x.hashes)]
	for i, k := range eights {
		f := &x.hashes[i]
		at := fields[f.field]
		if n := at.Hi - at.Lo; n != 8 {
			if n == 0 {
				to.keys[f.key*to.step] = KeyMissing
				continue
			}
			k = keyOf(line[at.Lo:at.Hi])
		}
		if f.code.others != 0 && f.code.others.mayHold(line[at.Lo:at.Hi]) {
			k = f.code.hashOf(line[at.Lo:at.Hi])
		}
		if f.code.Buckets > 0 {
			k %= f.code.Buckets
		}
		to.keys[f.key*to.step] = k
	}
}

// putWords writes the keys of features with vocabularies.
func (x *plain) putWords(to places, line []byte) {
	fields, eights := x.fields, x.eights[len(x.hashes):len(x.texts)]
	for i, k := range eights {
		f := &x.words[i]
		at := fields[f.field]
		if n := at.Hi - at.Lo; n != 8 {
			if n == 0 {
				to.keys[f.key*to.step] = KeyMissing
				continue
			}
			k = keyOf(line[at.Lo:at.Hi])
		}
		if !f.known.has(k) {
			k = f.known.find(k, line[at.Lo:at.Hi])
		}
		to.keys[f.key*to.step] = k
	}
}

// putIDs writes the keys that are the values of their fields.
func (x *plain) putIDs(to places, line []byte) bool {
	for i := range x.ids {
		f := &x.ids[i]
		at, k, ok := x.fields[f.field], KeyMissing, true
		if at.Lo < at.Hi {
			k, ok = value.ParseID(line[at.Lo:at.Hi])
		}
		if !ok {
			return false
		}
		to.keys[f.key*to.step] = k
	}
	return true
}

// putDates writes keys and ages of dates. An empty field is not a date.
func (x *plain) putDates(to places, line []byte) {
	for i := range x.dates {
		f := &x.dates[i]
		text := line[x.fields[f.field].Lo:x.fields[f.field].Hi]
		if f.code.encoding.Sparse() {
			to.keys[f.at*to.step] = f.code.dateKey(text)
		} else {
			to.numbers[f.at] = f.code.age(text)
		}
	}
}

// putTargets writes the targets. It returns false if one is faulty.
func (x *plain) putTargets(to places, line []byte) bool {
	for i, field := range x.targets {
		v, ok := decimal(line, x.fields[field])
		if !ok {
			return false
		}
		y, why := x.parser.targets[i].value(v)
		if why != "" {
			return false
		}
		to.numbers[len(x.coder.dense)+i] = y
	}
	return true
}

// putCounts writes the inputs of numeric fields. Most are small counts, which it parses as
// digits does.
func (x *plain) putCounts(to places, line []byte) bool {
	fields := x.fields
	for i := range x.counts {
		f := &x.counts[i]
		at := fields[f.field]
		n := uint(at.Hi - at.Lo)
		if n > 8 || int(at.Lo)+8 > len(line) {
			if !x.putNumber(f, to, line) {
				return false
			}
			continue
		}
		d := (binary.LittleEndian.Uint64(line[at.Lo:]) ^ '0'*ones) << (64 - 8*n)
		c := ofDigits(d)
		if c/smallCounts|(d+0x76*ones|d)&highs != 0 {
			if !x.putNumber(f, to, line) {
				return false
			}
			continue
		}
		if n == 0 {
			c = smallCounts
		}
		if f.both == nil {
			to.numbers[f.number] = f.reals[c]
			continue
		}
		e := f.both[c]
		k := uint64(e.interval)
		if k == noInterval {
			k = KeyMissing
		}
		if to.keys[f.key*to.step] = k; f.dense != nil {
			to.numbers[f.number] = math.Float32frombits(e.real)
		}
	}
	return true
}

// putNumber is putCounts for a field that is not a small count.
func (x *plain) putNumber(f *plainCount, to places, line []byte) bool {
	at, k, y := x.fields[f.field], KeyMissing, float32(0)
	if at.Lo < at.Hi {
		v, ok := decimal(line, at)
		if !ok {
			return false
		}
		if f.sparse != nil {
			k = uint64(interval(f.sparse.limits, v))
		}
		if f.dense != nil {
			y = f.dense.scaled(v)
		}
	}
	if f.sparse != nil {
		to.keys[f.key*to.step] = k
	}
	if f.dense != nil {
		to.numbers[f.number] = y
	}
	return true
}

// labelOf maps the label to 0 or 1. ok is false if the field means neither.
func (x *plain) labelOf(line []byte) (one, ok bool) {
	if x.parser.label.IsNone() {
		return false, true
	}
	at := x.fields[x.label]
	text := line[at.Lo:at.Hi]
	if len(text) == 0 {
		return false, false
	}
	if x.parser.label.IsNumber() {
		return false, true // the label is a target
	}
	if t := x.parser.label.Threshold; t != nil {
		v, ok := decimal(line, at)
		return ok && v >= *t, ok
	}
	return x.parser.label.of(text)
}

// cut splits a line into fields, without surrounding blanks. It empties fields that mean
// missing. It returns false if their number is wrong.
func (x *plain) cut(line []byte) bool {
	blanks := false
	if x.fields, blanks = x.cutter.Cut(line, x.Delim); x.fields == nil {
		return false
	}
	if blanks {
		x.trim(line)
	}
	if x.longest > 0 {
		x.drop(line)
	}
	return true
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// trim removes the blanks around all fields.
func (x *plain) trim(line []byte) {
	for i := range x.fields {
		f := &x.fields[i]
		for f.Lo < f.Hi && (line[f.Lo] == ' ' || line[f.Lo] == '\t') {
			f.Lo++
		}
		for f.Lo < f.Hi && (line[f.Hi-1] == ' ' || line[f.Hi-1] == '\t') {
			f.Hi--
		}
	}
}

// drop empties the fields that mean missing.
func (x *plain) drop(line []byte) {
	for i := range x.fields {
		f := &x.fields[i]
		if n := int(f.Hi - f.Lo); n <= x.longest && x.parser.isMissingText(line[f.Lo:f.Hi]) {
			f.Hi = f.Lo
		}
	}
}

// digits parses a field of at most eight digits; an empty one is 0. It returns false for
// any other field, and for one too near the end of the line.
func digits(line []byte, at delim.Field) (uint64, bool) {
	n := int(at.Hi - at.Lo)
	if n > 8 || int(at.Lo)+8 > len(line) {
		return 0, false
	}
	// The digits as bytes, the last in the highest, zeros before the first.
	d := (binary.LittleEndian.Uint64(line[at.Lo:]) ^ '0'*ones) << (64 - 8*n)
	if (d+0x76*ones|d)&highs != 0 {
		return 0, false // a sign, a point or another character
	}
	return ofDigits(d), true
}

// ofDigits returns the number whose eight digits are the bytes of d, the last in the
// highest.
func ofDigits(d uint64) uint64 {
	// Combine into pairs, then fours, then eight.
	d = d * (10<<8 + 1) >> 8 & 0x00FF00FF00FF00FF
	d = d * (100<<16 + 1) >> 16 & 0x0000FFFF0000FFFF
	return d * (10000<<32 + 1) >> 32
}

// decimal parses a number with the result of ParseNumber. It returns false if ParseNumber
// must decide.
func decimal(line []byte, at delim.Field) (float64, bool) {
	if at.Lo < at.Hi {
		if n, ok := digits(line, at); ok {
			return float64(n), true
		}
	}
	return value.SmallNumber(line[at.Lo:at.Hi])
}
