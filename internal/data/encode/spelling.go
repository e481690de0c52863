package encode

import "bytes"

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
func truthsLike(value []byte) [][]byte {
	for _, all := range truths {
		for _, w := range all {
			if bytes.Equal(w, value) {
				return all
			}
		}
	}
	return nil
}

// maxSpelled is the length of the longest result of respelled: an int64 and ".0".
const maxSpelled = 22

// respelled returns an integer as a floating point number, or the reverse: 7.0 for 7, and 7
// for 7.0. It appends to buf, of maxSpelled bytes, and returns nil for other values.
func respelled(value, buf []byte) []byte {
	digits, real := bytes.CutSuffix(value, []byte(".0"))
	if len(digits) > maxSpelled-2 || !isInteger(digits) {
		return nil
	}
	if buf = append(buf, digits...); !real {
		buf = append(buf, ".0"...)
	}
	return buf
}

// isInteger reports whether text is the usual form of an integer: digits with an optional
// minus, and no leading zero, which codes such as 007 have.
func isInteger(text []byte) bool {
	text = bytes.TrimPrefix(text, []byte("-"))
	if len(text) == 0 || text[0] == '0' {
		return false
	}
	for _, c := range text {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// Spellings returns the other spellings of a value of a vocabulary.
func Spellings(value []byte) (all []string) {
	for _, other := range truthsLike(value) {
		if !bytes.Equal(other, value) {
			all = append(all, string(other))
		}
	}
	if other := respelled(value, nil); other != nil && all == nil {
		all = append(all, string(other))
	}
	return all
}
