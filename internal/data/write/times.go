package write

import (
	"bytes"
	"math"
	"time"

	tables "github.com/wdlrun/wdlrun/internal/data/table"
)

// Time is the type of a column of dates or times, whose values are texts as package table writes
// them. The zero Time is none.
type Time struct {
	Type  string // of package table: DATE, TIME or TIMESTAMP, or with UTC
	Nanos bool   // stored with nanoseconds; otherwise microseconds, and days of a DATE
}

// The types of package table that have no name there.
const (
	typeDate      = "DATE"
	typeTime      = "TIME"
	typeTimestamp = "TIMESTAMP"
)

// zoned reports whether the texts end with +00.
func (t Time) zoned() bool { return t.Type == tables.TypeTimeUTC || t.Type == tables.TypeTimestampUTC }

// clock reports whether the texts are times of a day.
func (t Time) clock() bool { return t.Type == typeTime || t.Type == tables.TypeTimeUTC }

// Divisions of a day.
const (
	secondsADay = 24 * 60 * 60
	nanosASec   = int64(time.Second)
)

// parse returns the number that is stored for a text. It accepts only the text that package table
// writes for this number.
func (t Time) parse(text []byte) (n int64, ok bool) {
	var days, nanos int64
	if !t.clock() {
		if days, text, ok = cutDay(text); !ok {
			return 0, false
		}
		if t.Type == typeDate {
			return days, len(text) == 0 && days > -math.MaxInt32 && days < math.MaxInt32
		}
		if len(text) == 0 || text[0] != ' ' {
			return 0, false
		}
		text = text[1:]
	}
	if t.zoned() {
		if text, ok = bytes.CutSuffix(text, []byte("+00")); !ok {
			return 0, false
		}
	}
	if nanos, ok = clockOf(text); !ok {
		return 0, false
	}
	unit := int64(time.Microsecond)
	if t.Nanos {
		unit = 1
	}
	aDay := secondsADay * nanosASec / unit
	if most := math.MaxInt64/aDay - 1; nanos%unit != 0 || days > most || days < -most {
		return 0, false
	}
	return days*aDay + nanos/unit, true
}

// cutDay parses a date such as 2024-05-01 at the beginning of a text. A year before 1 is no date here:
// the text of a time in it has (BC) between date and time.
func cutDay(text []byte) (days int64, rest []byte, ok bool) {
	at := bytes.IndexByte(text, '-')
	if at < 4 || at > 7 || at > 4 && text[0] == '0' || len(text) < at+6 || text[at+3] != '-' {
		return 0, nil, false
	}
	year, ok1 := digits(text[:at])
	month, ok2 := digits(text[at+1 : at+3])
	day, ok3 := digits(text[at+4 : at+6])
	if !ok1 || !ok2 || !ok3 || year == 0 {
		return 0, nil, false
	}
	d := time.Date(int(year), time.Month(month), int(day), 0, 0, 0, 0, time.UTC)
	if d.Month() != time.Month(month) || d.Day() != int(day) {
		return 0, nil, false
	}
	return d.Unix() / secondsADay, text[at+6:], true // a day has no remainder
}

// clockOf parses a time of the day such as 12:34:56.5.
func clockOf(text []byte) (nanos int64, ok bool) {
	const whole = len("12:34:56")
	if len(text) < whole || text[2] != ':' || text[5] != ':' {
		return 0, false
	}
	hour, ok1 := digits(text[:2])
	minute, ok2 := digits(text[3:5])
	second, ok3 := digits(text[6:8])
	if !ok1 || !ok2 || !ok3 || hour > 23 || minute > 59 || second > 59 {
		return 0, false
	}
	nanos = (hour*3600 + minute*60 + second) * nanosASec
	if len(text) == whole {
		return nanos, true
	}
	fraction := text[whole+1:]
	part, ok := digits(fraction)
	if text[whole] != '.' || !ok || len(fraction) > 9 || fraction[len(fraction)-1] == '0' {
		return 0, false
	}
	for range 9 - len(fraction) {
		part *= 10
	}
	return nanos + part, true
}

// digits parses a number of digits alone.
func digits(b []byte) (n int64, ok bool) {
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, len(b) > 0
}
