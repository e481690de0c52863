package date

import (
	"strings"
)

// Guesses returns the formats that are tried for a column, in order of preference. A
// number of eight digits may match two of them; the values of the whole column decide.
func Guesses() []Format {
	names := []string{ISO, "%Y%m%d", "%y%m%d%H", Unix, UnixMilli, UnixMicro, UnixNano}
	all := make([]Format, len(names))
	for i, s := range names {
		f, err := NewFormat(s)
		if err != nil {
			panic(err) // the list is part of the program
		}
		all[i] = f
	}
	return all
}

// Numbers without punctuation count as dates of these years only, so that Unix times
// of different units, dates and counters are distinguished.
const (
	guessFrom = 631152000  // 1990
	guessTo   = 4102444800 // 2100
)

// likely reports whether a value that parses as this date probably is a date.
func (f Format) likely(seconds int64) bool {
	return f.name == ISO || strings.ContainsAny(f.pattern, "/.- ") || seconds >= guessFrom && seconds < guessTo
}

// A Tally counts the values of a column that each format can read.
type Tally struct {
	Values int64   // number of values
	Read   []int64 // by format, number of values that it can read
	all    []Format
}

// NewTally returns a tally of Guesses, or of one format if it is known.
func NewTally(known string) (*Tally, error) {
	if known == "" {
		return &Tally{all: Guesses(), Read: make([]int64, len(Guesses()))}, nil
	}
	f, err := NewFormat(known)
	return &Tally{all: []Format{f}, Read: make([]int64, 1)}, err
}

// Format returns the format of that index.
func (t *Tally) Format(i int) Format { return t.all[i] }

// Add adds a value. each, if not nil, is called with every format that can read it.
func (t *Tally) Add(b []byte, each func(format int, seconds int64)) {
	t.Values++
	for i, f := range t.all {
		seconds, ok := f.Seconds(b)
		if len(t.all) > 1 {
			ok = ok && f.likely(seconds)
		}
		if !ok {
			continue
		}
		if t.Read[i]++; each != nil {
			each(i, seconds)
		}
	}
}

// Best returns the format that reads the most values, and its index. It returns false if
// no format reads any.
func (t *Tally) Best() (f Format, place int, ok bool) {
	for i, n := range t.Read {
		if n > t.Read[place] {
			place = i
		}
	}
	return t.all[place], place, t.Read[place] > 0
}
