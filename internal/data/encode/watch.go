package encode

import "slices"

// Watch finds out which of some fields come, and which of all that are read have a value.
type Watch struct {
	names   []string
	coder   *RowCoder
	columns []int // of those that have not come yet
	without []int // columns of which no record has had a value
}

// NewWatch watches the records that a coder checks for fields that it reads.
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

// Look looks at the record that was checked last.
func (w *Watch) Look() {
	if len(w.columns) > 0 {
		w.columns = slices.DeleteFunc(w.columns, func(i int) bool { return w.coder.parser.lists[i].Len() > 0 })
	}
	if len(w.without) > 0 {
		w.without = slices.DeleteFunc(w.without, func(i int) bool { return !w.coder.parser.absent[i] })
	}
}

// Came are the watched fields that have.
func (w *Watch) Came() (names []string) {
	for _, name := range w.names {
		if !slices.ContainsFunc(w.columns, func(i int) bool { return w.coder.parser.columns[i].Name == name }) {
			names = append(names, name)
		}
	}
	return names
}

// Without are the columns of the schema, by their places in it, of which no record has
// had a value.
func (w *Watch) Without() []int { return w.without }
