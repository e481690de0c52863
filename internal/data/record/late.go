package record

import (
	"slices"
	"strconv"
)

// lateNames collects the names of fields that are in no first record of a file. It belongs
// to one goroutine.
type lateNames struct {
	form  Format
	known map[string]bool
	group map[string]bool // names of objects whose members are known
	found []string        // in order of occurrence
	text  []byte
}

// newLate returns nil if the beginning of a file shows all fields.
func (s *Set) newLate() *lateNames {
	lines, svm := svmOf(s.Format)
	if _, named := namingOf(s.Format); !named && !(svm && lines.fields) {
		return nil
	}
	l := &lateNames{form: s.Format, known: map[string]bool{}, group: map[string]bool{}}
	for _, name := range s.Fields {
		l.know(name)
	}
	return l
}

func (l *lateNames) know(name string) {
	l.known[name] = true
	for k := range name {
		if name[k] == '.' {
			l.group[name[:k]] = true
		}
	}
}

// record adds the names of the readable fields of a record.
func (l *lateNames) record(record []byte) {
	if form, named := namingOf(l.form); named {
		form.names(record, l.name)
		return
	}
	eachNumber(record, func(n uint64, _ []byte) {
		l.text = strconv.AppendUint(l.text[:0], n, 10)
		l.name(l.text, true)
		l.text = append(l.text, ValuesSuffix...)
		l.name(l.text, true)
	})
}

func (l *lateNames) name(name []byte, valued bool) {
	if !l.known[string(name)] && (valued || !l.group[string(name)]) {
		l.know(string(name))
		l.found = append(l.found, string(name))
	}
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
