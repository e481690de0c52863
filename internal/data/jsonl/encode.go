package jsonl

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/wdlrun/wdlrun/internal/data/value"
)

// ErrNotUTF8 means that JSON cannot hold a string.
var ErrNotUTF8 = errors.New("is not UTF-8, which JSON must be")

// AppendList appends the values of a field: an array if many is set, null if there is
// none. If truth is set, all are true or false. NaN and infinities are strings.
func AppendList(dst []byte, l *value.List, many, truth bool) ([]byte, error) {
	n := l.Places()
	if n == 0 || l.Len() == 0 && !many {
		return append(dst, "null"...), nil
	}
	if n > 1 && !many {
		return dst, fmt.Errorf("is %d values and no list", n)
	}
	if many {
		dst = append(dst, '[')
	}
	first := true
	for i := range l.All {
		if !first {
			dst = append(dst, ',')
		}
		if first = false; i < 0 {
			dst = append(dst, "null"...)
			continue
		}
		var err error
		if dst, err = appendValue(dst, l, i, truth); err != nil {
			return dst, err
		}
	}
	if many {
		dst = append(dst, ']')
	}
	return dst, nil
}

func appendValue(dst []byte, l *value.List, i int, truth bool) ([]byte, error) {
	switch {
	case l.Kind == value.Text && !truth:
		return AppendString(dst, l.Texts[i])
	case (l.Kind == value.Float32 || l.Kind == value.Float64) && !finite(l.Reals[i]):
		return append(l.Append(append(dst, '"'), i), '"'), nil
	}
	return l.Append(dst, i), nil
}

// AppendString appends a text as a string.
func AppendString(dst, b []byte) ([]byte, error) {
	if !utf8.Valid(b) {
		return dst, ErrNotUTF8
	}
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	for len(b) > 0 {
		n := plain(b)
		dst = append(dst, b[:n]...)
		if n == len(b) {
			break
		}
		switch c := b[n]; c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		}
		b = b[n+1:]
	}
	return append(dst, '"'), nil
}
