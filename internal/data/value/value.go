// Package value holds the types shared by the formats of records: the values of one field
// in one record. It imports no other package of internal/data.
package value

import (
	"bytes"
	"math"
	"strconv"
	"unsafe"
)

// Kind is the type of the values of a List.
type Kind uint8

const (
	None    Kind = iota // the record does not have the field
	Text                // Texts
	Int                 // Ints
	Float32             // Reals, each the Widen of a float32
	Float64             // Reals
)

// List is the values of one field in one record, all of one kind. Texts may refer to the
// record and are valid as long as it is. The slices of other kinds are undefined. The zero
// List has no value.
//
// A value has a place in the list as it was written. Nulls take places too; the values fill
// the others in order. Only values that belong to those of another list, such as weights, need
// their places.
type List struct {
	Kind  Kind
	Texts [][]byte
	Ints  []int64
	Reals []float64
	Nulls []int32 // places of nulls in a list, ascending
	// Listed means that the record has a list, also of one value. Only JSON sets it; tables declare it.
	Listed bool
}

// Reset empties l and keeps its memory.
func (l *List) Reset() { l.Kind, l.Nulls, l.Listed = None, l.Nulls[:0], false }

// Begin sets the kind of l. If the kind changes, l is emptied.
func (l *List) Begin(k Kind) {
	if l.Kind == k {
		return
	}
	switch l.Kind = k; k {
	case Text:
		l.Texts = l.Texts[:0]
	case Int:
		l.Ints = l.Ints[:0]
	default:
		l.Reals = l.Reals[:0]
	}
}

// Len returns the number of values.
func (l *List) Len() int {
	switch l.Kind {
	case Text:
		return len(l.Texts)
	case Int:
		return len(l.Ints)
	case None:
		return 0
	}
	return len(l.Reals)
}

// Places returns the number of values and nulls.
func (l *List) Places() int { return l.Len() + len(l.Nulls) }

// All yields, for each place, the index of its value, −1 for a null.
func (l *List) All(yield func(i int) bool) {
	nulls, place := l.Nulls, int32(0)
	for i := 0; i < l.Len() || len(nulls) > 0; place++ {
		if i == l.Len() || len(nulls) > 0 && nulls[0] == place {
			if nulls = nulls[1:]; !yield(-1) {
				return
			}
			continue
		}
		if !yield(i) {
			return
		}
		i++
	}
}

// AddNull appends a null.
func (l *List) AddNull() { l.Nulls = append(l.Nulls, int32(l.Places())) }

// SetText sets l to one text.
func (l *List) SetText(b []byte) {
	l.Kind, l.Texts, l.Nulls, l.Listed = Text, append(l.Texts[:0], b), l.Nulls[:0], false
}

// AddText appends a string. A list of values of several kinds becomes one of strings, whose
// bytes are appended to text.
func (l *List) AddText(b []byte, text *[]byte) {
	if l.Kind != Text {
		before := *l
		l.Begin(Text)
		for i := range before.Len() {
			at := len(*text)
			*text = before.Append(*text, i)
			l.Texts = append(l.Texts, (*text)[at:len(*text):len(*text)])
		}
	}
	l.Texts = append(l.Texts, b)
}

// AddInt appends an integer, see AddText.
func (l *List) AddInt(n int64, text *[]byte) {
	if l.Kind != None && l.Kind != Int {
		at := len(*text)
		*text = strconv.AppendInt(*text, n, 10)
		l.AddText((*text)[at:len(*text):len(*text)], text)
		return
	}
	l.Begin(Int)
	l.Ints = append(l.Ints, n)
}

// AddReal appends a number of 64 bits, see AddText.
func (l *List) AddReal(x float64, text *[]byte) {
	if l.Kind != None && l.Kind != Float64 {
		at := len(*text)
		*text = AppendNumber(*text, x, 64)
		l.AddText((*text)[at:len(*text):len(*text)], text)
		return
	}
	l.Begin(Float64)
	l.Reals = append(l.Reals, x)
}

// AddNumber appends a number as JSON writes it, see AddText: an integer as one, beyond 64 bits
// as a string; any other number as one of 64 bits, or as a string if those cannot hold its
// digits. It returns false beyond the range of 64 bits.
func (l *List) AddNumber(b []byte, text *[]byte) bool {
	if bytes.IndexByte(b, '.') < 0 && bytes.IndexByte(b, 'e') < 0 && bytes.IndexByte(b, 'E') < 0 {
		if n, ok := parseInt(b); ok {
			l.AddInt(n, text)
		} else {
			l.AddText(b, text)
		}
		return true
	}
	x, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(b), len(b)), 64)
	switch {
	case err != nil:
		return false
	case keepsDigits(x, b):
		l.AddReal(x, text)
	default:
		l.AddText(b, text)
	}
	return true
}

