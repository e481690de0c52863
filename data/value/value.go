// Package value holds what the formats of records have in common: the values
// of one field in one record. It imports nothing, so that a format can be used
// without the rest of package data.
package value

import (
	"math"
	"strconv"
)

// Kind is the type of the values of a List.
type Kind uint8

const (
	None    Kind = iota // the record does not have the field
	Text                // Texts
	Int                 // Ints
	Float32             // Reals, each a float32
	Float64             // Reals
)

// List are the values of one field in one record, all of one kind. Texts may
// lie in the record they were read from and are valid as long as it is. What the
// slices of other kinds hold means nothing. The zero List has no value.
type List struct {
	Kind  Kind
	Texts [][]byte
	Ints  []int64
	Reals []float64
}

// Reset empties l and keeps its memory.
func (l *List) Reset() { l.Kind = None }

// Begin makes l a list of a kind: an empty one, unless it is of that kind
// already.
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

// Len is the number of values.
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

// SetText makes l one text.
func (l *List) SetText(b []byte) {
	l.Kind, l.Texts = Text, append(l.Texts[:0], b)
}

// Append writes value i to dst as text: an integer in decimal, a number in the
// shortest form that reads back as the same number of its kind. So 39, 39.0 and
// "39" are one text, whatever the file they come from.
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

// AppendNumber writes a number of 32 or 64 bits to dst as List.Append does.
func AppendNumber(dst []byte, x float64, bits int) []byte {
	if x == math.Trunc(x) && math.Abs(x) < 1<<53 {
		return strconv.AppendInt(dst, int64(x), 10)
	}
	return strconv.AppendFloat(dst, x, 'g', -1, bits)
}
