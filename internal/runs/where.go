package runs

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/wdlrun/wdlrun/internal/text/nearest"
)

// Term is one condition on runs: a metric, a setting, state or name, compared with a
// value.
type Term struct {
	Name, Op, Value string
	number          float64 // NaN if Value is not a number
}

// operators, longer ones first.
var operators = []string{"!=", "<=", ">=", "=", "<", ">", "~"}

// ParseWhere parses conditions separated by spaces: auc>.92 model.kind=dcn_v2
func ParseWhere(text string) (all []Term, err error) {
	for _, word := range strings.Fields(text) {
		at, op := -1, ""
		for _, o := range operators {
			if i := strings.Index(word, o); i > 0 && (at < 0 || i < at) {
				at, op = i, o
			}
		}
		if at < 0 {
			return nil, fmt.Errorf("condition %q: it must be NAME, one of = != < <= > >= ~, and a value, without spaces: auc>.92", word)
		}
		t := Term{Name: word[:at], Op: op, Value: word[at+len(op):], number: math.NaN()}
		if x, err := strconv.ParseFloat(t.Value, 64); err == nil {
			t.number = x
		}
		if math.IsNaN(t.number) && op[0] != '=' && op != "!=" && op != "~" {
			return nil, fmt.Errorf("condition %q: %s compares numbers, and %q is not a number", word, op, t.Value)
		}
		all = append(all, t)
	}
	return all, nil
}

// words are the text attributes of every run.
var words = []string{"state", "name", "began", "from", "day", "note", "tags"}

// Known returns an error if no run has a metric or setting of this name.
func Known(all []*Summary, name string) error {
	known := append(slices.Clone(words), Names()...)
	if slices.Contains(known, name) {
		return nil
	}
	seen := map[*shape]bool{}
	for _, r := range all {
		if s := r.Config.shape; s != nil && !seen[s] {
			seen[s] = true
			if _, has := s.at[name]; has {
				return nil
			}
			known = append(known, s.keys...)
		}
	}
	meant := ""
	if near := nearest.Of(name, known); near != "" {
		meant = "; did you mean " + near + "?"
	}
	return fmt.Errorf("no run has a metric or a setting %q%s", name, meant)
}

// Text returns the state, the name, a setting or a metric of a run.
func (s *Summary) Text(name string) string {
	switch name {
	case "state":
		return string(s.State)
	case "name":
		return s.Name
	case "began":
		return s.Began.Format("2006-01-02T15:04:05")
	case "from":
		return s.Parent()
	case "day":
		return s.About.Day
	case "note":
		return s.About.Note
	case "tags":
		return strings.Join(s.About.Tags, ",")
	}
	if x, has := s.Numbers[name]; has {
		return strconv.FormatFloat(x, 'g', 6, 64)
	}
	return s.Config.Of(name)
}

// number returns the value for numeric comparisons.
func (s *Summary) number(name string) float64 {
	if x, has := s.Numbers[name]; has {
		return x
	}
	if x, err := strconv.ParseFloat(s.Text(name), 64); err == nil {
		return x
	}
	return math.NaN()
}

// Holds reports whether a run meets the condition. A run without the number does not. Tags
// equal a value if one of them does.
func (t *Term) Holds(r *Summary) bool {
	text, x := r.Text(t.Name), r.number(t.Name)
	equal := text == t.Value || !math.IsNaN(x) && x == t.number
	if t.Name == "tags" {
		equal = equal || slices.Contains(r.About.Tags, t.Value)
	}
	switch t.Op {
	case "=":
		return equal
	case "!=":
		return !equal
	case "~":
		return strings.Contains(text, t.Value)
	case "<":
		return x < t.number
	case "<=":
		return x <= t.number
	case ">":
		return x > t.number
	}
	return x >= t.number
}

// Select returns the runs that meet the conditions where (see ParseWhere), sorted by order
// (see Sort). It rejects names that no run has.
func Select(all []*Summary, where, order string, reverse bool) ([]*Summary, error) {
	terms, err := ParseWhere(where)
	if err != nil {
		return nil, err
	}
	if len(all) > 0 {
		for _, t := range terms {
			if err := Known(all, t.Name); err != nil {
				return nil, fmt.Errorf("condition on %s: %w", t.Name, err)
			}
		}
		if err := Known(all, order); err != nil {
			return nil, fmt.Errorf("order: %w", err)
		}
	}
	var some []*Summary
	for _, r := range all {
		if !slices.ContainsFunc(terms, func(t Term) bool { return !t.Holds(r) }) {
			some = append(some, r)
		}
	}
	Sort(some, order, reverse)
	return some, nil
}

// falling lists the metrics whose smallest value is the best.
var falling = []string{"logloss", "train_logloss", "normalised_entropy", "rmse", "mae", "seconds"}

// Sort sorts runs by a metric, the best first, or by anything else, ascending. Runs
// without it come last. Runs sorted by a metric of evaluations are ordered by their groups first, see
// Groups.
func Sort(all []*Summary, name string, reverse bool) {
	type keyed struct {
		run    *Summary
		number float64
		text   string
	}
	sign := 1
	if slices.Contains(Names(), name) && !slices.Contains(falling, name) {
		sign = -1
	}
	keys := make([]keyed, len(all))
	for i, r := range all {
		keys[i] = keyed{r, r.number(name), r.Text(name)}
	}
	slices.SortStableFunc(keys, func(a, b keyed) int {
		if math.IsNaN(a.number) != math.IsNaN(b.number) {
			if math.IsNaN(a.number) {
				return 1
			}
			return -1
		}
		order := cmp.Compare(a.text, b.text)
		if !math.IsNaN(a.number) {
			order = sign * cmp.Compare(a.number, b.number)
		}
		if reverse {
			return -order
		}
		return order
	})
	for i, k := range keys {
		all[i] = k.run
	}
	if slices.ContainsFunc(columns, func(c Column) bool { return c.Name == name }) {
		grouped(all)
	}
}
