package record

import (
	"context"
	"slices"

	"github.com/wdlrun/wdlrun/internal/data/value"
)

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

// With returns f with late fields appended to the others.
func (f *Files) With(late []string) *Files {
	s := *f.set
	s.Fields = union(slices.Clone(s.Fields), late)
	return &Files{&s}
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
