package data

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// plain encodes usual lines of csv and tsv in one pass: without quotes or blanks
// around fields, with one value a field, decimals as numbers. Whatever else there
// is, it leaves to parser and coder, which it agrees with in all it takes.
type plain struct {
	delimited *delimited
	parser    *parser
	coder     *coder
	label     int     // field
	cuts      []int32 // before the first field, the delimiters, behind the last field
	sparse    []plainField
	dense     []plainField
}

// plainField is a feature and its field.
type plainField struct {
	encoding encoding
	log      bool
	field    int
	buckets  uint64
	code     *featureCode
}

// newPlain is nil if the schema has features that plain cannot encode, or the
// format is another.
func newPlain(c *coder) *plain {
	d, ok := c.parser.decoder.(*delimitedDecoder)
	if !ok {
		return nil
	}
	x := &plain{delimited: &d.delimited, parser: c.parser, coder: c, label: d.at[0]}
	x.cuts = make([]int32, d.width+1)
	fields := func(codes []featureCode) []plainField {
		all := make([]plainField, len(codes))
		for i := range codes {
			f := &codes[i]
			if f.weights != 0 || f.Separator != "" {
				ok = false
			}
			all[i] = plainField{f.encoding, f.logs != nil, d.at[f.column], f.Buckets, f}
		}
		return all
	}
	x.sparse, x.dense = fields(c.sparse), fields(c.dense)
	if !ok {
		return nil
	}
	return x
}

// encode makes a line a row. It returns false if it is to be done, or refused, by
// parser and coder; the row then means nothing.
func (x *plain) encode(row []uint64, line []byte) bool {
	if x.delimited.quotes && bytes.IndexByte(line, '"') >= 0 || !x.cut(line) || !x.putLabel(row, line) {
		return false
	}
	numbers, keys := row[1:x.coder.shape.firstKey()], row[x.coder.shape.firstKey():]
	for i := range x.sparse {
		f := &x.sparse[i]
		text, ok := x.text(line, f.field)
		switch {
		case !ok:
			return false
		case len(text) == 0:
			keys[i] = KeyMissing
		case f.encoding == encHash:
			k := keyOf(text)
			if f.buckets > 0 {
				k %= f.buckets
			}
			keys[i] = k
		case f.encoding.number():
			v, ok := decimal(text, line[x.cuts[f.field]+1:])
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
	clear(numbers)
	for i := range x.dense {
		f := &x.dense[i]
		text, ok := x.text(line, f.field)
		if !ok {
			return false
		}
		if len(text) == 0 {
			continue // 0
		}
		v, ok := decimal(text, line[x.cuts[f.field]+1:])
		if !ok {
			return false
		}
		putFloat(numbers, i, f.code.scaled(v))
	}
	for i := range x.coder.crosses {
		keys[len(x.sparse)+i] = x.coder.cross(&x.coder.crosses[i], keys)
	}
	return true
}

// putLabel writes the head of the row.
func (x *plain) putLabel(row []uint64, line []byte) bool {
	text, ok := x.text(line, x.label)
	if !ok || len(text) == 0 {
		return false
	}
	var one bool
	if t := x.parser.label.Threshold; t != nil {
		v, ok := decimal(text, text)
		if !ok {
			return false
		}
		one = v >= *t
	} else if one, ok = x.parser.label.of(text); !ok {
		return false
	}
	if row[0] = 0; one {
		row[0] = headLabel
	}
	return true
}

// text is a field, empty for a missing one; false if it has blanks around it.
func (x *plain) text(line []byte, field int) ([]byte, bool) {
	text := line[x.cuts[field]+1 : x.cuts[field+1]]
	if len(text) == 0 {
		return text, true
	}
	if text[0] <= ' ' || text[len(text)-1] <= ' ' {
		return nil, false
	}
	if len(x.parser.missing) > 0 && x.parser.isMissingText(text) {
		return nil, true
	}
	return text, true
}

// cut finds the delimiters of a line; false if their number is wrong. It looks
// at 64 bytes at once, eight to a word.
func (x *plain) cut(line []byte) bool {
	cuts := x.cuts
	every := ones * uint64(x.delimited.delim)
	n, base := 1, 0
	cuts[0] = -1
	for ; base+64 <= len(line); base += 64 {
		b := line[base : base+64 : base+64]
		var found uint64
		for w := 0; w < 64; w += 8 {
			found |= zeroBytes(binary.LittleEndian.Uint64(b[w:])^every) << w
		}
		for ; found != 0; found &= found - 1 {
			if n >= len(cuts)-1 {
				return false
			}
			cuts[n] = int32(base + bits.TrailingZeros64(found))
			n++
		}
	}
	for ; base < len(line); base++ {
		if line[base] == x.delimited.delim {
			if n >= len(cuts)-1 {
				return false
			}
			cuts[n] = int32(base)
			n++
		}
	}
	cuts[len(cuts)-1] = int32(len(line))
	return n == len(cuts)-1
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// zeroBytes has bit i set if byte i of x is zero.
func zeroBytes(x uint64) uint64 {
	// The high bit of each byte that is zero, and of no other.
	zero := ^((x&^highs + ^uint64(highs)) | x | ^uint64(highs))
	// The eight bits come together in the highest byte, each shifted by its own
	// distance, without carries.
	return zero >> 7 * 0x0102040810204080 >> 56
}

// decimal reads a number as parseNumber does; false if that must be asked. rest
// is the line from the text on.
func decimal(text, rest []byte) (float64, bool) {
	n := len(text)
	if n == 0 || n > 8 || len(rest) < 8 {
		return smallNumber(text)
	}
	// The digits, the last in the highest byte, with zeros before the first.
	d := (binary.LittleEndian.Uint64(rest) ^ '0'*ones) << (64 - 8*n)
	if (d+0x76*ones|d)&highs != 0 {
		return smallNumber(text) // a sign, a point, or something else
	}
	// Pairs of digits, then of pairs, then of fours.
	d = d * (10<<8 + 1) >> 8 & 0x00FF00FF00FF00FF
	d = d * (100<<16 + 1) >> 16 & 0x0000FFFF0000FFFF
	d = d * (10000<<32 + 1) >> 32
	return float64(d), true
}
