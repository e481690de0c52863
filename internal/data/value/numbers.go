package value

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unsafe"
)

// CheckNumber rejects numbers that are not finite in float32, the precision of the model.
func CheckNumber(x float64) (float64, string) {
	switch {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return 0, notFinite
	case math.IsInf(float64(float32(x)), 0):
		return 0, tooLarge
	}
	return x, ""
}

// IsInfinite reports whether a word is an infinite number.
func IsInfinite(word string) bool {
	x, err := strconv.ParseFloat(word, 64)
	return err == nil && math.IsInf(x, 0)
}

// IsNotFinite reports whether a fault that CheckNumber or ParseNumber returned is about a number
// that is NaN, infinite or beyond float32.
func IsNotFinite(why string) bool { return why == notFinite || why == tooLarge }

// Faults of a number.
const (
	notFinite = "is not a finite number; if it means missing, list it in data.missing"
	tooLarge  = "is larger than a 32-bit floating point number can be (3.4e38)"

	commaNumber = "is not a number here: one is written with a decimal point and without commas"
)

// withComma reports whether b is a number with commas between thousands.
func withComma(b []byte) bool {
	const longest = 40 // bytes of such numbers
	if len(b) > longest || !bytes.ContainsRune(b, ',') {
		return false
	}
	_, err := strconv.ParseFloat(strings.ReplaceAll(string(b), ",", ""), 64)
	return err == nil
}

// markOf returns the mark between the numbers of a list that is one text, 0 if b begins with no such
// list.
func markOf(b []byte) rune {
	for _, mark := range "|;^ " {
		first, rest, found := strings.Cut(string(b), string(mark))
		if !found {
			continue
		}
		second, _, _ := strings.Cut(rest, string(mark))
		_, no := strconv.ParseFloat(first, 64)
		_, nor := strconv.ParseFloat(second, 64)
		if no == nil && nor == nil {
			return mark
		}
	}
	return 0
}

// ParseNumber parses a decimal number. why is the fault, "" for none. Numbers beyond the
// range of float32, the precision of the model, are rejected.
func ParseNumber(b []byte) (x float64, why string) {
	const (
		want        = "is not a number; if it means missing, list it in data.missing"
		longestWord = 16 // with sign, of words for non-finite numbers
	)
	x, ok := SmallNumber(b)
	if ok {
		return x, ""
	}
	for _, c := range b {
		if (c < '0' || c > '9') && c != '.' && c != '-' && c != '+' && c != 'e' && c != 'E' {
			if s := strings.ToLower(strings.TrimLeft(string(b[:min(len(b), longestWord)]), "+-")); s == "nan" || s == "inf" || s == "infinity" {
				return 0, notFinite
			}
			if withComma(b) {
				return 0, commaNumber
			}
			if mark := markOf(b); mark != 0 {
				return 0, fmt.Sprintf("is not a number, but numbers with %q between them; set separator: %q and encode: vector", mark, string(mark))
			}
			return 0, want
		}
	}
	x, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(b), len(b)), 64)
	switch {
	case err != nil && !math.IsInf(x, 0):
		return 0, want
	case math.IsInf(float64(float32(x)), 0):
		return 0, tooLarge
	}
	return x, ""
}

var powersOfTen = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

// SmallNumber parses decimals of at most 15 digits without an exponent. The result is
// exact: digits and power of ten are both float64s, so their quotient is rounded once.
// Other numbers are left to strconv.
func SmallNumber(b []byte) (x float64, ok bool) {
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	if len(b) == 0 || len(b) > 16 {
		return 0, false
	}
	var digits uint64
	n, point := 0, -1
	for i, c := range b {
		switch {
		case c >= '0' && c <= '9':
			digits = digits*10 + uint64(c-'0')
			n++
		case c == '.' && point < 0:
			point = i
		default:
			return 0, false
		}
	}
	if n == 0 || n > 15 {
		return 0, false
	}
	x = float64(digits)
	if point >= 0 {
		x /= powersOfTen[len(b)-1-point]
	}
	if negative {
		x = -x
	}
	return x, true
}

// ParseID parses a 64-bit integer; a negative one is taken as its two's complement.
func ParseID(b []byte) (uint64, bool) {
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	if len(b) == 0 || len(b) > 20 {
		return 0, false
	}
	var x uint64
	for _, c := range b {
		d := uint64(c - '0')
		if d > 9 || x > (1<<64-1-d)/10 {
			return 0, false
		}
		x = x*10 + d
	}
	if negative {
		if x > 1<<63 {
			return 0, false
		}
		x = -x
	}
	return x, true
}
