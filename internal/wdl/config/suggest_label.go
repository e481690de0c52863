package config

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/wdlrun/wdlrun/internal/data/inspect"
)

// pickLabel chooses the label: the guessed column, else the last column with two values, else
// the last column. Only the name of a column makes the choice certain.
func (s *suggestion) pickLabel() {
	s.label = -1
	for i, name := range s.names {
		if name != "" && s.Label != "" && s.Columns[i].Name == s.Label {
			s.label = i
			return
		}
	}
	s.Sure, s.Certain = false, false
	binary := func(i int) bool { return s.Columns[i].Distinct == 2 && s.Columns[i].Separator == "" }
	for i, name := range s.names {
		if name != "" && (s.label < 0 || binary(i) || !binary(s.label)) {
			s.label = i
		}
	}
}

func (s *suggestion) labelSection() {
	s.line("\nlabel:")
	if s.label < 0 {
		s.line("  field: CHECK              # CHECK: no column is suitable as a label")
		return
	}
	c, mark := &s.Columns[s.label], ""
	switch {
	case c.Distinct < 2:
		mark = "   # CHECK: it has only one value in these rows; training needs both classes"
	case !s.Sure:
		mark = "   # CHECK: a guess, because no column name indicates the label"
	}
	if mark != "" && len(s.Rejected) > 0 {
		mark += oneLine(fmt.Sprintf("; perhaps it is %s; correct these rows, or run init with -label FIELD", strings.Join(s.Rejected, ", or ")))
	}
	s.line("  field: %s%s", text(s.names[s.label]), mark)
	if s.Threshold != nil {
		s.line("  threshold: %-14s # CHECK: %s; samples with at least this number are positive", number(*s.Threshold), seen(c))
		s.line("  # kind: number            # instead of threshold: predict the number itself")
		return
	}
	positive := s.Positive
	if len(positive) == 0 || !slices.ContainsFunc(positive, utf8.ValidString) {
		positive = []string{"1"}
	}
	if s.Certain {
		s.line("  positive: %s", list(positive))
	} else {
		s.line("  positive: %s   # CHECK: which value is the 1?", list(positive))
	}
	if other := otherOfTwo(c, positive); other != "" {
		s.line("  negative: %-15s # any other value is an error; without this line, any other value counts as 0", list([]string{other}))
		return
	}
	s.line("  # Without a list of negative values, every other value is 0.")
}

// otherOfTwo returns the value that is not positive in a column of two values. It returns ""
// if the column has more values or if the value cannot be used in a configuration.
func otherOfTwo(c *inspect.Column, positive []string) string {
	if c.Distinct != 2 || len(c.Examples) != 2 || len(positive) != 1 {
		return ""
	}
	one := slices.Index(c.Examples, positive[0])
	if one < 0 || unusable(c.Examples[0]) != "" || unusable(c.Examples[1]) != "" {
		return ""
	}
	return c.Examples[1-one]
}
