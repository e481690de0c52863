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
	line   []byte
	field  []byte
}

func newLines(w io.Writer, l Layout, t table) (*lines, error) {
	x := &lines{table: t, w: w, delim: l.Delimiter, quotes: l.Format == "csv"}
	if x.delim == 0 {
		x.delim = map[bool]byte{true: ',', false: '\t'}[x.quotes]
	}
	if x.delim == '"' || x.delim == '\n' || x.delim == '\r' || x.delim == ' ' || x.delim == Separator {
		return nil, fmt.Errorf("write: %q cannot stand between fields", x.delim)
	}
	if l.NoHeader || l.Format == "criteo" {
		return x, nil
	}
	for i, c := range x.columns {
		if c.Name == "" {
			return nil, fmt.Errorf("write: column %d has no name for the header", i+1)
		}
		x.field = append(x.field[:0], c.Name...)
		if err := x.put(i); err != nil {
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
		l := &x.typed[i]
		x.field = x.field[:0]
		for j := range l.Len() {
			if j > 0 {
				x.field = append(x.field, Separator)
			}
			at := len(x.field)
			x.field = l.Append(x.field, j)
			if x.columns[i].Many && bytes.IndexByte(x.field[at:], Separator) >= 0 {
				return x.fault(i, fmt.Sprintf("is a list and one of its values, %q, holds %q, which separates them in a line", x.field[at:], Separator))
			}
		}
		if err := x.put(i); err != nil {
			return err
		}
	}
	return x.end()
}

// put appends the field to the line as field i.
func (x *lines) put(i int) error {
	if i > 0 {
		x.line = append(x.line, x.delim)
	}
	b := x.field
	breaks := bytes.ContainsAny(b, "\r\n")
	if breaks && !x.quotes {
		return x.fault(i, "holds a line break, which tsv cannot; write csv, parquet, jsonl or tfrecord")
	}
	outer := len(b) > 0 && (isSpace(b[0]) || isSpace(b[len(b)-1]))
	if !outer && !breaks && bytes.IndexByte(b, x.delim) < 0 && (!x.quotes || bytes.IndexByte(b, '"') < 0) {
		if len(b) == 0 && len(x.columns) == 1 {
			if !x.quotes {
				return x.fault(i, "is the only one and empty, and a blank line is no record; write csv")
			}
			b = []byte(`""`)
		}
		x.line = append(x.line, b...)
		return nil
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

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }

func (x *lines) end() error {
	if len(x.line) > mostLine {
		return fmt.Errorf("write: record %d: it is %d bytes long, a line has at most %d", x.rows, len(x.line), mostLine)
	}
	x.line = append(x.line, '\n')
	if _, err := x.w.Write(x.line); err != nil {
		return fmt.Errorf("write: record %d: %w", x.rows, err)
	}
	return nil
}

func (x *lines) Close() error { return nil }
