// Package micros formats the times of timelines, which are microseconds.
//
// Times are rounded to multiples of 1/8 µs. These are exact in binary floating point and whole
// numbers of nanoseconds, so start + length is exactly the end, whichever of them a reader
// computes with.
package micros

import "strconv"

// unit is the resolution in nanoseconds.
const unit = 125

// Append appends a time in nanoseconds as microseconds, five times as fast as formatting a
// float64.
func Append(b []byte, ns int64) []byte { return appendUnits(b, units(ns)) }

// AppendLength appends the time between two times as microseconds. The times are rounded as
// Append rounds them, not their difference: spans that follow each other do not overlap.
func AppendLength(b []byte, from, to int64) []byte { return appendUnits(b, units(to)-units(from)) }

// units returns the nearest multiple of the unit.
func units(ns int64) int64 {
	if ns < 0 {
		return -((unit/2 - ns) / unit)
	}
	return (ns + unit/2) / unit
}

func appendUnits(b []byte, n int64) []byte {
	if n < 0 {
		b, n = append(b, '-'), -n
	}
	b = append(strconv.AppendInt(b, n/8, 10), '.')
	thousandths := n % 8 * unit
	for tenth := int64(100); ; tenth /= 10 {
		b = append(b, byte('0'+thousandths/tenth))
		if thousandths %= tenth; thousandths == 0 {
			return b
		}
	}
}
