package data

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/wdlrun/wdlrun/data/value"
	"github.com/wdlrun/wdlrun/internal/nearest"
)

// lateNames gathers the names of fields that no first record of a file has. It
// belongs to one goroutine.
type lateNames struct {
	form  format
	known map[string]bool
	found []string // in the order in which they come
	text  []byte
}

// newLate is nil where no field can come late: where the beginning of a file tells all.
func (d *Dataset) newLate() *lateNames {
	lines, svm := svmOf(d.format)
	if _, named := namingOf(d.format); !named && !(svm && lines.fields) {
		return nil
	}
	l := &lateNames{form: d.format, known: map[string]bool{}}
	for _, name := range d.fields {
		l.known[name] = true
	}
	return l
}

// record takes in the names of a record that can be read.
func (l *lateNames) record(record []byte) {
	if form, named := namingOf(l.form); named {
		form.names(record, l.name)
		return
	}
	eachNumber(record, func(n uint64, _ []byte) {
		l.text = strconv.AppendUint(l.text[:0], n, 10)
		l.name(l.text)
		l.text = append(l.text, valuesSuffix...)
		l.name(l.text)
	})
}

func (l *lateNames) name(name []byte) {
	if !l.known[string(name)] {
		l.known[string(name)] = true
		l.found = append(l.found, string(name))
	}
}

// Survey is a Walk that also finds late fields: those that records name and Fields
// does not, for no first record of a file has them. With knows them.
func (f *Files) Survey(ctx context.Context, names []string, most int, each func([]value.List) error, progress func(bytes int64)) (w Walked, late []string, err error) {
	l := f.d.newLate()
	w, err = f.walk(ctx, names, most, each, progress, l)
	if l == nil {
		return w, nil, err
	}
	if form, _ := namingOf(l.form); form == (exampleFormat{}) {
		slices.Sort(l.found) // those of a map, whose order means nothing
	}
	return w, l.found, err
}

// With is f with late fields behind the others.
func (f *Files) With(late []string) *Files {
	d := *f.d
	d.fields = union(slices.Clone(d.fields), late)
	return &Files{&d}
}

// Learn returns files that know the fields of these names, f itself if it does. It
// reads the records until all of them have come; what has not is not there.
func (f *Files) Learn(ctx context.Context, names []string, progress func(bytes int64)) (*Files, error) {
	l := f.d.newLate()
	unknown := func(name string) bool { return !l.known[name] }
	if l == nil || !slices.ContainsFunc(names, unknown) {
		return f, nil
	}
	_, err := f.walk(ctx, nil, 0, func([]value.List) error {
		if len(l.found) > 0 && !slices.ContainsFunc(names, unknown) {
			return Stop
		}
		return nil
	}, progress, l)
	return f.With(l.found), err
}

// How far Open reads for fields that no first record has, before it leaves that to the
// scan, which reads all records anyway: so the usual misspelt name is refused at once.
const (
	lateRecords = 1 << 18
	lateBytes   = 64 << 20
)

// findLate looks for the fields that features need and no first record has. late are
// then those that have not come and may yet; the fields have those that have come.
func (d *Dataset) findLate() {
	if d.late = d.lateFields(); len(d.late) == 0 {
		return
	}
	l, all, n, done := d.newLate(), true, 0, int64(0)
	known := func(name string) bool { return l.known[name] }
	unknown := func(name string) bool { return !l.known[name] }
	_, err := (&Files{d}).walk(context.Background(), nil, 0, func([]value.List) error {
		if n++; n%lookRecords == 0 && !slices.ContainsFunc(d.late, unknown) || n == lateRecords || done > lateBytes {
			all = false
			return Stop
		}
		return nil
	}, func(bytes int64) { done = bytes }, l)
	for _, name := range d.late {
		if known(name) {
			d.fields = append(d.fields, name)
		}
	}
	if d.late = slices.DeleteFunc(d.late, known); all && err == nil {
		d.late = nil // they will not come
	}
}

