package write

import (
	"bytes"
	"fmt"
	"io"

	"github.com/wdlrun/wdlrun/internal/data/value"
)

// lines writes csv and tsv.
type lines struct {
	table
	w      io.Writer
	delim  byte
	quotes bool
	odd    [256]bool // by byte: a field that holds it may need quotes
	line   []byte
	field  []byte
}

func newLines(w io.Writer, l Layout, t table) (*lines, error) {
	x := &lines{table: t, w: w, delim: l.Delimiter, quotes: l.Format == "csv"}
	if x.delim == 0 {
		x.delim = map[bool]byte{true: ',', false: '\t'}[x.quotes]
	}
	if x.delim == '"' || x.delim == '\n' || x.delim == '\r' || x.delim == ' ' || x.delim == Separator {
		return nil, fmt.Errorf("write: %q cannot separate fields", x.delim)
	}
	x.odd[x.delim], x.odd['\r'], x.odd['\n'], x.odd['"'] = true, true, true, x.quotes
	if l.NoHeader || l.Format == "criteo" {
		return x, nil
	}
	for i, c := range x.columns {
		if c.Name == "" {
			return nil, fmt.Errorf("write: column %d has no name for the header", i+1)
		}
		if err := x.put(i, []byte(c.Name)); err != nil {
			return nil, err
		}
	}
	return x, x.end()
}

func (x *lines) Write(lists []value.List) error {
	if err := x.take(lists); err != nil {
		return err
	}
	x.line = x.line[:0]
	for i := range x.typed {
		field, err := x.fieldOf(i)
		if err != nil {
			return err
		}
		if err := x.put(i, field); err != nil {
			return err
		}
	}
	return x.end()
}

// fieldOf returns the values of column i as one text.
func (x *lines) fieldOf(i int) ([]byte, error) {
	l, many := &x.typed[i], x.columns[i].Many
	if l.Kind == value.Text && len(l.Texts) == 1 && !many {
		return l.Texts[0], nil
	}
	x.field = x.field[:0]
	first := true
	for j := range l.All {
		if !first {
			x.field = append(x.field, Separator)
		}
		if first = false; j < 0 {
			continue
		}
		at := len(x.field)
		x.field = l.Append(x.field, j)
		if many && bytes.IndexByte(x.field[at:], Separator) >= 0 {
			return nil, x.fault(i, fmt.Sprintf("is a list and one of its values, %q, holds %q, which separates them in a line; write parquet or jsonl, or name the other columns in -fields", x.field[at:], Separator))
		}
	}
	return x.field, nil
}

// put appends b to the line as field i.
func (x *lines) put(i int, b []byte) error {
	if i > 0 {
		x.line = append(x.line, x.delim)
	}
	if !x.isOdd(b) {
		if len(b) == 0 && len(x.columns) == 1 {
			if !x.quotes {
				return x.fault(i, "is the only one and empty, and a blank line is not a record; write csv")
			}
			b = []byte(`""`)
		}
		x.line = append(x.line, b...)
		return nil
	}
	if !x.quotes && bytes.ContainsAny(b, "\r\n") {
		return x.fault(i, "holds a line break, which tsv cannot; write csv, parquet, jsonl or tfrecord")
	}
	if !x.quotes {
		return x.fault(i, fmt.Sprintf("holds %q: in tsv no field can hold a delimiter, or begin or end with a space; write csv", b))
	}
	x.line = append(x.line, '"')
	for _, c := range b {
		if c == '"' {
			x.line = append(x.line, '"')
		}
		x.line = append(x.line, c)
	}
	x.line = append(x.line, '"')
	return nil
}

// isOdd reports whether a field needs quotes.
func (x *lines) isOdd(b []byte) bool {
	for _, c := range b {
		if x.odd[c] {
			return true
		}
	}
	return len(b) > 0 && (isSpace(b[0]) || isSpace(b[len(b)-1]))
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }

func (x *lines) end() error {
	if len(x.line) > maxLine {
		return fmt.Errorf("write: record %d: it is %d bytes long, a line has at most %d", x.rows, len(x.line), maxLine)
	}
	x.line = append(x.line, '\n')
	if _, err := x.w.Write(x.line); err != nil {
		return fmt.Errorf("write: record %d: %w", x.rows, err)
	}
	return nil
}

func (x *lines) Close() error { return nil }
