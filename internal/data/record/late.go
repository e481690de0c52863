package record

import (
	"context"
	"slices"
	"strconv"

	"github.com/wdlrun/wdlrun/internal/data/value"
)

// lateNames collects the names of fields that are in no first record of a file. It belongs
// to one goroutine.
type lateNames struct {
	form  Format
	known map[string]bool
	found []string // in order of occurrence
	text  []byte
}

// newLate returns nil if the beginning of a file shows all fields.
func (s *Set) newLate() *lateNames {
	lines, svm := svmOf(s.Format)
	if _, named := namingOf(s.Format); !named && !(svm && lines.fields) {
		return nil
	}
	l := &lateNames{form: s.Format, known: map[string]bool{}}
	for _, name := range s.Fields {
		l.known[name] = true
	}
	return l
}

// record adds the names of the readable fields of a record.
func (l *lateNames) record(record []byte) {
	if form, named := namingOf(l.form); named {
		form.names(record, l.name)
		return
	}
	eachNumber(record, func(n uint64, _ []byte) {
		l.text = strconv.AppendUint(l.text[:0], n, 10)
		l.name(l.text)
		l.text = append(l.text, ValuesSuffix...)
		l.name(l.text)
	})
}

func (l *lateNames) name(name []byte) {
	if !l.known[string(name)] {
		l.known[string(name)] = true
		l.found = append(l.found, string(name))
	}
}

// Survey is a Walk that also finds late fields: those that records name, but that are not
// in Fields because no first record of a file has them. Pass them to With.
func (f *Files) Survey(ctx context.Context, names []string, most int, each func([]value.List) error, progress func(bytes int64)) (w Walked, late []string, err error) {
	l := f.set.newLate()
	w, err = f.walk(ctx, names, most, each, progress, l)
	if l == nil {
		return w, nil, err
	}
	if form, _ := namingOf(l.form); form == (exampleFormat{}) {
		slices.Sort(l.found) // they come from a map and have no order
	}
	return w, l.found, err
}

// With returns f with late fields appended to the others.
func (f *Files) With(late []string) *Files {
	s := *f.set
	s.Fields = union(slices.Clone(s.Fields), late)
	return &Files{&s}
}

// Learn returns files whose Fields contain these names, f itself if they are known. It
// reads records until all names have occurred; names that do not occur are left out.
func (f *Files) Learn(ctx context.Context, names []string, progress func(bytes int64)) (*Files, error) {
	l := f.set.newLate()
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

// How far Come reads for fields that no first record has. Beyond it the check is left to
// callers that read all records anyway. A misspelt name is thus usually rejected at once.
const (
	lateRecords = 1 << 18
	lateBytes   = 64 << 20
)

// unseen returns those of some fields that no first record has but that later ones may have,
// in formats whose records name their fields.
func (s *Set) unseen(fields []string) (late []string) {
	more := func(f File) bool { return !f.allRead }
	if _, named := namingOf(s.Format); !named || s.Fields == nil || !slices.ContainsFunc(s.Files, more) {
		return nil
	}
	for _, name := range fields {
		if name != "" && !slices.Contains(s.Fields, name) {
			late = append(late, name)
		}
	}
	return late
}

// Come searches for fields, out of some, that no first record has. Fields that it finds
// are added to the set. late are those that it does not find and that later records may
// have.
func (s *Set) Come(fields []string) (late []string) {
	if late = s.unseen(fields); len(late) == 0 {
		return nil
	}
	l, all, n, done := s.newLate(), true, 0, int64(0)
	known := func(name string) bool { return l.known[name] }
	unknown := func(name string) bool { return !l.known[name] }
	_, err := (&Files{s}).walk(context.Background(), nil, 0, func([]value.List) error {
		if n++; n%lookRecords == 0 && !slices.ContainsFunc(late, unknown) || n == lateRecords || done > lateBytes {
			all = false
			return Stop
		}
		return nil
	}, func(bytes int64) { done = bytes }, l)
	for _, name := range late {
		if known(name) {
			s.Fields = append(s.Fields, name)
		}
	}
	if late = slices.DeleteFunc(late, known); all && err == nil {
		return nil // there are no more records
	}
	return late
}
