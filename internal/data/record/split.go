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
	multiline bool     // quoted fields may contain line breaks
	plain     []byte   // buffer of fields without their quotes
}

// NewDelimited returns the format of a valid source.
func NewDelimited(s schema.Source) *Delimited {
	d := &Delimited{Delim: ',', quotes: true, comment: []byte(s.Comment), header: s.Header, names: s.Fields, multiline: s.Multiline}
	if s.Format == "tsv" || s.Format == "criteo" {
		d.Delim, d.quotes = '\t', false
	}
	if s.Format == "criteo" {
		d.names, d.criteo = schema.CriteoFields(), true
	}
	if s.Delimiter != "" {
		d.Delim = s.Delimiter[0]
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
	if d.quotes && bytes.IndexByte(line, '"') >= 0 {
		return d.splitQuoted(line, dst)
	}
	return d.splitPlain(line, dst), nil
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

// splitQuoted is Split for lines with a quote. A quote inside a field that does not begin
// with one is an ordinary byte.
func (d *Delimited) splitQuoted(line []byte, dst [][]byte) ([][]byte, *Flaw) {
	d.plain = d.plain[:0]
	for {
		for len(line) > 0 && line[0] != d.Delim && (line[0] == ' ' || line[0] == '\t') {
			line = line[1:]
		}
		var field []byte
		if len(line) > 0 && line[0] == '"' {
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
					Want: "text follows the closing quote of the field; write a quote inside a quoted field twice"}
			}
		} else {
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
	before, rest := len(d.plain), line[1:]
	for {
		i := bytes.IndexByte(rest, '"')
		if i < 0 {
			return span{}, false
		}
		d.plain = append(d.plain, rest[:i]...)
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

// Delimiters returns the delimiters that are recognised.
func Delimiters() []string { return []string{",", "\t", ";", "|", " "} }
