package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/internal/data/inspect"
	"github.com/wdlrun/wdlrun/internal/data/pairs"
	"github.com/wdlrun/wdlrun/internal/text/plural"
)

// rated reports whether a column gets a feature with encode: rate.
func (s *suggestion) rated(column int) bool {
	return s.crosses.Rates.Used && slices.Contains(s.crosses.Rates.Columns, column)
}

// Untried notes that the proposals were not tried in a training. Crosses stay, rates do not.
func (x *Crosses) Untried(why string) {
	if len(x.Found.Pairs) > 0 {
		x.Note = "They were not tried in a training" + why + "."
	}
	if len(x.Rates.Columns) > 0 && x.Rates.Note == "" {
		x.Rates.Note = "encode: rate may help fields of many values, and was not tried in a training" + why + "."
	}
}

// ratable returns the columns of categories of many values, the rates of which predict the label.
func (s *suggestion) ratable() []int {
	columns := []int{}
	for _, f := range s.features {
		c := &s.Columns[f.Column]
		if (f.Encode == "vocabulary" || f.Encode == "hash") && c.Distinct > fewValues && c.Separator == "" && !c.Many && !c.Signal.Leaks() {
			columns = append(columns, f.Column)
		}
	}
	gains, kept := s.Alone(columns, s.weight), []int{}
	for k, i := range columns {
		if gains != nil && gains[k] > 0 {
			kept = append(kept, i)
		}
	}
	return kept
}

// propose notes a feature of the column whose entries are being written.
func (s *suggestion) propose(name, encode, separator string) {
	const longest = 32 // values of a list: a pair of such lists has at most schema.MaxCrossed combinations
	c := &s.Columns[s.column]
	listed := c.Many || separator != "" && c.Longest() > longest
	keyed := slices.Contains([]string{"vocabulary", "hash", "hour", "weekday", "month"}, encode)
	s.features = append(s.features, proposed{name, inspect.Part{Column: s.column, Encode: encode, Single: listed || !keyed}})
}

// crossSection writes the pairs of features that say more about the label than their parts.
func (s *suggestion) crossSection() {
	var parts []inspect.Part
	var names []string
	for _, f := range s.features {
		if f.Encode != "standardise" && f.Encode != "vector" && f.Encode != "rate" && !s.Columns[f.Column].Signal.Leaks() {
			parts, names = append(parts, f.Part), append(names, f.name)
		}
	}
	if s.crosses.Found == nil {
		found := s.Pairs(parts, s.weight)
		s.crosses.Found = &found
	}
	found := s.crosses.Found
	of := func(x pairs.Pair) string { return list([]string{names[x.A], names[x.B]}) }
	s.line("\n# Combinations of sparse features for the wide part.")
	for _, line := range s.tried(found, names) {
		s.line("# %s", line)
	}
	for i, x := range found.Leaks {
		if i == fewLeaks {
			s.line("# and %d more such pairs", len(found.Leaks)-fewLeaks)
			break
		}
		s.line("# CHECK: the pair %s may reveal the label: alone it predicts nearly every row; remove a field of it if it is known only after the event", of(x))
	}
	if s.crosses.Note != "" {
		s.line("# %s", s.crosses.Note)
	}
	out := func(keep bool) string {
		if keep {
			return ""
		}
		return "# "
	}
	kept := len(found.Pairs) - s.crosses.Left
	s.line("%scrosses:", out(kept > 0))
	for i, x := range found.Pairs {
		s.line("%s  - {of: %s}   # lowers the log-loss by %.2g, %d combinations", out(i < kept), of(x), x.Gain, x.Combinations)
	}
	if len(found.Pairs) == 0 {
		s.line("#   - {of: [A, B]}")
	}
}

const fewLeaks = 4 // pairs named as leaks

// tried describes in lines what was tried.
func (s *suggestion) tried(f *pairs.Found, names []string) (lines []string) {
	switch {
	case f.Few:
		return []string{fmt.Sprintf("Fewer than %d of these rows have one of the classes: too few to find good ones.", pairs.Fewest)}
	case f.Tried == 0:
		return []string{"There are no two features of categories."}
	case len(f.Pairs) == 0:
		lines = append(lines, fmt.Sprintf("None of %s says more about the label than its parts, beyond chance.", plural.Of(f.Tried, "pair")))
	default:
		lines = append(lines, fmt.Sprintf("Of %s, these say more about the label than their parts, on rows that did not fit them.", plural.Of(f.Tried, "pair")),
			fmt.Sprintf("The log-loss of the parts alone is %.4g:", f.Loss))
	}
	if n := len(f.Skipped); n > 0 {
		var some []string
		for _, i := range f.Skipped[:min(n, 3)] {
			some = append(some, text(names[i]))
		}
		lines = slices.Insert(lines, 0, fmt.Sprintf("%s were not tried in pairs, because there are too many: those that say least about the label alone, such as %s.", plural.Of(n, "feature"), strings.Join(some, ", ")))
	}
	return lines
}
