package record

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/wdlrun/wdlrun/internal/text/plural"
)

// Arranged puts the fields of lines of one file in the order of the fields of all files: files
// whose headers differ are read by the names of their columns. A field that the file does not
// have is empty.
type Arranged struct {
	form  *Delimited
	at    []int // index in the line for each field, -1 if the file does not have it
	width int   // of a line
	cuts  []int // where fields of the line begin
	line  []byte
}

// NewArranged returns what arranges the lines of a file with fields own. It returns nil if their
// order is that of all.
func NewArranged(form *Delimited, own, all []string) *Arranged {
	if slices.Equal(own, all) {
		return nil
	}
	a := &Arranged{form: form, at: make([]int, len(all)), width: len(own)}
	for i, name := range all {
		a.at[i] = slices.Index(own, name)
	}
	return a
}

// Line returns a line with the fields in their order. It is valid until the next call.
func (a *Arranged) Line(line []byte) ([]byte, *Flaw) {
	d := a.form
	marked := !isPlain(line, d.quotes, d.escapes == allEscapes)
	if marked {
		if _, fl := d.Split(line, nil); fl != nil {
			return line, fl
		}
	}
	a.cut(line, marked)
	if n := len(a.cuts) - 1; n != a.width {
		return line, wrongWidth(n, a.width)
	}
	a.line = a.line[:0]
	for i, at := range a.at {
		if i > 0 {
			a.line = append(a.line, d.Delim)
		}
		if at >= 0 {
			a.line = append(a.line, line[a.cuts[at]:a.cuts[at+1]-1]...)
		}
	}
	return a.line, nil
}

// cut finds the fields of a line: field i is line[cuts[i]:cuts[i+1]-1].
func (a *Arranged) cut(line []byte, marked bool) {
	d := a.form
	a.cuts = append(a.cuts[:0], 0)
	if !marked {
		for at := 0; ; {
			n := bytes.IndexByte(line[at:], d.Delim)
			if n < 0 {
				break
			}
			at += n + 1
			a.cuts = append(a.cuts, at)
		}
	} else {
		q := quotes{delim: d.Delim, quoted: d.quotes, escapes: d.escapes}
		for i, c := range line {
			if c == d.Delim && !q.escaped && q.state != inQuotes {
				a.cuts = append(a.cuts, i+1)
			}
			q.state = q.next(c)
		}
	}
	a.cuts = append(a.cuts, len(line)+1)
}

// wrongWidth returns the flaw of a record with another number of fields.
func wrongWidth(n, want int) *Flaw {
	return &Flaw{Field: -1, Fields: n, Expected: want, Want: widthText(n, want)}
}

func widthText(n, want int) string {
	return fmt.Sprintf("the record has %s, expected %d", plural.Of(n, "field"), want)
}

// Related reports whether two lists of names can be headers of files of one table: at least half of
// the shorter one is also in the other, and no name occurs twice.
func Related(a, b []string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	known := make(map[string]bool, len(b))
	for _, name := range b {
		known[name] = true
	}
	both, own := 0, map[string]bool{}
	for _, name := range a {
		if own[name] = true; known[name] {
			both++
		}
	}
	return len(own) == len(a) && len(known) == len(b) && 2*both >= len(a) && both > 0
}
