package table

import (
	"encoding/binary"
	"errors"
	"math"
	"strconv"
	"time"
)

// Dates and times are written as DuckDB writes them to CSV, in ISO 8601 with a space
// between date and time: 2024-05-01, 12:34:56.5, 2024-05-01 12:34:56.5+00.

const secondsADay = 24 * 60 * 60

// appendDay writes a DATE, in days since 1970.
func appendDay(dst []byte, v *typed, i int) ([]byte, error) {
	switch n := v.integer(i); n {
	case math.MaxInt32:
		return append(dst, "infinity"...), nil
	case -math.MaxInt32:
		return append(dst, "-infinity"...), nil
	default:
		return appendDate(dst, n), nil
	}
}

// appendDate writes the date of a day.
func appendDate(dst []byte, day int64) []byte {
	year, month, d := time.Unix(day*secondsADay, 0).UTC().Date()
	before := ""
	if year <= 0 {
		year, before = 1-year, " (BC)"
	}
	dst = appendPadded(dst, int64(year), 4)
	dst = appendPadded(append(dst, '-'), int64(month), 2)
	return append(appendPadded(append(dst, '-'), int64(d), 2), before...)
}

// appendPadded writes n with zeros before it.
func appendPadded(dst []byte, n int64, width int) []byte {
	for limit := int64(10); width > 1; width-- {
		if n < limit {
			dst = append(dst, '0')
		}
		limit *= 10
	}
	return strconv.AppendInt(dst, n, 10)
}

// clock is the unit and the zone of a TIME or TIMESTAMP.
type clock struct {
	unit time.Duration
	utc  bool
}

// appendTime writes a time of the day.
func (c clock) appendTime(dst []byte, v *typed, i int) ([]byte, error) {
	n, aSecond := v.integer(i), int64(time.Second/c.unit)
	if n < 0 || n > secondsADay*aSecond {
		return dst, errors.New("a TIME is outside a day; was it written as another type?")
	}
	return c.zone(appendClock(dst, n/aSecond, n%aSecond*int64(c.unit))), nil
}

func (c clock) zone(dst []byte) []byte {
	if c.utc {
		return append(dst, "+00"...)
	}
	return dst
}

// appendClock writes hours, minutes, seconds and, if there is one, a fraction.
func appendClock(dst []byte, seconds, nanos int64) []byte {
	dst = appendPadded(dst, seconds/3600, 2)
	dst = appendPadded(append(dst, ':'), seconds/60%60, 2)
	dst = appendPadded(append(dst, ':'), seconds%60, 2)
	if nanos == 0 {
		return dst
	}
	dst = appendPadded(append(dst, '.'), nanos, 9)
	for dst[len(dst)-1] == '0' {
		dst = dst[:len(dst)-1]
	}
	return dst
}

// appendTimestamp writes a time since 1970.
func (c clock) appendTimestamp(dst []byte, v *typed, i int) ([]byte, error) {
	n := v.integer(i)
	switch n {
	case math.MaxInt64:
		return append(dst, "infinity"...), nil
	case -math.MaxInt64:
		return append(dst, "-infinity"...), nil
	}
	aSecond := int64(time.Second / c.unit)
	seconds, rest := floored(n, aSecond)
	return c.moment(dst, seconds, rest*int64(c.unit)), nil
}

// floored divides with a remainder that is not negative.
func floored(n, by int64) (quotient, rest int64) {
	if quotient, rest = n/by, n%by; rest < 0 {
		quotient, rest = quotient-1, rest+by
	}
	return quotient, rest
}

// moment writes a time in seconds since 1970.
func (c clock) moment(dst []byte, seconds, nanos int64) []byte {
	day, within := floored(seconds, secondsADay)
	return c.zone(appendClock(append(appendDate(dst, day), ' '), within, nanos))
}

// appendInt96 writes a timestamp as Impala and Spark stored it: nanoseconds of the day,
// then the Julian day. For a year beyond 294,247 both overflow, so that only their sum in
// microseconds of 64 bits is right.
func appendInt96(dst []byte, v *typed, i int) ([]byte, error) {
	const epoch = 2440588 // Julian day of 1970-01-01
	x := v.int96s[i]
	micros, below := floored(int64(uint64(x[1])<<32|uint64(x[0])), int64(time.Microsecond))
	micros += (int64(int32(x[2])) - epoch) * secondsADay * 1_000_000
	seconds, rest := floored(micros, 1_000_000)
	return clock{}.moment(dst, seconds, rest*int64(time.Microsecond)+below), nil
}

// appendInterval writes months, days and milliseconds, each of four bytes.
func appendInterval(dst []byte, v *typed, i int) ([]byte, error) {
	b, begin := v.text(i), len(dst)
	months, days, millis := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint32(b[8:])
	for _, part := range []struct {
		n    uint32
		unit string
	}{{months / 12, "year"}, {months % 12, "month"}, {days, "day"}} {
		if part.n == 0 {
			continue
		}
		if len(dst) > begin {
			dst = append(dst, ' ')
		}
		dst = append(strconv.AppendUint(dst, uint64(part.n), 10), ' ')
		if dst = append(dst, part.unit...); part.n != 1 {
			dst = append(dst, 's')
		}
	}
	if millis == 0 && len(dst) > begin {
		return dst, nil
	}
	if len(dst) > begin {
		dst = append(dst, ' ')
	}
	return appendClock(dst, int64(millis/1000), int64(millis%1000)*int64(time.Millisecond)), nil
}
