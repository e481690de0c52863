package config

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
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
	case c.Distinct == 1 && c.Missing > 0 && len(c.Examples) == 1:
		mark = oneLine(fmt.Sprintf("   # CHECK: all its values are %q, and %.3g %% are missing; if a missing value means 0, add derive: {label: \"if(missing(%s), 0, 1)\"} to data, and replace this line by field: label", c.Examples[0], 100*c.Missing, operand(c.Name)))
	case c.Distinct < 2:
		mark = "   # CHECK: it has only one value in these rows; training needs both classes"
	case !s.Sure:
		mark = "   # CHECK: a guess, because no column name indicates the label"
	}
	if why := s.incomplete(c); why != "" && mark == "" {
		mark = "   # CHECK: " + why
	} else if why != "" {
		mark += "; " + why
	}
	if mark != "" && len(s.Rejected) > 0 {
		mark += oneLine(fmt.Sprintf("; perhaps it is %s; correct these rows, or run init with -label FIELD", strings.Join(s.Rejected, ", or ")))
	}
	s.line("  field: %s%s", text(s.names[s.label]), mark)
	if s.weight >= 0 {
		s.line("  weight: %-17s # CHECK: the weight of each sample in training and in metrics; %s", text(s.names[s.weight]), seen(&s.Columns[s.weight]))
	}
	if s.Threshold != nil {
		s.line("  threshold: %-14s # CHECK: %s; samples with at least this number are positive", number(*s.Threshold), seen(c))
		s.line("  # kind: number            # instead of threshold: predict the number itself")
		return
	}
	positive := s.Positive
	if len(positive) == 0 || !slices.ContainsFunc(positive, utf8.ValidString) {
		positive = []string{"1"}
	}
	switch {
	case s.Certain:
		s.line("  positive: %s", list(positive))
	case len(s.Negative) > 0 && !slices.ContainsFunc(append(s.Negative, positive...), func(v string) bool { return unusable(v) != "" }):
		s.line("  positive: %s   # CHECK: several formats of each class", list(positive))
		s.line("  negative: %s", list(s.Negative))
		return
	default:
		s.line("  positive: %s   # CHECK: which value is the 1?%s", list(positive), valuesOf(c))
	}
	if other := otherOfTwo(c, positive); other != "" {
		s.line("  negative: %-15s # any other value is an error; without this line, any other value counts as 0", list([]string{other}))
		return
	}
	s.line("  # Without a list of negative values, every other value is 0.")
}

// incomplete returns advice about a label of several values that some rows lack.
func (s *suggestion) incomplete(c *inspect.Column) string {
	if c.Distinct < 2 || c.Missing == 0 {
		return ""
	}
	advice := fmt.Sprintf("%.3g %% of its values are missing; to leave out these rows, add where: \"not missing(%s)\" to data", 100*c.Missing, operand(c.Name))
	if len(s.Missing) > 0 {
		advice += "; if a missing value is a class, remove its word from data.missing"
	}
	return oneLine(advice)
}

// valuesOf returns the most frequent values of a label of more than two, for a comment.
func valuesOf(c *inspect.Column) string {
	if c.Distinct < 3 {
		return ""
	}
	note := fmt.Sprintf(" %d distinct:", c.Distinct)
	for _, e := range c.Examples {
		note += " " + quote(strings.ToValidUTF8(e, "?"))
	}
	return note
}

// operand returns the name of a field in an expression.
func operand(name string) string {
	if strings.IndexFunc(name, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }) < 0 {
		return name
	}
	return "`" + name + "`"
}

// pickWeight chooses the column with the weights of samples, by its name; -1 if there is
// none.
func (s *suggestion) pickWeight() {
	const most = 1 << 20 // of label.weight
	s.weight = slices.IndexFunc(s.Columns, func(c inspect.Column) bool {
		return inspect.IsWeightName(c.Name) && c.Kind != "string" && !c.Many && c.Missing == 0 && c.Min >= 0 && c.Max > 0 && c.Max <= most
	})
	if s.weight >= 0 && (s.weight == s.label || s.names[s.weight] == "") {
		s.weight = -1
	}
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
