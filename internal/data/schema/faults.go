package schema

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/wdlrun/wdlrun/internal/text/nearest"
)

// Faults is a list of faults of settings.
type Faults []error

// Bad adds a fault, with its place.
func (f *Faults) Bad(place, format string, args ...any) {
	*f = append(*f, fmt.Errorf("%s: %s", place, fmt.Sprintf(format, args...)))
}

type validator struct {
	fields       []string
	times        map[string]int // number of fields of a name
	schema, full Schema
	Faults
	listed map[string]bool // lists of candidates that a fault has shown
	absent []string        // missing fields, each once
	alone  []int           // indices of their faults
}

// instead returns a hint for an unknown word. Each list of candidates appears only in the
// first fault that needs it.
func (v *validator) instead(word string, candidates []string) string {
	text := nearest.Instead(word, candidates)
	at := strings.LastIndex(text, " (valid: ")
	if at < 0 {
		return text
	}
	if v.listed[text[at:]] {
		return text[:at]
	}
	if v.listed == nil {
		v.listed = map[string]bool{}
	}
	v.listed[text[at:]] = true
	return text
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// field checks that a field exists exactly once.
func (v *validator) field(place, name string) {
	if name == "" {
		v.Bad(place, "field is missing")
		return
	}
	if v.fields == nil {
		return
	}
	switch n := v.times[name]; {
	case n == 0 && slices.Contains(v.absent, name):
	case n == 0:
		v.absent, v.alone = append(v.absent, name), append(v.alone, len(v.Faults))
		v.Bad(place, "there is no field %q%s", name, v.instead(name, v.fields))
	case n > 1:
		v.Bad(place, "%d fields are called %q; rename all but one", n, name)
	}
}

// text checks that strings are valid UTF-8, because the feature index is JSON.
func (v *validator) text(place string, strs ...string) {
	for _, s := range strs {
		if !utf8.ValidString(s) {
			v.Bad(place, "%q is not UTF-8 text", s)
		}
	}
}
