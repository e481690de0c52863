package write

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/wdlrun/wdlrun/internal/data/value"
)

// pairs writes LibSVM and LibFFM.
type pairs struct {
	table
	w            io.Writer
	fields       bool // libffm
	label        int
	list, values int // columns of indices and their values, −1: none
	line         []byte
	order        []int // of the pairs of a record, by index
}

func newPairs(w io.Writer, fields bool, t table) (*pairs, error) {
	x := &pairs{table: t, w: w, fields: fields, list: -1, values: -1}
	names := t.names()
	x.label = max(slices.Index(names, "label"), 0)
	if !fields {
		x.list, x.values = slices.Index(names, "features"), slices.Index(names, "values")
	}
	if x.list < 0 || x.values < 0 {
		x.list, x.values = -1, -1
	}
	for i, c := range x.columns {
		switch {
		case i == x.label && c.Many:
			return nil, fmt.Errorf("write: column %s: the label is one value, not a list", c.Name)
		case i == x.label:
		case c.Kind == value.Text:
			return nil, fmt.Errorf("write: column %s has strings, but this format holds only numbers; leave the column out or use codes", c.Name)
		case c.Many && !fields && i != x.list && i != x.values:
			return nil, fmt.Errorf("write: column %s: it holds lists; in LibSVM an index has one value", c.Name)
		}
	}
	return x, nil
}

func (x *pairs) Write(lists []value.List) error {
	if err := x.take(lists); err != nil {
		return err
	}
	if err := x.checkNulls(); err != nil {
		return err
	}
	l := &x.typed[x.label]
	if l.Len() == 0 {
		return x.fault(x.label, "is the label and missing; no line can begin without one")
	}
	x.line = appendShort(x.line[:0], l, 0)
	for _, c := range x.line {
		if isSpace(c) || c == '\n' || c == '#' || x.line[0] == '+' {
			return x.fault(x.label, fmt.Sprintf("is the label and %q, which no line can begin with", x.line))
		}
	}
	if x.list >= 0 {
		if err := x.listed(); err != nil {
			return err
		}
	}
	index := 0
	for i := range x.typed {
		if i == x.label || i == x.list || i == x.values {
			continue
		}
		if index++; x.fields {
			x.triples(i, index)
		} else if l := &x.typed[i]; l.Len() > 0 {
			x.line = strconv.AppendInt(append(x.line, ' '), int64(index), 10)
			x.line = appendShort(append(x.line, ':'), l, 0)
		}
	}
	if len(x.line) > maxLine {
		return fmt.Errorf("write: record %d: it is %d bytes long, a line has at most %d", x.rows, len(x.line), maxLine)
	}
	if _, err := x.w.Write(append(x.line, '\n')); err != nil {
		return fmt.Errorf("write: record %d: %w", x.rows, err)
	}
	return nil
}

// appendShort writes value j without a fraction .0: all values of these formats are
// numbers.
func appendShort(dst []byte, l *value.List, j int) []byte {
	return bytes.TrimSuffix(l.Append(dst, j), []byte(".0"))
}

// listed writes the indices and values of a LibSVM record given as lists, in ascending order.
func (x *pairs) listed() error {
	indices, values := &x.typed[x.list], &x.typed[x.values]
	if indices.Len() != values.Len() {
		return x.fault(x.list, fmt.Sprintf("has %d indices for %d values", indices.Len(), values.Len()))
	}
	x.order = x.order[:0]
	for j := range indices.Len() {
		x.order = append(x.order, j)
	}
	if indices.Kind == value.Int { // other programs read ascending indices only
		slices.SortStableFunc(x.order, func(a, b int) int { return cmp.Compare(indices.Ints[a], indices.Ints[b]) })
	}
	for _, j := range x.order {
		x.line = indices.Append(append(x.line, ' '), j)
		x.line = appendShort(append(x.line, ':'), values, j)
	}
	return nil
}

// triples writes the values of column i as the values of a field.
func (x *pairs) triples(i, field int) {
	l := &x.typed[i]
	for j := range l.Len() {
		x.line = strconv.AppendInt(append(x.line, ' '), int64(field), 10)
		if l.Kind == value.Int {
			x.line = append(l.Append(append(x.line, ':'), j), ":1"...)
		} else {
			x.line = appendShort(append(x.line, ":0:"...), l, j)
		}
	}
}

func (x *pairs) Close() error {
	if x.rows == 0 {
		return errors.New("write: a file without records has no columns")
	}
	return nil
}
