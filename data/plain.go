package data

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"github.com/wdlrun/wdlrun/internal/delim"
	"github.com/wdlrun/wdlrun/internal/raw"
)

// plain encodes usual lines of csv and tsv in one pass: without quotes, with one
// value a field, decimals as numbers. Whatever else there is, it leaves to parser
// and coder.
type plain struct {
	delimited *delimited
	parser    *parser
	coder     *coder
	longest   int // text that means missing
	label     int // field
	cutter    *delim.Cutter
	fields    []delim.Field // of the line
	sparse    []plainKey
	dense     []plainNumber
}

// plainKey is a sparse feature and its field.
type plainKey struct {
	encoding encoding
	field    int
	buckets  uint64
	code     *featureCode
}

// plainNumber is a dense input and its field.
type plainNumber struct {
	field  int
	counts *[smallCounts]float32 // what small counts become
	zero   bool                  // a missing one becomes what 0 does
	code   *featureCode
}

// smallCounts is how many counts have what they become looked up.
const smallCounts = 1 << 10

// newPlain is nil if the schema has features that plain cannot encode, or the
// format is another.
func newPlain(c *coder) *plain {
	d, ok := c.parser.decoder.(*delimitedDecoder)
	if !ok || hasLists(c) {
		return nil
	}
	x := &plain{delimited: &d.delimited, parser: c.parser, coder: c, label: d.at[0]}
	for _, m := range c.parser.missing {
		x.longest = max(x.longest, len(m))
	}
	x.cutter = delim.NewCutter(d.width)
	for i := range c.sparse {
		f := &c.sparse[i]
		x.sparse = append(x.sparse, plainKey{f.encoding, d.at[f.column], f.Buckets, f})
	}
	tables := countTables{}
	for i := range c.dense {
		f := &c.dense[i]
		t := tables.of(f)
		x.dense = append(x.dense, plainNumber{d.at[f.column], t, t[0] == 0, f})
	}
	return x
}

// hasLists tells whether a feature may have several keys in a record, or weights.
func hasLists(c *coder) bool {
	for i := range c.sparse {
		if c.sparse[i].weights != 0 || c.sparse[i].Separator != "" {
			return true
		}
	}
	return false
}

// countTables are what small counts become, by how they do.
type countTables map[countScale]*[smallCounts]float32

type countScale struct {
	encoding      encoding
	log           bool
	mean, inverse float64
}

func (t countTables) of(f *featureCode) *[smallCounts]float32 {
	s := countScale{f.encoding, f.Log, f.mean, f.inverse}
	if t[s] == nil {
		t[s] = new([smallCounts]float32)
		for i := range t[s] {
			t[s][i] = f.scaled(float64(i))
		}
	}
	return t[s]
}

func (x *plain) encode(row []uint64, line []byte) bool {
	if x.delimited.quotes && bytes.IndexByte(line, '"') >= 0 || !x.cut(line) || !x.putLabel(row, line) {
		return false
	}
	first := x.coder.shape.firstKey()
	keys := row[first:]
	if !x.putKeys(keys, line) || !x.putNumbers(row[1:first], line) {
		return false
	}
	for i := range x.coder.crosses {
		keys[len(x.sparse)+i] = x.coder.cross(&x.coder.crosses[i], keys)
	}
	return true
}

// putKeys writes the keys of the sparse features.
func (x *plain) putKeys(keys []uint64, line []byte) bool {
	fields := x.fields
	keys = keys[:len(x.sparse)]
	for i := range keys {
		f := &x.sparse[i]
		at := fields[f.field]
		text := line[at.Lo:at.Hi]
		switch {
		case len(text) == 0:
			keys[i] = KeyMissing
		case f.encoding == encHash:
			k := uint64(0)
			if len(text) == 8 {
				k = mixShort(bits.RotateLeft64(binary.LittleEndian.Uint64(text), 32), 8)
			} else {
				k = keyOf(text)
			}
			if f.buckets > 0 {
				k %= f.buckets
			}
			keys[i] = k
		case f.encoding.number():
			v, ok := decimal(line, at)
			if !ok {
				return false
			}
			keys[i] = uint64(interval(f.code.limits, v))
		default:
			k, ok := f.code.key(text)
			if !ok {
				return false
			}
			keys[i] = k
		}
	}
	return true
}

