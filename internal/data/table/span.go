package table

import (
	"bytes"
	"fmt"
	"io"
	"math"

	"github.com/wdlrun/wdlrun/internal/data/value"
)

// Span are the values of a flat column in some rows, which all are in one page.
// They are valid until the next call of Next.
type Span struct {
	Values *Values // of the page, or its dictionary
	Index  []int32 // of each value that is there, its place in Values, which a broken file may have past their end; nil: First, First + 1, …
	First  int
	There  []byte // of each row: Most, if its value is there; nil: all are
	Most   byte
	Dict   int // number of the dictionary, 0 for none; another number, other Values
}

// Values are the plain values of a page or a dictionary, all of one kind.
type Values struct{ typed }

// Kind is that of every value.
func (v *Values) Kind() value.Kind { return v.kind }

// Len is how many there are.
func (v *Values) Len() int { return v.len() }

// Text is value i of kind Text.
func (v *Values) Text(i int) []byte { return v.text(i) }

// Int is value i of kind Int.
func (v *Values) Int(i int) int64 { return v.integer(i) }

// Ints is all of kind Int if they are so in memory, else nil.
func (v *Values) Ints() []int64 { return v.int64s }

// Real is value i of another kind.
func (v *Values) Real(i int) float64 { return v.doubles[i] }

// Flat reports whether no column that is read is one of lists.
func (r *Reader) Flat() bool {
	for i := range r.columns {
		if r.columns[i].list {
			return false
		}
	}
	return true
}

// Next moves on by at most most rows, as many as are in the pages that are being
// read, and fills spans, one for each column; io.EOF after the last row of the
// group. The columns must be flat.
func (r *Reader) Next(most int, spans []Span) (n int, err error) {
	defer caught(&err)
	if r.left == 0 {
		return 0, io.EOF
	}
	n = int(min(int64(most), r.left, math.MaxInt32))
	for i := range r.columns {
		c := &r.columns[i]
		for c.page == nil || c.level == c.count {
			if err := c.load(); err != nil {
				return 0, fmt.Errorf("column %s: %w", c.name, short(err))
			}
		}
		n = min(n, c.count-c.level)
	}
	for i := range r.columns {
		c := &r.columns[i]
		if err := c.span(n, &spans[i]); err != nil {
			return 0, fmt.Errorf("column %s: %w", c.name, err)
		}
	}
	r.left -= int64(n)
	return n, nil
}

// span takes n rows of the page.
func (c *column) span(n int, s *Span) error {
	*s = Span{Values: &c.values, First: c.at, Most: c.most, Dict: c.dict}
	there := n
	if c.most > 0 {
		s.There = c.levels[c.level : c.level+n]
		if there = bytes.Count(s.There, []byte{c.most}); there == n {
			s.There = nil
		}
	}
	c.level += n
	c.at += there
	if c.index == nil {
		if c.at > c.values.len() {
			return errShort
		}
		return nil
	}
	if c.at > len(c.index) {
		return errShort
	}
	s.Index = c.index[s.First:c.at]
	return nil
}
