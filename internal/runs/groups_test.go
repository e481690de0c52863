package runs

import (
	"strings"
	"testing"
)

// TestGroups: metrics of runs with another label or of other rows are not ranked with the rest. Without
// recorded rows, the settings decide.
func TestGroups(t *testing.T) {
	run := func(name, on, data, yaml string, auc float64) *Summary {
		s, err := ParseSettings([]byte(yaml))
		if err != nil {
			t.Fatal(err)
		}
		return &Summary{Name: name, EvaluatedOn: on, Data: data, Config: s, Numbers: map[string]float64{"auc": auc}}
	}
	const click, buy = "label: {field: click}\ndata: {test: [a.csv], train: [t.csv]}\n", "label: {field: buy}\ndata: {test: [a.csv], train: [t.csv]}\n"
	moved := strings.ReplaceAll(click, "a.csv", "/data/a.csv")
	all := []*Summary{
		run("other", "test", "2", click, .99),
		run("a", "test", "1", click, .7),
		run("none", "", "", click, .98),
		run("moved", "test", "1", moved, .8),
		run("old", "test", "", click, .75),
		run("valid", "valid", "1", click, .97),
		run("buy", "test", "1", buy, .96),
	}
	for i, want := range []string{"other data", "", "", "", "", "valid data, not test data", "other label"} {
		if all[i].EvaluatedOn == "" {
			continue
		}
		if got := Incomparable(all[1], all[i]); got != want {
			t.Errorf("%s: %q, want %q", all[i].Name, got, want)
		}
	}
	Sort(all, "auc", false)
	var names []string
	for _, r := range all {
		names = append(names, r.Name)
	}
	if got, want := strings.Join(names, " "), "moved old a other valid buy none"; got != want {
		t.Errorf("order %q, want %q", got, want)
	}
	if of, first := Groups(all); len(first) != 4 || of[0] != 0 || of[1] != 0 || of[6] != -1 {
		t.Errorf("groups %v of %d", of, len(first))
	}
}
