package encode

import "slices"

// Watch finds out which of some fields occur, and which columns have a value.
type Watch struct {
	names   []string
	coder   *RowCoder
	columns []int // columns of names that have not occurred yet
	without []int // columns that no record had a value of
}

// NewWatch returns a Watch for the fields names in the records that r checks.
func NewWatch(r *RowCoder, names []string) *Watch {
	w := &Watch{names: names, coder: r}
	for _, name := range names {
		w.columns = append(w.columns, r.parser.columnOf(name))
	}
	for i := range r.parser.columns {
		w.without = append(w.without, i)
	}
	return w
}

// Look adds the record checked last.
func (w *Watch) Look() {
	if len(w.columns) > 0 {
		w.columns = slices.DeleteFunc(w.columns, func(i int) bool { return w.coder.parser.lists[i].Len() > 0 })
	}
	if len(w.without) > 0 {
		w.without = slices.DeleteFunc(w.without, func(i int) bool { return !w.coder.parser.absent[i] })
	}
}

// Waits reports whether a field has not occurred yet: then Look must see every record.
func (w *Watch) Waits() bool { return len(w.columns) > 0 }

// Came returns the watched fields that occurred.
func (w *Watch) Came() (names []string) {
	for _, name := range w.names {
		if !slices.ContainsFunc(w.columns, func(i int) bool { return w.coder.parser.columns[i].Name == name }) {
			names = append(names, name)
		}
	}
	return names
}

// Without returns the columns of the schema, by index, that no record had a value of.
func (w *Watch) Without() []int { return w.without }
