package join

import (
	"bytes"
	"math"
	"strconv"

	"github.com/wdlrun/wdlrun/internal/data/date"
	"github.com/wdlrun/wdlrun/internal/data/value"
)

var isoDates = date.NewISO()

// millisOf returns the time in a field, in milliseconds since 1970: a date of ISO 8601, or a Unix time
// in seconds, milliseconds, microseconds or nanoseconds, which its size shows.
func millisOf(l *value.List, text []byte) (millis int64, ok bool) {
	switch l.Kind {
	case value.Int:
		return unixMillis(float64(l.Ints[0]), l.Ints[0])
	case value.Float32, value.Float64:
		return unixMillis(l.Reals[0], 0)
	}
	if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		return unixMillis(float64(n), n)
	}
	if x, err := strconv.ParseFloat(string(text), 64); err == nil {
		return unixMillis(x, 0)
	}
	seconds, ok := isoDates.Seconds(text)
	return seconds*1000 + fraction(text), ok
}

// unixMillis converts a Unix time x, which is exact if it is not 0. Seconds reach the year 5138.
func unixMillis(x float64, exact int64) (int64, bool) {
	switch size := math.Abs(x); {
	case math.IsNaN(x) || size >= 1e20:
		return 0, false
	case size < 1e11 && exact != 0:
		return exact * 1000, true
	case size < 1e11:
		return int64(math.Floor(x * 1000)), true
	case size < 1e14 && exact != 0:
		return exact, true
	case size < 1e14:
		return int64(math.Floor(x)), true
	case size < 1e17:
		return int64(math.Floor(x / 1e3)), true
	}
	return int64(math.Floor(x / 1e6)), true
}

// fraction returns the milliseconds in the fraction of a date's seconds.
func fraction(text []byte) (millis int64) {
	i := bytes.IndexAny(text, ".,")
	if i < 0 {
		return 0
	}
	for scale := int64(100); scale > 0; scale /= 10 {
		if i++; i >= len(text) || text[i] < '0' || text[i] > '9' {
			break
		}
		millis += int64(text[i]-'0') * scale
	}
	return millis
}
