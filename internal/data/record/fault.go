package record

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

// maxShown is the maximum number of bytes of a value in a message.
const maxShown = 40

// Flaw is a fault of a record whose place is not yet known.
type Flaw struct {
	Field  int    // index in the record, if Column is unknown
	Column string // "" if the flaw concerns the whole record
	Value  string
	Want   string // what is wrong, or was expected
	Width  bool   // the number of fields differs
}

// Fault is an unusable record. Its place is a line of a text, a row of a table or a byte
// offset; in a packed file, offsets count unpacked bytes.
type Fault struct {
	File   string
	Line   int64  // counted from 1; 0 if the file is not text
	Row    int64  // counted from 1; 0 if the file is not a table
	Offset int64  // of the record, if it has neither line nor row
	Column string // name of the field; "" if the fault concerns the whole record
	Value  string // the value found, cut at 40 bytes
	Want   string // what is wrong with it, or was expected
	More   int64  // number of further faulty records in the part that was scanned
	Same   int64  // number of these with the same Column, Value and Want

	Block int32 // in the dataset; faults are ordered by it
}

// Place returns the place of the record: people.csv:12.
func (f *Fault) Place() string {
	switch {
	case f.Line > 0:
		return fmt.Sprintf("%s:%d", f.File, f.Line)
	case f.Row > 0:
		return fmt.Sprintf("%s: row %d", f.File, f.Row)
	}
	return fmt.Sprintf("%s: offset %d", f.File, f.Offset)
}

// Reason returns the fault of the record.
func (f *Fault) Reason() string {
	if f.Column == "" {
		return f.Want
	}
	return fmt.Sprintf("column %s: %s %s", f.Column, strconv.Quote(f.Value), f.Want)
}

// Like reports whether two faults have the same reason.
func (f *Fault) Like(o *Fault) bool {
	return f.Column == o.Column && f.Value == o.Value && f.Want == o.Want
}

// Error returns the place and the reason, in the form of compiler errors.
func (f *Fault) Error() string {
	text := fmt.Sprintf("%s: %s", f.Place(), f.Reason())
	switch {
	case f.More == 1:
		text += " (and 1 more faulty record)"
	case f.More > 1:
		text += fmt.Sprintf(" (and %d more faulty records)", f.More)
	}
	return text
}

// CutLong shortens a value for a message, at the end of a character.
func CutLong(b []byte) []byte {
	if len(b) <= maxShown {
		return b
	}
	n := maxShown
	for n > maxShown-utf8.UTFMax && !utf8.RuneStart(b[n]) {
		n--
	}
	return append(b[:n:n], "…"...)
}
