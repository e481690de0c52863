package config

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/wdlrun/wdlrun/internal/data/inspect"
	"github.com/wdlrun/wdlrun/internal/data/pairs"
)

// fewValues are distinct integers: at most this many are categories rather than amounts.
const fewValues = 20

// suggestion builds a configuration from an Inspection.
type suggestion struct {
	inspect.Inspection
	out    strings.Builder
	names  []string        // names of the columns in the configuration; "" if unusable
	why    []string        // why a name is unusable
	label  int             // index of the label's column; -1: none
	weight int             // index of the column with the weights of samples; -1: none
	taken  map[string]bool // names of features
	index  string          // feature index of files that are followed; "": they are not

	column   int        // index of the column whose entries are being written
	features []proposed // written ones
	crosses  *Crosses
}

func (s *suggestion) line(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

// Crosses are pairs of features for the wide part.
type Crosses struct {
	Found *pairs.Found // nil: not searched
	Note  string       // result of a short training with and without them
	Left  int          // number of the last ones that are only comments, because of this result

	Rates Rates

	// IDs holds the columns of numbers that may be identifiers, and whether they are better than
	// amounts; nil: not measured.
	IDs map[int]bool
}

// Rates are proposals of encode: rate.
type Rates struct {
	Columns []int  // of the inspection, the values of which predict the label; nil: not searched
	Used    bool   // a training confirmed them
	Note    string // its result
}

// proposed is a feature of a suggestion.
type proposed struct {
	name string
	inspect.Part
}

// list formats texts as a YAML list.
func list(values []string) string {
	quoted := make([]string, 0, len(values))
	for _, v := range values {
		quoted = append(quoted, text(strings.ToValidUTF8(v, "?")))
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// oneLine replaces characters that a comment cannot contain.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}

// unusable returns why a name cannot be used in a configuration.
func unusable(name string) string {
	switch {
	case name == "":
		return "the column has no name"
	case !utf8.ValidString(name):
		return "its name is not UTF-8"
	case len(name) > 200:
		return "its name has more than 200 bytes"
	case strings.IndexFunc(name, unicode.IsControl) >= 0:
		return "its name has control characters"
	}
	return ""
}
