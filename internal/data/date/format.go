package date

import (
	"bytes"
	"fmt"
	"strings"
	"time"
)

// Format is a format of dates. The zero Format accepts nothing.
type Format struct {
	name    string
	pattern string // "": not a pattern
	perUnit int64  // units of a Unix time per second
}

// Names of formats.
const (
	ISO       = "iso"
	Unix      = "unix"
	UnixMilli = "unix_ms"
	UnixMicro = "unix_us"
	UnixNano  = "unix_ns"
)

var unixUnits = []struct {
	name string
	per  int64
}{{Unix, 1}, {UnixMilli, 1e3}, {UnixMicro, 1e6}, {UnixNano, 1e9}}

const (
	directives = "YymbdHIpMSfz%"
	maxBytes   = 256 // of a pattern
)

// NewISO returns the format of ISO 8601.
func NewISO() Format { return Format{name: ISO} }

// NewFormat returns the format of a name or a pattern.
func NewFormat(s string) (Format, error) {
	if s == ISO {
		return NewISO(), nil
	}
	for _, u := range unixUnits {
		if s == u.name {
			return Format{name: s, perUnit: u.per}, nil
		}
	}
	if !strings.Contains(s, "%") || len(s) > maxBytes {
		return Format{}, fmt.Errorf("%q is not a date format; there are %s, %s, %s, %s, %s and patterns such as %%Y-%%m-%%d %%H:%%M:%%S", s, ISO, Unix, UnixMilli, UnixMicro, UnixNano)
	}
	has := map[byte]bool{}
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			continue
		}
		if i++; i == len(s) || strings.IndexByte(directives, s[i]) < 0 {
			return Format{}, fmt.Errorf("date format %q: %q is not a directive; there are %%Y %%y %%m %%b %%d %%H %%I %%p %%M %%S %%f %%z and %%%%", s, s[i-1:min(i+1, len(s))])
		}
		has[s[i]] = true
	}
	switch {
	case !(has['Y'] || has['y']) || !(has['m'] || has['b']) || !has['d']:
		return Format{}, fmt.Errorf("date format %q lacks a year (%%Y or %%y), a month (%%m or %%b) or a day (%%d)", s)
	case has['I'] != has['p'] || has['I'] && has['H']:
		return Format{}, fmt.Errorf("date format %q: %%I and %%p belong together, and replace %%H", s)
	}
	return Format{name: s, pattern: s}, nil
}

// String returns the name or the pattern.
func (f Format) String() string { return f.name }

// The years 1 to 9999, the range of four digits.
const (
	minSeconds = -62135596800
	maxSeconds = 253402300799
)

// parts are the fields of a date.
type parts struct {
	year, month, day, hour, minute, second int
	offset                                 int // seconds east of UTC
}

// seconds checks that the date exists.
func (p *parts) seconds() (int64, bool) {
	if p.year < 1 || p.month < 1 || p.month > 12 || p.day < 1 || p.hour > 23 || p.minute > 59 || p.second > 60 {
		return 0, false
	}
	t := time.Date(p.year, time.Month(p.month), p.day, 0, 0, 0, 0, time.UTC)
	if t.Day() != p.day {
		return 0, false // the month is shorter
	}
	return t.Unix() + int64(p.hour*3600+p.minute*60+p.second-p.offset), true
}

// scanner parses a date from left to right.
type scanner struct {
	b  []byte
	at int
}

func (s *scanner) done() bool { return s.at == len(s.b) }

// skip skips c, if it is next.
func (s *scanner) skip(c byte) bool {
	if s.at < len(s.b) && s.b[s.at] == c {
		s.at++
		return true
	}
	return false
}

// digits reads a number of least to most digits. It returns −1 if there is none.
func (s *scanner) digits(least, most int) int {
	n, first := 0, s.at
	for s.at < len(s.b) && s.at-first < most && s.b[s.at]-'0' <= 9 {
		n = 10*n + int(s.b[s.at]-'0')
		s.at++
	}
	if s.at-first < least {
		return -1
	}
	return n
}

// fraction skips digits.
func (s *scanner) fraction() bool {
	first := s.at
	for s.at < len(s.b) && s.b[s.at]-'0' <= 9 {
		s.at++
	}
	return s.at > first
}

// zone reads Z, UTC, GMT, +hh, +hhmm or +hh:mm.
func (s *scanner) zone() (offset int, ok bool) {
	switch rest := s.b[s.at:]; {
	case bytes.HasPrefix(rest, []byte("UTC")), bytes.HasPrefix(rest, []byte("GMT")):
		s.at += len("UTC")
		return 0, true
	case s.skip('Z'), s.skip('z'):
		return 0, true
	}
	sign := 1
	if s.skip('-') {
		sign = -1
	} else if !s.skip('+') {
		return 0, false
	}
	hours, minutes := s.digits(2, 2), 0
	if !s.done() {
		s.skip(':')
		minutes = s.digits(2, 2)
	}
	if hours < 0 || hours > 23 || minutes < 0 || minutes > 59 {
		return 0, false
	}
	return sign * (hours*3600 + minutes*60), true
}

// iso parses ISO 8601 with hyphens and colons, and the variant of databases: a blank for
// the T, and blanks before the zone.
func iso(b []byte) (int64, bool) {
	s := scanner{b: b}
	p := parts{year: s.digits(4, 4)}
	if p.year < 0 || !s.skip('-') {
		return 0, false
	}
	p.month = s.digits(2, 2)
	if !s.skip('-') {
		return 0, false
	}
	if p.day = s.digits(2, 2); s.done() {
		return p.seconds()
	}
	if !s.skip('T') && !s.skip('t') && !s.skip(' ') {
		return 0, false
	}
	if p.hour = s.digits(2, 2); p.hour < 0 {
		return 0, false
	}
	if s.skip(':') {
		if p.minute = s.digits(2, 2); p.minute < 0 {
			return 0, false
		}
		if s.skip(':') {
			p.second = s.digits(2, 2)
			if p.second < 0 || (s.skip('.') || s.skip(',')) && !s.fraction() {
				return 0, false
			}
		}
	}
	for s.skip(' ') {
	}
	if !s.done() {
		offset, ok := s.zone()
		if p.offset = offset; !ok {
			return 0, false
		}
	}
	seconds, ok := p.seconds()
	return seconds, ok && s.done()
}
