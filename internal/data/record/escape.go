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

// unescape returns the field without quotes that begins line, and the rest of the line. Blanks
// around a field with escapes belong to it. The field \N is empty, which is missing.
func (d *Delimited) unescape(line []byte) (field, rest []byte) {
	n, escaped := 0, false
	for n < len(line) && line[n] != d.Delim {
		if line[n] == '\\' {
			escaped = true
			n++
		}
		n++
	}
	n = min(n, len(line))
	field, rest = line[:n], line[n:]
	switch {
	case !escaped:
		return d.trim(field), rest
	case string(d.trim(field)) == `\N`:
		return field[:0], rest
	}
	at := len(d.plain)
	for i := 0; i < n; i++ {
		if field[i] == '\\' && i+1 < n {
			i++
			d.plain = d.escapes.append(d.plain, field[i])
			continue
		}
		d.plain = append(d.plain, field[i])
	}
	return d.plain[at:], rest
}

// orEscaped returns the advice for a quoted field whose quotes seem to be escaped; line begins
// behind the quote that closes it.
func (d *Delimited) orEscaped(line []byte) string {
	if d.escapes == noEscapes && bytes.Contains(line, []byte(`\"`)) {
		return ", or set data.escape: quoted if a backslash escapes it"
	}
	return ""
}