// parseInt parses digits with an optional minus. It returns false beyond 64 bits.
func parseInt(b []byte) (n int64, ok bool) {
	const safe = 18 // digits that always fit
	if len(b) > safe {
		n, err := strconv.ParseInt(unsafe.String(unsafe.SliceData(b), len(b)), 10, 64)
		return n, err == nil
	}
	minus := b[0] == '-'
	if minus {
		b = b[1:]
	}
	for _, c := range b {
		n = n*10 + int64(c-'0')
	}
	if minus {
		n = -n
	}
	return n, true
}

// keepsDigits reports whether x, rounded to as many digits as its text b has, has the digits
// of b.
func keepsDigits(x float64, b []byte) bool {
	const (
		always = 15 // digits
		never  = 18
	)
	if len(b) <= always {
		return true
	}
	var buf, back [40]byte
	digits := digitsOf(buf[:0], b)
	if len(digits) <= always || len(digits) >= never {
		return len(digits) <= always
	}
	return bytes.Equal(digits, digitsOf(back[:0], strconv.AppendFloat(back[:0], x, 'e', len(digits)-1, 64)))
}

// digitsOf appends the digits of a number to dst, without those of the exponent and without
// zeros at the ends. It appends at most as many as dst has space for.
func digitsOf(dst, b []byte) []byte {
	for _, c := range b {
		if c|0x20 == 'e' || len(dst) == cap(dst) {
			break
		}
		if c >= '0' && c <= '9' && (c > '0' || len(dst) > 0) {
			dst = append(dst, c)
		}
	}
	return bytes.TrimRight(dst, "0")
}

// AddFloat32 appends a number of 32 bits to a list of such numbers.
func (l *List) AddFloat32(x float32) {
	l.Begin(Float32)
	l.Reals = append(l.Reals, Widen(x))
}

// Append appends value i to dst as text: an integer in decimal, a number in the shortest
// form that reads back as the same number of its kind.
func (l *List) Append(dst []byte, i int) []byte {
	switch l.Kind {
	case Text:
		return append(dst, l.Texts[i]...)
	case Int:
		return strconv.AppendInt(dst, l.Ints[i], 10)
	}
	bits := 64
	if l.Kind == Float32 {
		bits = 32
	}
	return AppendNumber(dst, l.Reals[i], bits)
}

// AppendNumber appends a number of 32 or 64 bits to dst as List.Append does, in the form
// of DuckDB, Python and Arrow: 39.0, 0.1, 1234567.5, 1e+16, nan, -inf. An integral number
// differs from an integer.
func AppendNumber(dst []byte, x float64, bits int) []byte {
	switch size := math.Abs(x); {
	case size < 1e16 && x == math.Trunc(x):
		return append(strconv.AppendFloat(dst, x, 'f', -1, bits), ".0"...)
	case size >= 1e-4 && size < 1e16:
		return strconv.AppendFloat(dst, x, 'f', -1, bits)
	case math.IsNaN(x):
		return append(dst, "nan"...)
	case math.IsInf(x, 1):
		return append(dst, "inf"...)
	case math.IsInf(x, -1):
		return append(dst, "-inf"...)
	}
	return strconv.AppendFloat(dst, x, 'e', -1, bits)
}

// Widen returns the number that x means: the float64 of its shortest decimal. 0.7 of 32 bits
// becomes 0.7 of 64 bits, as if it had been read from text. All readers of files and requests
// use it, so that a number has one meaning in every format, whatever its width.
func Widen(x float32) float64 {
	y := float64(x)
	size := math.Abs(y)
	switch {
	case size < 1<<24 && y == math.Trunc(y), math.IsNaN(y), math.IsInf(y, 0):
		return y
	case size < 1e-4 || size >= 1<<24:
		return widen(y)
	}
	// A decimal of six digits is unique at that length, so that shorter ones need no trial. Up
	// to 10^12, the product is exact, and the quotient of the two integers is rounded once.
	k := 0
	for size*powersOfTen[k] < 1e5 {
		k++
	}
	for _, power := range powersOfTen[k : k+4] {
		n := float64(y * power)
		whole := math.Round(n)
		if z := whole / power; float32(z) == x {
			if math.Abs(n-whole) == .5 {
				break // two are equally near
			}
			return z
		}
	}
	return widen(y)
}

// widen is Widen for any finite number.
func widen(y float64) float64 {
	var text [32]byte
	z, _ := strconv.ParseFloat(string(strconv.AppendFloat(text[:0], y, 'g', -1, 32)), 64)
	return z
}
