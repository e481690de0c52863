package table

import (
	"bytes"
	"fmt"
	"io"
	"math"

	"github.com/wdlrun/wdlrun/internal/data/value"
)

// Span is the values of a flat column in some rows, all in one page. It is valid until the
// next call of Next.
type Span struct {
	Values *Values // of the page, or of its dictionary
	Index  []int32 // index in Values of each non-null value, out of range in a broken file; nil: First, First + 1, …
	First  int
	There  []byte // by row: Most if its value is not null; nil: none is null
	Most   byte
	Dict   int // number of the dictionary, 0 for none; Values changes with it
}

// Values are the values of a page or a dictionary, all of one kind.
type Values struct{ typed }

// Kind returns the kind of every value.
func (v *Values) Kind() value.Kind { return v.kind }

// Len returns the number of values.
func (v *Values) Len() int { return v.len() }

// Text returns value i of kind Text.
func (v *Values) Text(i int) []byte { return v.text(i) }

// Int returns value i of kind Int.
func (v *Values) Int(i int) int64 { return v.integer(i) }

// Ints returns all values of kind Int if they are stored as int64, otherwise nil.
func (v *Values) Ints() []int64 { return v.int64s }

// Real returns value i of another kind.
func (v *Values) Real(i int) float64 { return v.doubles[i] }

// Flat reports whether no column that is read contains lists.
func (r *Reader) Flat() bool {
	for i := range r.columns {
		if r.columns[i].list {
			return false
		}
	}
	return true
}

// Lasting reports whether a dictionary lasts until the end of the row group.
func (r *Reader) Lasting() bool {
	for i := range r.columns {
		if r.columns[i].form != nil {
			return false
		}
	}
	return true
}

// Next advances by up to most rows, as many as are in the current pages, and fills
// spans, one per column; io.EOF after the last row of the group. The columns must be flat.
func (r *Reader) Next(most int, spans []Span) (n int, err error) {
	defer caught(&err)
	for r.isGone() {
		if n, err = r.spans(r.goneRows(), spans); err != nil {
			return 0, err
		}
		r.pass(n)
	}
	if len(r.gone) > 0 {
		most = int(min(int64(most), int64(r.gone[0])-r.row))
	}
	if n, err = r.spans(most, spans); err == nil {
		r.pass(n)
	}
	return n, err
}

// spans fills spans with up to most rows, which pass does not count yet.
func (r *Reader) spans(most int, spans []Span) (n int, err error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n = int(min(int64(most), r.left, math.MaxInt32))
	for i := range r.columns {
		c := &r.columns[i]
		for c.level == c.count {
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
	return n, nil
}

// span sets s to the next n rows of the page.
func (c *column) span(n int, s *Span) error {
	*s = Span{Values: c.values, First: c.at, Most: c.most, Dict: c.dict}
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
