package record

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

// mostShown is how many bytes of a value a message shows.
const mostShown = 40

// Flaw is what is wrong with a record, as long as it is not known where the
// record is.
type Flaw struct {
	Field  int    // of the record, where column is not known
	Column string // "" if the whole record is meant
	Value  string
	Want   string // what is wrong, or was expected
	Width  bool   // the record has another number of fields
}

// Fault is a record that cannot be used. Its place is a line of a text, a row of
// a table or an offset in bytes: unpacked ones, where the file is packed.
type Fault struct {
	File   string
	Line   int64  // counted from 1; 0: the file is no text
	Row    int64  // counted from 1; 0: the file is no table
	Offset int64  // of the record, where it has neither line nor row
	Column string // name of the field; "" if the whole record is meant
	Value  string // what is there, cut at 40 bytes
	Want   string // what is wrong with it, or was expected
	More   int64  // faulty records behind this one, in the part that was scanned

	Block int32 // of the dataset, by which faults are put in order
}

// Place is where the record is: people.csv:12.
func (f *Fault) Place() string {
	switch {
	case f.Line > 0:
		return fmt.Sprintf("%s:%d", f.File, f.Line)
	case f.Row > 0:
		return fmt.Sprintf("%s: row %d", f.File, f.Row)
	}
	return fmt.Sprintf("%s: offset %d", f.File, f.Offset)
}

// Reason says what is wrong with the record.
func (f *Fault) Reason() string {
	if f.Column == "" {
		return f.Want
	}
	return fmt.Sprintf("column %s: %s %s", f.Column, strconv.Quote(f.Value), f.Want)
}

// Error gives the place first, as compilers do.
func (f *Fault) Error() string {
	text := fmt.Sprintf("data: %s: %s", f.Place(), f.Reason())
	switch {
	case f.More == 1:
		text += " (and 1 more faulty record)"
	case f.More > 1:
		text += fmt.Sprintf(" (and %d more faulty records)", f.More)
	}
	return text
}

// CutLong shortens what a message shows of a value, at a whole character.
func CutLong(b []byte) []byte {
	if len(b) <= mostShown {
		return b
	}
	n := mostShown
	for n > mostShown-utf8.UTFMax && !utf8.RuneStart(b[n]) {
		n--
	}
	return append(b[:n:n], "…"...)
}
