package encode

import (
	"bytes"
	"math"
	"strconv"
	"unsafe"

	"github.com/wdlrun/wdlrun/internal/data/value"
)

// Formats and programs write the same value differently. A model that was trained on one
// spelling is asked about another, for example after pandas has turned integers with missing
// values into floating point numbers. A vocabulary therefore finds a value that it does not
// have by its other spellings, in ascending order.

// truths are the spellings of the two truth values: of JSON and CSV, of a column of floating
// point numbers, of R, of pandas and of Parquet.
var truths = [2][][]byte{
	{[]byte("1"), []byte("1.0"), []byte("TRUE"), []byte("True"), []byte("true")},
	{[]byte("0"), []byte("0.0"), []byte("FALSE"), []byte("False"), []byte("false")},
}

// truthsLike returns all spellings of a truth value; nil for other values.
func truthsLike(text []byte) [][]byte {
	for _, all := range truths {
		for _, w := range all {
			if bytes.Equal(w, text) {
				return all
			}
		}
	}
	return nil
}

// maxSpelled is the length of the longest result of respelled: an int64 and ".0".
const maxSpelled = 24

// respellings is the number of other spellings that respelled knows.
const respellings = 2

// respelled returns an integer as a floating point number, or the reverse: 7.0 for 7, and 7
// for 7.0; and also, as spelling 1, 7.205759403792794e+16 for 72057594037927936. A number with an
// exponent, such as 1.2345678E7, is 12345678. It appends to buf, of maxSpelled bytes, and returns
// nil if there is no such spelling.
func respelled(text, buf []byte, spelling int) []byte {
	if integer := ofExponent(text, buf); integer != nil {
		if spelling == 0 {
			return integer
		}
		var digits [maxSpelled]byte
		return appendExponent(buf, append(digits[:0], integer...))
	}
	digits, real := bytes.CutSuffix(text, []byte(".0"))
	if len(digits) > maxSpelled-2 || !isInteger(digits) {
		return nil
	}
	switch {
	case spelling == 1:
		return appendExponent(buf, digits)
	case real:
		return append(buf, digits...)
	}
	return append(append(buf, digits...), ".0"...)
}

// appendExponent appends an integer of 10^16 or more as the floating point number that programs
// write for it. It returns nil for others, and for those that 64 bits cannot represent.
func appendExponent(buf, digits []byte) []byte {
	if len(digits) < len("10000000000000000") {
		return nil
	}
	var back [maxSpelled]byte
	x, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(digits), len(digits)), 64)
	if err != nil || !bytes.Equal(strconv.AppendFloat(back[:0], x, 'f', 0, 64), digits) || math.Abs(x) < 1e16 {
		return nil
	}
	return value.AppendNumber(buf, x, 64)
}

// hasExponent reports whether text, which is not empty, may be a number with a positive exponent
// of one or two digits. It is for hot loops.
func hasExponent(text []byte) bool {
	n := len(text)
	return n > 2 && (text[1] == '.' || text[1]|0x20 == 'e' || text[0] == '-') && hasE(text)
}

// hasE reports whether one of the last four bytes, except the very last, is an e.
func hasE(text []byte) bool {
	n := len(text)
	return n > 2 && text[n-2]|0x20 == 'e' || n > 3 && text[n-3]|0x20 == 'e' || n > 4 && text[n-4]|0x20 == 'e'
}

// ofExponent appends the integer that a floating point number with an exponent is, below 2^64 in
// size: 72057594037927936 for 7.205759403792794e+16 or 7.205759403792794E16. It returns nil for
// other values.
func ofExponent(text, buf []byte) []byte {
	const longest = 26 // bytes of such a number
	if !hasExponent(text) || len(text) > longest {
		return nil
	}
	digits := bytes.TrimPrefix(text, []byte("-"))
	at := bytes.IndexAny(digits, "eE")
	if at < 1 || at == 2 || digits[0] < '1' || digits[0] > '9' || at > 2 && digits[1] != '.' || digits[at+1] == '-' {
		return nil // not as programs write it, with one digit before the point
	}
	exponent := bytes.TrimPrefix(digits[at+1:], []byte("+"))
	if !areDigits(digits[min(2, at):at]) || len(exponent) == 0 || !areDigits(exponent) {
		return nil // ParseFloat would allocate its error
	}
	x, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(text), len(text)), 64)
	if err != nil || x != math.Trunc(x) || math.Abs(x) >= 1<<64 {
		return nil
	}
	return strconv.AppendFloat(buf, x, 'f', 0, 64)
}

// idOf returns the integer that a value is, in any spelling.
func idOf(text []byte) (uint64, bool) {
	if id, ok := value.ParseID(bytes.TrimSuffix(text, []byte(".0"))); ok {
		return id, true
	}
	if all := truthsLike(text); all != nil {
		return value.ParseID(all[0])
	}
	var buf [maxSpelled]byte
	return value.ParseID(ofExponent(text, buf[:0]))
}

// isInteger reports whether text is the usual form of an integer: digits with an optional
// minus, and no leading zero, which codes such as 007 have.
func isInteger(text []byte) bool {
	text = bytes.TrimPrefix(text, []byte("-"))
	return len(text) > 0 && text[0] != '0' && areDigits(text)
}

// areDigits reports whether text has no byte that is not a digit.
func areDigits(text []byte) bool {
	for _, c := range text {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// Spellings returns the other spellings of a value of a vocabulary.
func Spellings(text []byte) (all []string) {
	for _, other := range truthsLike(text) {
		if !bytes.Equal(other, text) {
			all = append(all, string(other))
		}
	}
	for n := 0; n < respellings && truthsLike(text) == nil; n++ {
		if other := respelled(text, nil, n); other != nil && !bytes.Equal(other, text) {
			all = append(all, string(other))
		}
	}
	return all
}
