package body

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"

	"github.com/wdlrun/wdlrun/internal/data/value"
)

// scanner parses a text. It keeps the first fault, which moves it to the end.
type scanner struct {
	b   []byte
	i   int
	err error
	// values that may still be read
	left  int
	input string // name of the input being read; empty: none, or the only one

	converted []byte // strings of lists of several kinds
}

func (s *scanner) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("JSON: byte %d: %s", s.i, fmt.Sprintf(format, args...))
	}
	s.i = len(s.b)
}

// peek returns the next byte after white space, 0 at the end.
func (s *scanner) peek() byte {
	for s.i < len(s.b) {
		switch c := s.b[s.i]; c {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return c
		}
	}
	return 0
}

// take skips one byte, which must be c.
func (s *scanner) take(c byte) {
	if s.peek() != c {
		s.fail("expected %q", c)
		return
	}
	s.i++
}

// members calls f with the name of each member of an object; f reads the value.
func (s *scanner) members(f func(name string)) {
	s.take('{')
	if s.peek() == '}' {
		s.i++
		return
	}
	for s.err == nil {
		name := s.text()
		s.take(':')
		if s.err == nil {
			f(string(name))
		}
		if s.peek() != ',' {
			s.take('}')
			return
		}
		s.i++
	}
}

// elements calls f for each element of a list; f reads it.
func (s *scanner) elements(f func()) {
	s.take('[')
	if s.peek() == ']' {
		s.i++
		return
	}
	for s.err == nil {
		f()
		if s.peek() != ',' {
			s.take(']')
			return
		}
		s.i++
	}
}

// text reads a string.
func (s *scanner) text() []byte {
	if s.peek() != '"' {
		s.fail("expected a string")
		return nil
	}
	lo, plain := s.i, true
	for s.i++; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; {
		case c == '\\':
			plain = false
			s.i++
		case c == '"':
			s.i++
			if plain {
				return s.b[lo+1 : s.i-1 : s.i-1]
			}
			var text string
			if err := json.Unmarshal(s.b[lo:s.i], &text); err != nil {
				s.i = lo
				s.fail("%v", err)
			}
			return []byte(text)
		case c < ' ':
			s.fail("a control character in a string")
			return nil
		}
	}
	s.fail("the string does not end")
	return nil
}

// word skips the word w.
func (s *scanner) word(w string) bool {
	if !bytes.HasPrefix(s.b[s.i:], []byte(w)) {
		return false
	}
	s.i += len(w)
	return true
}

// single parses a value that is not a list, and appends it to l.
func (s *scanner) single(l *value.List) {
	if s.left--; s.left < 0 {
		s.fail("too many values; send fewer rows")
		return
	}
	switch c := s.peek(); {
	case c == '"':
		l.AddText(s.text(), &s.converted)
	case c == '{':
		s.base64(l)
	case s.word("true"):
		l.AddText([]byte("true"), &s.converted)
	case s.word("false"):
		l.AddText([]byte("false"), &s.converted)
	case s.word("null"):
	case s.word("NaN"):
		l.AddReal(math.NaN(), &s.converted)
	case s.word("Infinity"):
		l.AddReal(math.Inf(1), &s.converted)
	case s.word("-Infinity"):
		l.AddReal(math.Inf(-1), &s.converted)
	case c == '[' && s.input != "":
		s.fail("input %q has a list in a list of values; an input has at most two dimensions", s.input)
	case c == '[':
		s.fail("a list in a list of values; an input has at most two dimensions")
	default:
		s.number(l)
	}
}

// base64 reads {"b64": "…"}.
func (s *scanner) base64(l *value.List) {
	s.members(func(name string) {
		switch {
		case name == "b64":
		case s.input == "":
			s.fail("member %q: a value is a number, a string, a list, or {\"b64\": \"…\"}", name)
			return
		default:
			s.fail("input %q has an object with the member %q in its values; send its members as inputs: %q; a value is a number, a string, a list, or {\"b64\": \"…\"}", s.input, name, s.input+"."+name)
			return
		}
		text := s.text()
		encoding := base64.StdEncoding
		if bytes.IndexByte(text, '=') < 0 { // padding may be omitted
			encoding = base64.RawStdEncoding
		}
		b := make([]byte, encoding.DecodedLen(len(text)))
		n, err := encoding.Decode(b, text)
		if err != nil {
			s.fail("b64: %v", err)
		}
		l.AddText(b[:n], &s.converted)
	})
}

// number parses a JSON number.
func (s *scanner) number(l *value.List) {
	lo := s.i
	for s.i < len(s.b) && bytes.IndexByte([]byte("0123456789.eE+-"), s.b[s.i]) >= 0 {
		s.i++
	}
	text := s.b[lo:s.i]
	if !json.Valid(text) {
		s.i = lo
		s.fail("expected a value")
		return
	}
	if !l.AddNumber(text, &s.converted) {
		l.AddReal(math.Inf(1-2*bytes.Count(text[:1], []byte("-"))), &s.converted) // beyond the range of 64 bits
	}
}

// cell parses the values of an input in one row: one, or a list of them.
func (s *scanner) cell(input string, l *value.List) {
	s.input = input
	defer func() { s.input = "" }()
	if s.isOne() {
		s.take('[')
		s.take('[')
		s.single(l)
		s.take(']')
		s.take(']')
		return
	}
	if s.peek() == '[' {
		s.elements(func() {
			n := l.Len()
			if s.single(l); l.Len() == n {
				l.AddNull()
			}
		})
		return
	}
	s.single(l)
}

// isOne reports whether a list of one list of one value follows, as clients send a value of shape
// [1,1].
func (s *scanner) isOne() bool {
	ahead, l := *s, value.List{}
	for range 2 {
		if ahead.peek() != '[' {
			return false
		}
		ahead.i++
	}
	if c := ahead.peek(); c == '[' || c == ']' || c == '{' && !ahead.isBase64() {
		return false
	}
	ahead.single(&l)
	for range 2 {
		if ahead.peek() != ']' {
			return false
		}
		ahead.i++
	}
	return ahead.err == nil
}

// skip skips any value.
func (s *scanner) skip(depth int) {
	switch {
	case depth == 0:
		s.fail("more than %d levels", maxDeep)
	case s.peek() == '{':
		s.members(func(string) { s.skip(depth - 1) })
	case s.peek() == '[':
		s.elements(func() { s.skip(depth - 1) })
	default:
		var l value.List
		s.single(&l)
	}
}

// isBase64 reports whether an object is {"b64": …}.
func (s *scanner) isBase64() bool {
	ahead := *s
	ahead.i++
	return ahead.peek() == '"' && string(ahead.text()) == "b64"
}

const (
	maxDeep = 32  // levels of objects, and of lists of unknown members
	maxPath = 256 // bytes of the name of an object in a row, which is part of each input's name
)
