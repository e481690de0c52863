// Package micros formats the times of timelines.
package micros

import "strconv"

// Append appends nanoseconds as microseconds with one decimal, five times as fast as formatting
// a float64.
func Append(b []byte, ns int64) []byte {
	if ns < 0 {
		b, ns = append(b, '-'), -ns
	}
	tenths := (ns + 50) / 100
	return append(strconv.AppendInt(b, tenths/10, 10), '.', byte('0'+tenths%10))
}