// lateFields are those that features need and no first record has, of formats whose
// records name their fields.
func (d *Dataset) lateFields() (late []string) {
	more := func(f file) bool { return !f.told }
	if _, named := namingOf(d.format); !named || d.fields == nil || !slices.ContainsFunc(d.files, more) {
		return nil
	}
	for _, c := range d.schema.columns()[1:] {
		if c.name != "" && !slices.Contains(d.fields, c.name) {
			late = append(late, c.name)
		}
	}
	return late
}

// Late describes the fields that features need and none of the records has that Open
// read; "" if there is none. Use refuses those that the others lack too.
func (d *Dataset) Late() string {
	names := make([]string, len(d.late))
	first := d.without(d.late)
	for i, name := range d.late {
		names[i] = strconv.Quote(name)
		if other := nearest.Of(name, first); other != "" {
			names[i] += fmt.Sprintf("; did you mean %q?", other)
		}
	}
	return strings.Join(names, ", ")
}

// Lacks is the error of features whose field no record has.
func (d *Dataset) Lacks(c *Counts) error {
	if len(d.late) == 0 || len(d.late) == len(c.late) {
		return nil // all have come, or may yet
	}
	has := append(d.without(d.late), c.late...)
	return joined("data: schema of "+d.files[0].name, d.schema.Validate(has))
}

// watched are the fields of which a scan finds out whether they come: late ones, and all
// that features need where any name may come.
func (d *Dataset) watched() []string {
	_, named := namingOf(d.format)
	_, svm := svmOf(d.format)
	if d.fields != nil || !named && !svm {
		return d.late
	}
	var names []string
	for _, c := range d.schema.columns()[1:] {
		names = append(names, c.name)
	}
	return names
}

// Absent are, after Use, the fields that features need and no record has a value of,
// where any name may come, so that Open could not refuse them.
func (d *Dataset) Absent() []string { return d.absent }

// Near is, for each of these names, the most similar field that the first records have,
// "" if none is.
func (d *Dataset) Near(names []string) []string {
	near := make([]string, len(names))
	has, err := d.namesIn(0)
	if err != nil {
		return near // it is a hint
	}
	for i, name := range names {
		near[i] = nearest.Of(name, slices.DeleteFunc(slices.Clone(has), func(other string) bool { return other == name }))
	}
	return near
}

// without are the fields that are not of these names.
func (d *Dataset) without(names []string) []string {
	return slices.DeleteFunc(slices.Clone(d.fields), func(name string) bool { return slices.Contains(names, name) })
}

// watch finds out which of the watched fields come.
type watch struct {
	names   []string
	columns []int // of those that have not come yet
}

func (d *Dataset) newWatch(p *parser) watch {
	w := watch{names: d.watched()}
	for _, name := range w.names {
		w.columns = append(w.columns, p.columnOf(name))
	}
	return w
}

// record looks at the record that was parsed last.
func (w *watch) record(p *parser) {
	if len(w.columns) > 0 {
		w.columns = slices.DeleteFunc(w.columns, func(i int) bool { return p.lists[i].Len() > 0 })
	}
}

// came are the watched fields that have.
func (w *watch) came(p *parser) (names []string) {
	for _, name := range w.names {
		if !slices.ContainsFunc(w.columns, func(i int) bool { return p.columns[i].name == name }) {
			names = append(names, name)
		}
	}
	return names
}

// eachNumber calls f with the numbers that begin the words of a line of LibSVM or
// LibFFM behind the label, and the words.
func eachNumber(line []byte, f func(n uint64, word []byte)) {
	line, _, _ = bytes.Cut(line, []byte{'#'})
	label := true
	for word := range bytes.FieldsSeq(line) {
		if label {
			label = false
			continue
		}
		number, _, _ := bytes.Cut(word, []byte{':'})
		if n, err := strconv.ParseUint(string(number), 10, 64); err == nil {
			f(n, word)
		}
	}
}
