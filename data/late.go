package data

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/wdlrun/wdlrun/data/value"
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

// perhapsLate adds to the faults of a schema, where a field that it names is not known,
// that only first records were asked, and what asks all.
func (d *Dataset) perhapsLate(err error) error {
	_, named := namingOf(d.format)
	unknown := func(c column) bool { return !slices.Contains(d.fields, c.name) }
	if !named || d.fields == nil || !slices.ContainsFunc(d.schema.columns(), unknown) {
		return err
	}
	return fmt.Errorf("%w\nthe fields are those of the first %d records of each file; if a field comes later, wdlrun data stats shows it, and wdlrun data convert -out FILE.parquet writes files that name it at their beginning", err, lookRecords)
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
