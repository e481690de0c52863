package write

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/wdlrun/wdlrun/internal/data/value"
)

// maxCodes is the maximum total number of distinct strings of all columns.
const maxCodes = 16 << 20

// Codes replaces the strings of columns by numbers, for formats of numbers. In each column
// they are 1, 2, 3, … in order of first occurrence. In the column of the label they are 1
// or 0.
type Codes struct {
	columns []Column
	number  []map[string]int64 // by column; nil: it keeps its values
	texts   [][]string         // in order of first occurrence
	label   int                // column; −1: none
	isOne   func(text string) (one, ok bool)
	out     []value.List
	given   int
}

// NewCodes returns the Codes of columns.
func NewCodes(columns []Column) *Codes {
	c := &Codes{columns: columns, number: make([]map[string]int64, len(columns)), texts: make([][]string, len(columns)), label: -1, out: make([]value.List, len(columns))}
	for i := range columns {
		if columns[i].Kind == value.Text {
			c.number[i] = map[string]int64{}
		}
	}
	return c
}

// Label sets column i as the label. isOne maps its strings to 1 or 0; Replace fails for a
// string that it does not know.
func (c *Codes) Label(i int, isOne func(text string) (one, ok bool)) { c.label, c.isOne = i, isOne }

// Columns returns the columns of the lists that Replace returns.
func (c *Codes) Columns() []Column {
	all := make([]Column, len(c.columns))
	for i, col := range c.columns {
		if all[i] = col; c.number[i] != nil {
			all[i].Kind = value.Int
		}
	}
	return all
}

// Replace returns the lists with numbers instead of strings, valid until the next call.
// Missing values stay missing.
func (c *Codes) Replace(lists []value.List, missing []string) ([]value.List, error) {
	t := table{missing: missing}
	for i := range lists {
		to := &c.out[i]
		if c.number[i] == nil {
			*to = lists[i]
			continue
		}
		to.Reset()
		for j := range lists[i].All {
			var text []byte
			if j >= 0 {
				text = t.textOf(&lists[i], j)
			}
			if t.isMissing(text) {
				if lists[i].Places() > 1 {
					to.AddNull()
				}
				continue
			}
			n, ok := c.number[i][string(text)]
			if !ok {
				var err error
				if n, err = c.assign(i, string(text)); err != nil {
					return nil, err
				}
			}
			to.Begin(value.Int)
			to.Ints = append(to.Ints, n)
		}
	}
	return c.out, nil
}

// assign assigns a number to a new string of column i.
func (c *Codes) assign(i int, text string) (n int64, err error) {
	if c.given++; c.given > maxCodes {
		return 0, fmt.Errorf("write: codes: the columns have more than %d distinct strings; leave some columns out", maxCodes)
	}
	n = int64(len(c.texts[i])) + 1
	if i == c.label {
		one, ok := c.isOne(text)
		if !ok {
			return 0, fmt.Errorf("write: codes: column %s: %q is neither a positive nor a negative value of the label", c.columns[i].Name, text)
		}
		if n = 0; one {
			n = 1
		}
	}
	c.number[i][text], c.texts[i] = n, append(c.texts[i], text)
	return n, nil
}

// WriteTo writes one line per string: column, number and string separated by tabs. The
// string is quoted as in Go if it contains a tab, a quote or a line break.
func (c *Codes) WriteTo(w io.Writer) (n int64, err error) {
	b := bufio.NewWriter(w)
	for i, texts := range c.texts {
		for _, text := range texts {
			number := c.number[i][text]
			if strings.ContainsAny(text, "\t\n\r\"") {
				text = strconv.Quote(text)
			}
			k, err := fmt.Fprintf(b, "%s\t%d\t%s\n", c.columns[i].Name, number, text)
			if n += int64(k); err != nil {
				return n, fmt.Errorf("write: codes: %w", err)
			}
		}
	}
	return n, b.Flush()
}
