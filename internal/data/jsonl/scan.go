package jsonl

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDeep is the maximum nesting depth of objects and arrays.
const maxDeep = 128

// fault is a syntax error in a record.
type fault struct {
	at   int // byte
	what string
}

func (f *fault) Error() string {
	return fmt.Sprintf("the record is not a JSON object: byte %d: %s", f.at, f.what)
}

// scanner parses a record.
type scanner struct {
	b []byte
	i int
}

func (s *scanner) fail(what string) error { return &fault{s.i, what} }

// blank skips white space.
func (s *scanner) blank() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

// peek returns the next byte after white space, 0 at the end.
func (s *scanner) peek() byte {
	if s.i < len(s.b) && s.b[s.i] > ' ' {
		return s.b[s.i]
	}
	if s.blank(); s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

// take skips one byte, which must be c.
func (s *scanner) take(c byte) error {
	if s.peek() != c || s.i == len(s.b) {
		if s.i == len(s.b) {
			return s.fail("it ends here")
		}
		return s.fail(fmt.Sprintf("%q instead of %q", s.b[s.i], c))
	}
	s.i++
	return nil
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// plain returns the number of bytes of b before a quote, a backslash or a control
// character, or len(b).
func plain(b []byte) int {
	i := 0
	for ; i+8 <= len(b); i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		quote, slash := x^'"'*ones, x^'\\'*ones
		// The high bit of each byte that is zero or below a space. A borrow can mark bytes
		// above such a byte, but never the first.
		if hit := ((quote-ones)&^quote | (slash-ones)&^slash | (x-' '*ones)&^x) & highs; hit != 0 {
			return i + bits.TrailingZeros64(hit)/8
		}
	}
	for ; i < len(b) && b[i] != '"' && b[i] != '\\' && b[i] >= ' '; i++ {
	}
	return i
}

// str parses a string. Its contents are bytes lo to hi of the record; escaped reports that
// they contain escapes.
func (s *scanner) str() (lo, hi int, escaped bool, err error) {
	if err := s.take('"'); err != nil {
		return 0, 0, false, err
	}
	lo = s.i
	for {
		s.i += plain(s.b[s.i:])
		switch {
		case s.i == len(s.b):
			return 0, 0, false, s.fail("it ends within a string")
		case s.b[s.i] == '"':
			s.i++
			return lo, s.i - 1, escaped, nil
		case s.b[s.i] == '\\':
			escaped = true
			if err := s.escape(); err != nil {
				return 0, 0, false, err
			}
		default:
			return 0, 0, false, s.fail("a string contains a control character; JSON writes it as an escape")
		}
	}
}

// escape skips an escape.
func (s *scanner) escape() error {
	if s.i+1 >= len(s.b) {
		return s.fail("it ends within a string")
	}
	switch s.b[s.i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.i += 2
		return nil
	case 'u':
		if _, ok := hex4(s.b[s.i+2:]); ok {
			s.i += 6
			return nil
		}
	}
	return s.fail("a backslash in a string begins no escape")
}

// hex4 parses four hexadecimal digits.
func hex4(b []byte) (r rune, ok bool) {
	if len(b) < 4 {
		return 0, false
	}
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// appendText appends the value of a string with valid escapes. Halves of surrogate pairs
// become U+FFFD, as in encoding/json.
func appendText(dst, b []byte) []byte {
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' {
			dst = append(dst, b[i])
			continue
		}
		i++
		switch c := b[i]; c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r, _ := hex4(b[i+1:])
			if i += 4; utf16.IsSurrogate(r) {
				low, n := rune(0), 0
				if i+2 < len(b) && b[i+1] == '\\' && b[i+2] == 'u' {
					low, _ = hex4(b[i+3:])
					n = 6
				}
				if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
					i += n
				}
			}
			dst = utf8.AppendRune(dst, r)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// number parses a number.
func (s *scanner) number() (lo, hi int, err error) {
	lo = s.i
	if s.b[s.i] == '-' {
		s.i++
	}
	if s.i < len(s.b) && s.b[s.i] == '0' {
		s.i++
	} else if !s.digits() {
		return lo, s.i, s.fail("no value of JSON begins so")
	}
	if s.i < len(s.b) && s.b[s.i] == '.' {
		s.i++
		if !s.digits() {
			return lo, s.i, s.fail("a number lacks digits behind its point")
		}
	}
	if s.i < len(s.b) && s.b[s.i]|0x20 == 'e' {
		if s.i++; s.i < len(s.b) && (s.b[s.i] == '+' || s.b[s.i] == '-') {
			s.i++
		}
		if !s.digits() {
			return lo, s.i, s.fail("a number lacks digits in its exponent")
		}
	}
	return lo, s.i, nil
}

// digits skips digits. It returns false if there are none.
func (s *scanner) digits() bool {
	lo := s.i
	for s.i < len(s.b) && s.b[s.i]-'0' <= 9 {
		s.i++
	}
	return s.i > lo
}

// notFinite skips NaN, Infinity or -Infinity, which JSON does not have, but Python writes.
func (s *scanner) notFinite() (x float64, ok bool) {
	rest, sign := s.b[s.i:], 1
	if len(rest) > 0 && rest[0] == '-' {
		rest, sign = rest[1:], -1
	}
	switch {
	case sign > 0 && bytes.HasPrefix(rest, []byte("NaN")):
		s.i += len("NaN")
		return math.NaN(), true
	case bytes.HasPrefix(rest, []byte("Infinity")):
		s.i = len(s.b) - len(rest) + len("Infinity")
		return math.Inf(sign), true
	}
	return 0, false
}

// truth skips true or false, and returns it.
func (s *scanner) truth() ([]byte, error) {
	lo, w := s.i, "true"
	if s.b[lo] == 'f' {
		w = "false"
	}
	err := s.word(w)
	return s.b[lo:s.i:s.i], err
}

// word skips true, false or null.
func (s *scanner) word(w string) error {
	if len(s.b)-s.i < len(w) || string(s.b[s.i:s.i+len(w)]) != w {
		return s.fail("no value of JSON begins so")
	}
	s.i += len(w)
	return nil
}

// skip skips any value.
func (s *scanner) skip(deep int) (err error) {
	switch c := s.peek(); c {
	case '"':
		_, _, _, err = s.str()
	case '{', '[':
		return s.skipNested(c, deep)
	case 't':
		err = s.word("true")
	case 'f':
		err = s.word("false")
	case 'n':
		err = s.word("null")
	default:
		if s.i == len(s.b) {
			return s.fail("it ends where a value belongs")
		}
		if _, ok := s.notFinite(); ok {
			return nil
		}
		_, _, err = s.number()
	}
	return err
}

// skipNested skips an object or an array.
func (s *scanner) skipNested(open byte, deep int) error {
	if deep >= maxDeep {
		return s.tooDeep()
	}
	shut := open + 2 // in ASCII
	s.i++
	if s.peek() == shut {
		s.i++
		return nil
	}
	for {
		if open == '{' {
			if _, _, _, err := s.str(); err != nil {
				return err
			}
			if err := s.take(':'); err != nil {
				return err
			}
		}
		if err := s.skip(deep + 1); err != nil {
			return err
		}
		if s.peek() != ',' {
			return s.take(shut)
		}
		s.i++
	}
}

// record parses an object with nothing after it. See object.
func (s *scanner) record(text *[]byte, each func(name []byte) error) error {
	if err := s.object(text, 1, each); err != nil {
		return err
	}
	if s.blank(); s.i < len(s.b) {
		return s.fail(fmt.Sprintf("%q follows the object", s.b[s.i]))
	}
	return nil
}

// object calls each with the name of each member of an object, at the beginning of the
// value; each must skip the value. Escapes in a name are decoded into text.
func (s *scanner) object(text *[]byte, deep int, each func(name []byte) error) error {
	if deep > maxDeep {
		return s.tooDeep()
	}
	if err := s.take('{'); err != nil {
		return err
	}
	for more := s.peek() != '}'; more; {
		lo, hi, escaped, err := s.str()
		if err != nil {
			return err
		}
		name := s.b[lo:hi]
		if escaped {
			at := len(*text)
			*text = appendText(*text, name)
			name = (*text)[at:]
		}
		if err := s.take(':'); err != nil {
			return err
		}
		if err := each(name); err != nil {
			return err
		}
		if more = s.peek() == ','; more {
			s.i++
		}
	}
	return s.take('}')
}

func (s *scanner) tooDeep() error {
	return s.fail(fmt.Sprintf("objects and arrays are nested more than %d deep", maxDeep))
}
