package runs

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/wdlrun/wdlrun/internal/nearest"
)

// Term is one condition on runs: a metric, a setting, state or name, compared with a
// value.
type Term struct {
	Name, Op, Value string
	number          float64 // NaN if Value is none
}

// operators, longer ones first.
var operators = []string{"!=", "<=", ">=", "=", "<", ">", "~"}

// ParseWhere reads conditions separated by spaces: auc>.92 model.kind=dcn_v2
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
			return nil, fmt.Errorf("condition %q: %s compares numbers, and %q is none", word, op, t.Value)
		}
		all = append(all, t)
	}
	return all, nil
}

// Known returns an error if no run has a metric or setting of this name.
func Known(all []*Run, name string) error {
	if name == "state" || name == "name" || name == "began" || slices.Contains(Names(), name) {
		return nil
	}
	known := append([]string{"state", "name", "began"}, Names()...)
	for _, r := range all {
		if _, has := r.Config.values[name]; has {
			return nil
		}
		known = append(known, r.Config.Keys...)
	}
	meant := ""
	if near := nearest.Of(name, known); near != "" {
		meant = "; did you mean " + near + "?"
	}
	return fmt.Errorf("no run has a metric or a setting %q%s", name, meant)
}

// Text returns the state, the name, a setting or a metric of a run.
func (r *Run) Text(name string) string {
	switch {
	case name == "state":
		return string(r.State)
	case name == "name":
		return r.Name
	case name == "began":
		return r.Began.Format("2006-01-02T15:04:05")
	case slices.Contains(Names(), name):
		return strconv.FormatFloat(r.Number(name), 'g', 6, 64)
	}
	return r.Config.Of(name)
}

// number is what is compared with numbers.
func (r *Run) number(name string) float64 {
	if slices.Contains(Names(), name) {
		return r.Number(name)
	}
	if x, err := strconv.ParseFloat(r.Text(name), 64); err == nil {
		return x
	}
	return math.NaN()
}

// Holds reports whether a run meets the condition. One without the number does not.
func (t *Term) Holds(r *Run) bool {
	text, x := r.Text(t.Name), r.number(t.Name)
	equal := text == t.Value || !math.IsNaN(x) && x == t.number
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

// falling are the metrics of which the smallest is the best.
var falling = []string{"logloss", "train_logloss", "normalised_entropy", "rmse", "mae", "seconds"}

// Sort orders runs: by a metric, the best first, and by anything else, ascending. Runs
// without it come last.
func Sort(all []*Run, name string, reverse bool) {
	metric := slices.Contains(Names(), name)
	slices.SortStableFunc(all, func(a, b *Run) int {
		x, y := a.number(name), b.number(name)
		if math.IsNaN(x) != math.IsNaN(y) {
			if math.IsNaN(x) {
				return 1
			}
			return -1
		}
		order := cmp.Compare(a.Text(name), b.Text(name))
		if !math.IsNaN(x) {
			if order = cmp.Compare(x, y); metric && !slices.Contains(falling, name) {
				order = -order
			}
		}
		if reverse {
			return -order
		}
		return order
	})
}
