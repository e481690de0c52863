package data

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// mostShown is how many bytes of a value a message shows.
const mostShown = 40

// flaw is what is wrong with a record, as long as it is not known where the
// record lies.
type flaw struct {
	field  int    // of the record, where column is not known
	column string // "" if the whole record is meant
	value  string
	want   string // what is wrong, or was expected
	width  bool   // the record has another number of fields
}

// Fault is a record that cannot be used.
type Fault struct {
	File   string
	Line   int64  // counted from 1
	Column string // name of the field; "" if the whole record is meant
	Value  string // what stands there, cut at 40 bytes
	Want   string // what is wrong with it, or was expected
	More   int64  // faulty records behind this one, in the part that was scanned
}

// Error gives the place first, as compilers do.
func (f *Fault) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "data: %s:%d: ", f.File, f.Line)
	if f.Column != "" {
		fmt.Fprintf(&b, "column %s: %s ", f.Column, strconv.Quote(f.Value))
	}
	b.WriteString(f.Want)
	switch {
	case f.More == 1:
		b.WriteString(" (and 1 more faulty record)")
	case f.More > 1:
		fmt.Fprintf(&b, " (and %d more faulty records)", f.More)
	}
	return b.String()
}

// cutLong shortens what a message shows of a value, at a whole character.
func cutLong(b []byte) []byte {
	if len(b) <= mostShown {
		return b
	}
	n := mostShown
	for n > mostShown-utf8.UTFMax && !utf8.RuneStart(b[n]) {
		n--
	}
	return append(b[:n:n], "…"...)
}
