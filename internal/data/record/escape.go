package record

import (
	"bytes"

	"github.com/wdlrun/wdlrun/internal/data/schema"
)

// escapes is the meaning of a backslash in the lines of csv and tsv.
type escapes uint8

const (
	noEscapes     escapes = iota // it is an ordinary byte
	quotedEscapes                // in quotes, it escapes a quote and a backslash
	allEscapes                   // it escapes any byte; \N is a missing value
)

// escapesOf returns the meaning for the setting data.escape.
func escapesOf(escape string) escapes {
	switch escape {
	case schema.EscapeQuoted:
		return quotedEscapes
	case schema.EscapeAll:
		return allEscapes
	}
	return noEscapes
}

// append appends the byte for a backslash and c.
func (e escapes) append(dst []byte, c byte) []byte {
	const letters, meant = "0bfnrtvZ", "\x00\b\f\n\r\t\v\x1a"
	if e == quotedEscapes {
		if c != '"' && c != '\\' {
			dst = append(dst, '\\')
		}
		return append(dst, c)
	}
	if i := bytes.IndexByte([]byte(letters), c); i >= 0 {
		c = meant[i]
	}
	return append(dst, c)
}