// putNumbers writes the dense inputs. Most are small counts, which are read here
// as digits does.
func (x *plain) putNumbers(words []uint64, line []byte) bool {
	if len(words) == 0 {
		return true
	}
	words[len(words)-1] = 0 // whose upper half may be no number
	fields, numbers := x.fields, raw.Of[float32](raw.Bytes(words))[:len(x.dense)]
	for i := range numbers {
		f := &x.dense[i]
		at := fields[f.field]
		if n := uint(at.Hi - at.Lo); n <= 8 && int(at.Lo)+8 <= len(line) && (n > 0 || f.zero) {
			d := (binary.LittleEndian.Uint64(line[at.Lo:]) ^ '0'*ones) << (64 - 8*n)
			if c := ofDigits(d); c < smallCounts && (d+0x76*ones|d)&highs == 0 {
				numbers[i] = f.counts[c]
				continue
			}
		}
		v, ok := x.number(f, line)
		if !ok {
			return false
		}
		numbers[i] = v
	}
	return true
}

// number is a dense input that is no small count.
func (x *plain) number(f *plainNumber, line []byte) (v float32, ok bool) {
	at := x.fields[f.field]
	if at.Lo == at.Hi {
		return 0, true
	}
	y, ok := decimal(line, at)
	return f.code.scaled(y), ok
}

// putLabel writes the head of the row.
func (x *plain) putLabel(row []uint64, line []byte) bool {
	at := x.fields[x.label]
	text := line[at.Lo:at.Hi]
	if len(text) == 0 {
		return false
	}
	one, ok := false, false
	if t := x.parser.label.Threshold; t != nil {
		v := 0.0
		v, ok = decimal(line, at)
		one = ok && v >= *t
	} else {
		one, ok = x.parser.label.of(text)
	}
	if !ok {
		return false
	}
	if row[0] = 0; one {
		row[0] = headLabel
	}
	return true
}

// cut finds the fields of a line, without the blanks around them, and empty ones
// for those that mean missing; false if their number is wrong.
func (x *plain) cut(line []byte) bool {
	blanks := false
	if x.fields, blanks = x.cutter.Cut(line, x.delimited.delim); x.fields == nil {
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

// trim takes the blanks off all fields.
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

// digits reads a field of at most eight digits, 0 if it has none; false if it is
// something else, or too near the end of the line.
func digits(line []byte, at delim.Field) (uint64, bool) {
	n := int(at.Hi - at.Lo)
	if n > 8 || int(at.Lo)+8 > len(line) {
		return 0, false
	}
	// The digits, the last in the highest byte, with zeros before the first.
	d := (binary.LittleEndian.Uint64(line[at.Lo:]) ^ '0'*ones) << (64 - 8*n)
	if (d+0x76*ones|d)&highs != 0 {
		return 0, false // a sign, a point, or something else
	}
	return ofDigits(d), true
}

// ofDigits is the number with eight digits of a byte each, the last in the highest.
func ofDigits(d uint64) uint64 {
	// Pairs of digits, then of pairs, then of fours.
	d = d * (10<<8 + 1) >> 8 & 0x00FF00FF00FF00FF
	d = d * (100<<16 + 1) >> 16 & 0x0000FFFF0000FFFF
	return d * (10000<<32 + 1) >> 32
}

// decimal reads a number as parseNumber does; false if that must be asked.
func decimal(line []byte, at delim.Field) (float64, bool) {
	if at.Lo < at.Hi {
		if n, ok := digits(line, at); ok {
			return float64(n), true
		}
	}
	return smallNumber(line[at.Lo:at.Hi])
}
