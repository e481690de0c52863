package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// quotes reports whether a line ends within a quoted field, so that the next line belongs to
// the same record. It looks at each byte once.
type quotes struct {
	delim   byte
	comment []byte
	state   quoteState
	seen    int // bytes of the record looked at
	first   int // length of its first line
}

// quoteState is where in a record a byte is.
type quoteState uint8

const (
	fieldStart quoteState = iota
	inPlain               // in a field without quotes, or behind its closing one
	inQuotes
	maybeClosed // behind a quote in a quoted field, which another would double
)

// newQuotes is nil if records are lines.
func (d *Delimited) newQuotes() *quotes {
	if !d.multiline {
		return nil
	}
	return &quotes{delim: d.Delim, comment: d.comment}
}

func (q *quotes) reset() {
	if q != nil {
		q.state, q.seen, q.first = fieldStart, 0, 0
	}
}

func (q *quotes) isOpen() bool { return q != nil && q.state == inQuotes }

// open takes in the rest of a record that a line feed follows; true if that line feed is
// part of a field.
func (q *quotes) open(record []byte) bool {
	rest := record[q.seen:]
	if q.seen == 0 {
		q.first = len(record)
		if bytes.IndexByte(rest, '"') < 0 || len(q.comment) > 0 && bytes.HasPrefix(rest, q.comment) {
			return false
		}
	}
	for _, c := range rest {
		q.state = q.next(c)
	}
	q.seen = len(record)
	return q.state == inQuotes
}

// next is the state behind a byte.
func (q *quotes) next(c byte) quoteState {
	switch {
	case q.state == inQuotes && c == '"':
		return maybeClosed
	case q.state == inQuotes:
		return inQuotes
	case q.state == maybeClosed && c == '"':
		return inQuotes
	case c == q.delim:
		return fieldStart
	case q.state == fieldStart && c == '"':
		return inQuotes
	case q.state == fieldStart && (c == ' ' || c == '\t'):
		return fieldStart
	}
	return inPlain
}

// ReadOnwards makes a file one that can only be read from its beginning.
func (f *File) ReadOnwards() { f.onwards = true }

// HasLineBreaks reports whether a quoted field in the first bytes of a file holds a line
// break: with it, a record has as many fields as the first one. A quote that is never
// closed shows none.
func (d *Delimited) HasLineBreaks(f *File, most int64) (found bool, err error) {
	src, err := f.Open()
	if err != nil {
		return false, err
	}
	defer src.Close()
	l := lines{quotes: d.newQuotes()}
	if err := l.start(src, f.size, f.mark, min(f.size, most), true); err != nil {
		return false, fmt.Errorf("data: open: %s: %w", f.Name, err)
	}
	var fields [][]byte
	for width := 0; ; {
		line, _, err := l.next()
		if err == io.EOF || errors.Is(err, ErrLongLine) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("data: open: %s: %w", f.Name, err)
		}
		breaks := bytes.IndexByte(line, '\n') >= 0
		if !breaks && width > 0 || !d.isRecord(line) {
			continue
		}
		var fl *Flaw
		fields, fl = d.Split(line, fields[:0])
		if width == 0 && fl == nil {
			width = len(fields)
		}
		if breaks && fl == nil && len(fields) == width {
			return true, nil
		}
	}
}
