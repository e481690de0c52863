package table

import "github.com/wdlrun/wdlrun/internal/data/value"

// fixedRows is the number of rows of a page of a column of one value.
const fixedRows = 1 << 10

// Fix adds a column that has the same string in every row; nil: no value.
func (f *File) Fix(name string, text []byte) {
	if f.fixed == nil {
		f.fixed = map[string][]byte{}
	}
	f.fixed[name] = text
}

// fixedColumn returns a column whose only page repeats: its dictionary has one entry.
func fixedColumn(name string, text []byte) column {
	c := column{name: name, origin: origin{fixed: true}, level: fixedRows, count: fixedRows, dict: 1}
	c.values = &Values{typed{kind: value.Text, bytes: text, offsets: []uint32{0, uint32(len(text))}}}
	if text == nil {
		c.most, c.levels = 1, make([]byte, fixedRows)
		c.index = []int32{}
		return c
	}
	c.index = make([]int32, fixedRows)
	return c
}
