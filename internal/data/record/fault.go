package record

import (
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/wdlrun/wdlrun/internal/text/plural"
)

// maxShown is the maximum number of bytes of a value in a message.
const maxShown = 40

// Flaw is a fault of a record whose place is not yet known.
type Flaw struct {
	Field  int    // index in the record, if Column is unknown
	Column string // "" if the flaw concerns the whole record
	Value  string
	Want   string // what is wrong, or was expected

	Fields, Expected int // if their number differs
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
	Same   int64  // number of further records of the same kind, see Like
	Others *Others

	Block int32 // in the dataset; faults are ordered by it
}

// Take copies the column, the value and the reason of o. The place stays.
func (f *Fault) Take(o *Fault) { f.Column, f.Value, f.Want = o.Column, o.Value, o.Want }

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

// Like reports whether two faults are of the same kind: the same is wrong with the same column.
func (f *Fault) Like(o *Fault) bool { return f.Column == o.Column && f.Want == o.Want }

// Others are faults of other kinds in the part that was scanned.
type Others struct {
	First   []Fault // one for each kind
	Records int64   // number of all these records
}

// Together returns the first of faults of several kinds with the others. n is the number of faulty
// records.
func Together(faults []Fault, n int64) *Fault {
	f := faults[0]
	if rest := n - 1 - f.Same; rest > 0 {
		f.Others = &Others{First: faults[1:], Records: rest}
	}
	return &f
}

// maxKinds is the number of kinds of faults in one message.
const maxKinds = 4

// Error returns the place and the reason, in the form of compiler errors, followed by one example
// of each other kind of fault.
func (f *Fault) Error() string {
	text := f.line()
	if f.Others == nil {
		return text
	}
	rest := f.Others.Records
	for i := range f.Others.First[:min(len(f.Others.First), maxKinds-1)] {
		o := &f.Others.First[i]
		text += "; " + o.line()
		rest -= 1 + o.Same
	}
	if rest > 0 {
		text += fmt.Sprintf("; and %s of other kinds", plural.Of(int(rest), "faulty record"))
	}
	return text
}

// line describes the fault, and how many records are of its kind.
func (f *Fault) line() string {
	text := fmt.Sprintf("%s: %s", f.Place(), f.Reason())
	if f.Same > 0 {
		text += fmt.Sprintf(" (the first of %d such records)", 1+f.Same)
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
