package record

import (
	"bytes"
)

// quotes finds lines that end within a quoted field, or with an escape: the next line belongs
// to the same record. It reads each byte once.
type quotes struct {
	delim   byte
	comment []byte
	quoted  bool // fields may be in quotes
	escapes escapes
	escaped bool // after a backslash that escapes the next byte
	state   quoteState
	seen    int // bytes of the record already read
	first   int // length of its first line
}

// quoteState is the state after a byte of a record.
type quoteState uint8

const (
	fieldStart quoteState = iota
	inPlain               // in an unquoted field, or after a closing quote
	inQuotes
	maybeClosed // after a quote in a quoted field, which a second quote would escape
)

// newQuotes returns nil if every line is a record.
func (d *Delimited) newQuotes() *quotes {
	if !d.multiline {
		return nil
	}
	return &quotes{delim: d.Delim, comment: d.comment, quoted: d.quotes, escapes: d.escapes}
}

func (q *quotes) reset() {
	if q != nil {
		q.state, q.escaped, q.seen, q.first = fieldStart, false, 0, 0
	}
}

func (q *quotes) isOpen() bool { return q != nil && (q.state == inQuotes || q.escaped) }

// open reads the rest of a record up to a line feed, and reports whether that line feed is
// part of a field.
func (q *quotes) open(record []byte) bool {
	rest := record[q.seen:]
	if q.seen == 0 {
		q.first = len(record)
		if isPlain(rest, q.quoted, q.escapes == allEscapes) || len(q.comment) > 0 && bytes.HasPrefix(rest, q.comment) {
			return false
		}
	}
	for _, c := range rest {
		q.state = q.next(c)
	}
	q.seen = len(record)
	return q.isOpen()
}

// next returns the state after a byte.
func (q *quotes) next(c byte) quoteState {
	switch {
	case q.escaped:
		q.escaped = false
		return q.state
	case c == '\\' && (q.escapes == allEscapes || q.escapes == quotedEscapes && q.state == inQuotes):
		if q.escaped = true; q.state == inQuotes {
			return inQuotes
		}
		return inPlain
	case !q.quoted:
		return inPlain
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
