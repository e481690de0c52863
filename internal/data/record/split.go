package record

import (
	"bytes"

	"github.com/wdlrun/wdlrun/internal/data/schema"
)

// Delimited is csv and tsv.
type Delimited struct {
	Delim     byte
	quotes    bool // fields may be in double quotes
	comment   []byte
	header    bool     // the first line of each file names the fields
	names     []string // of the fields, if there is no header
	criteo    bool     // the first record shows whether there is a label
	multiline bool     // fields may contain line breaks
	escapes   escapes  // of a backslash
	plain     []byte   // buffer of fields without their quotes
}

// NewDelimited returns the format of a valid source.
func NewDelimited(s schema.Source) *Delimited {
	d := &Delimited{Delim: ',', quotes: true, comment: []byte(s.Comment), header: s.Header, names: s.Fields, multiline: s.Multiline, escapes: escapesOf(s.Escape)}
	if s.Format == "tsv" || s.Format == "criteo" {
		d.Delim, d.quotes = '\t', false
	}
	if s.Format == "criteo" {
		d.names, d.criteo = schema.CriteoFields(), true
	}
	if s.Delimiter != "" {
		d.Delim = s.Delimiter[0]
	}
	if d.Delim < ' ' && d.Delim != '\t' {
		d.quotes = false // as Hive writes
	}
	return d
}

func (d *Delimited) isRecord(line []byte) bool {
	if len(d.comment) > 0 && bytes.HasPrefix(line, d.comment) {
		return false
	}
	for _, c := range line {
		if c == d.Delim || c != ' ' && c != '\t' && c != '\r' {
			return true
		}
	}
	return false
}

// Split appends the fields of a line to dst. They are valid until the next call.
func (d *Delimited) Split(line []byte, dst [][]byte) ([][]byte, *Flaw) {
	if isPlain(line, d.quotes, d.escapes == allEscapes) {
		return d.splitPlain(line, dst), nil
	}
	return d.splitMarked(line, dst)
}

// isPlain reports whether a line has neither quotes nor, if they have a meaning outside of
// quotes, escapes.
func isPlain(line []byte, quotes, escapes bool) bool {
	return !(quotes && bytes.IndexByte(line, '"') >= 0 || escapes && bytes.IndexByte(line, '\\') >= 0)
}

// splitPlain splits a line without quotes at its delimiters. The decoder finds the fields
// of usual lines by a delim.Cutter.
func (d *Delimited) splitPlain(line []byte, dst [][]byte) [][]byte {
	for {
		n := bytes.IndexByte(line, d.Delim)
		if n < 0 {
			return append(dst, d.trim(line))
		}
		dst, line = append(dst, d.trim(line[:n])), line[n+1:]
	}
}

// splitMarked is Split for lines with a quote or an escape. A quote inside a field that does
// not begin with one is an ordinary byte.
func (d *Delimited) splitMarked(line []byte, dst [][]byte) ([][]byte, *Flaw) {
	d.plain = d.plain[:0]
	for {
		for d.quotes && len(line) > 0 && line[0] != d.Delim && (line[0] == ' ' || line[0] == '\t') {
			line = line[1:]
		}
		var field []byte
		switch {
		case d.quotes && len(line) > 0 && line[0] == '"':
			n, ok := d.unquote(line)
			if !ok {
				return dst, &Flaw{Field: len(dst), Value: string(CutLong(line)),
					Want: d.unclosed()}
			}
			field, line = d.plain[len(d.plain)-n.plain:], line[n.line:]
			for len(line) > 0 && line[0] != d.Delim && (line[0] == ' ' || line[0] == '\t') {
				line = line[1:]
			}
			if len(line) > 0 && line[0] != d.Delim {
				return dst, &Flaw{Field: len(dst), Value: string(CutLong(line)),
					Want: "text follows the closing quote of the field; write a quote inside a quoted field twice" + d.orEscaped(line)}
			}
		case d.escapes == allEscapes:
			field, line = d.unescape(line)
		default:
			n := bytes.IndexByte(line, d.Delim)
			if n < 0 {
				n = len(line)
			}
			field, line = d.trim(line[:n]), line[n:]
		}
		dst = append(dst, field)
		if len(line) == 0 {
			return dst, nil
		}
		line = line[1:]
	}
}

// unclosed returns the reason for an unclosed quote.
func (d *Delimited) unclosed() string {
	if d.multiline {
		return "the quote that opens the field is not closed within 1 MiB or the file; write a quote inside a quoted field twice"
	}
	return "the quote that opens the field is not closed on its line; if quoted fields hold line breaks, set data.multiline: true"
}

// span is the length of a quoted field on its line, and without its quotes.
type span struct{ line, plain int }

// unquote appends the field that begins line, without its quotes, to d.plain.
func (d *Delimited) unquote(line []byte) (n span, closed bool) {
	before, rest, marks := len(d.plain), line[1:], `"`
	if d.escapes != noEscapes {
		marks = `"\`
	}
	for {
		i := bytes.IndexAny(rest, marks)
		if i < 0 {
			return span{}, false
		}
		d.plain = append(d.plain, rest[:i]...)
		if rest[i] == '\\' {
			if len(rest) == i+1 {
				return span{}, false
			}
			d.plain = d.escapes.append(d.plain, rest[i+1])
			rest = rest[i+2:]
			continue
		}
		rest = rest[i+1:]
		if len(rest) == 0 || rest[0] != '"' {
			return span{len(line) - len(rest), len(d.plain) - before}, true
		}
		d.plain = append(d.plain, '"')
		rest = rest[1:]
	}
}

func (d *Delimited) trim(b []byte) []byte {
	if len(b) == 0 || b[0] > ' ' && b[len(b)-1] > ' ' {
		return b
	}
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

// Delimiters returns the delimiters that are recognised. The last is Hive's.
func Delimiters() []string { return []string{",", "\t", ";", "|", " ", "\x01"} }

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
