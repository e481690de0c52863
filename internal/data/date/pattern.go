package date

import (
	"bytes"
	"math"
	"strconv"
	"strings"
)

const months = "janfebmaraprmayjunjulaugsepoctnovdec"

// match parses a date by the pattern, which NewFormat has checked.
func (f Format) match(b []byte) (int64, bool) {
	s := scanner{b: b}
	var p parts
	afternoon, clock12 := false, false
	for i := 0; i < len(f.pattern); i++ {
		c := f.pattern[i]
		if c != '%' || f.pattern[i+1] == '%' {
			if !s.skip(c) {
				return 0, false
			}
			if c == '%' {
				i++
			}
			continue
		}
		i++
		// A number may lack its leading zero, unless another one adjoins it.
		least := 1
		if i >= 3 && f.pattern[i-3] == '%' || i+1 < len(f.pattern) && f.pattern[i+1] == '%' {
			least = 2
		}
		ok := true
		switch f.pattern[i] {
		case 'Y':
			p.year = s.digits(4, 4)
			ok = p.year >= 0
		case 'y':
			ok = s.number(&p.year, 2)
			const pivot = 69 // as in POSIX
			if p.year += 1900; p.year < 1900+pivot {
				p.year += 100
			}
		case 'm':
			ok = s.number(&p.month, least)
		case 'b':
			p.month = s.monthName()
			ok = p.month > 0
		case 'd':
			ok = s.number(&p.day, least)
		case 'H':
			ok = s.number(&p.hour, least)
		case 'I':
			clock12 = true
			ok = s.number(&p.hour, least) && p.hour >= 1 && p.hour <= 12
		case 'p':
			afternoon, ok = s.half()
		case 'M':
			ok = s.number(&p.minute, least)
		case 'S':
			ok = s.number(&p.second, least)
		case 'f':
			ok = s.fraction()
		case 'z':
			p.offset, ok = s.zone()
		}
		if !ok {
			return 0, false
		}
	}
	if clock12 {
		if p.hour %= 12; afternoon {
			p.hour += 12
		}
	}
	seconds, ok := p.seconds()
	return seconds, ok && s.done()
}

// number reads a number of at most two digits.
func (s *scanner) number(to *int, least int) bool {
	*to = s.digits(least, 2)
	return *to >= 0
}

// monthName parses three letters; 0 if they are not a month.
func (s *scanner) monthName() int {
	if s.at+3 > len(s.b) {
		return 0
	}
	for m := range 12 {
		if strings.EqualFold(months[3*m:3*m+3], string(s.b[s.at:s.at+3])) {
			s.at += 3
			return m + 1
		}
	}
	return 0
}

// half reads AM or PM.
func (s *scanner) half() (afternoon, ok bool) {
	if s.at+2 > len(s.b) || s.b[s.at+1]|0x20 != 'm' {
		return false, false
	}
	c := s.b[s.at] | 0x20
	s.at += 2
	return c == 'p', c == 'a' || c == 'p'
}

// unixSeconds reads a decimal number of units.
func unixSeconds(b []byte, per int64) (int64, bool) {
	n, end := int64(0), 0
	negative := b[0] == '-'
	if negative {
		end++
	}
	first := end
	for ; end < len(b) && b[end]-'0' <= 9; end++ {
		if n > (math.MaxInt64-9)/10 {
			return 0, false
		}
		n = 10*n + int64(b[end]-'0')
	}
	if negative {
		n = -n
	}
	switch {
	case end == first:
		return 0, false
	case end < len(b) && b[end] != '.' && b[end]|0x20 != 'e':
		return 0, false
	case end < len(b): // a fraction or an exponent
		x, err := strconv.ParseFloat(string(b), 64)
		if err != nil || !(math.Abs(x) < 1<<62) {
			return 0, false
		}
		n = int64(math.Floor(x))
	}
	seconds := n / per
	if n%per < 0 {
		seconds--
	}
	return seconds, seconds >= minSeconds && seconds <= maxSeconds
}

// Seconds parses a date. ok is false if b is not a date in this format.
func (f Format) Seconds(b []byte) (seconds int64, ok bool) {
	const longest = 64
	if b = bytes.TrimSpace(b); len(b) == 0 || len(b) > longest {
		return 0, false
	}
	switch {
	case f.pattern != "":
		return f.match(b)
	case f.perUnit > 0:
		return unixSeconds(b, f.perUnit)
	case f.name == ISO:
		return iso(b)
	}
	return 0, false
}
