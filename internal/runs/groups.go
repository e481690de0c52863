package runs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Incomparable returns why the metrics of two evaluated runs cannot be compared: they have another
// label, or were computed on other rows. "" if they can be. If one of them was written before rows
// were recorded, the settings of the data decide.
func Incomparable(a, b *Summary) string {
	switch {
	case labelsOf(a) != labelsOf(b):
		return "other label"
	case a.EvaluatedOn != b.EvaluatedOn:
		return b.EvaluatedOn + " data, not " + a.EvaluatedOn + " data"
	case a.Data != "" && a.Data == b.Data, (a.Data == "" || b.Data == "") && dataOf(a) == dataOf(b):
		return ""
	}
	return "other data"
}

// labelsOf returns the settings of the labels of a run.
func labelsOf(r *Summary) string {
	var b strings.Builder
	for i, key := range r.Config.Keys() {
		if strings.HasPrefix(key, "label.") || strings.HasPrefix(key, "labels[") {
			fmt.Fprintf(&b, "%s=%s\n", key, r.Config.value(i))
		}
	}
	return b.String()
}

// dataOf returns the settings of the data on which a run was evaluated.
func dataOf(r *Summary) string {
	keys := []string{"data.where", "data." + r.EvaluatedOn}
	if r.EvaluatedOn == Valid && r.Config.Of("data.valid") == "" {
		keys = append(keys, "data.train", "data.valid_fraction", "data.valid_time", "data.valid_group")
	}
	var b strings.Builder
	for _, key := range keys {
		fmt.Fprintf(&b, "%s=%s\n", key, r.Config.Of(key))
	}
	return b.String()
}

// Groups divides runs into groups whose metrics can be compared, the largest first, and of
// equal ones the one with the earlier run. It returns the group of each run, −1 for a run without
// an evaluation, and the first run of each group.
func Groups(all []*Summary) (of []int, first []*Summary) {
	var groups [][]int // indexes of runs
	rows, settings := make([]string, len(all)), make([]string, len(all))
	at := map[string]int{} // by rows or settings
	for i, r := range all {
		if r.EvaluatedOn != "" {
			base := r.EvaluatedOn + "\n" + labelsOf(r)
			rows[i], settings[i] = base+"rows "+r.Data, base+dataOf(r)
		}
	}
	add := func(i int, key string) {
		g, has := at[key]
		if !has {
			g, groups = len(groups), append(groups, nil)
			at[key] = g
		}
		groups[g] = append(groups[g], i)
	}
	larger := func(a, b []int) int { return cmp.Or(len(b)-len(a), a[0]-b[0]) }
	for i, r := range all {
		if r.EvaluatedOn != "" && r.Data != "" {
			add(i, rows[i])
		}
	}
	slices.SortFunc(groups, larger)
	for g, some := range slices.Backward(groups) { // runs without recorded rows join the largest group with their settings
		for _, i := range some {
			at[settings[i]] = g
		}
	}
	for i, r := range all {
		if r.EvaluatedOn != "" && r.Data == "" {
			add(i, settings[i])
		}
	}
	slices.SortFunc(groups, larger)
	of = slices.Repeat([]int{-1}, len(all))
	for g, some := range groups {
		for _, i := range some {
			of[i] = g
		}
		first = append(first, all[some[0]])
	}
	return of, first
}

// grouped orders sorted runs by their groups, and runs without an evaluation last.
func grouped(all []*Summary) {
	of, first := Groups(all)
	if len(first) < 2 {
		return
	}
	ordered := make([]*Summary, 0, len(all))
	for g := range len(first) + 1 {
		for i, r := range all {
			if of[i] == g || of[i] < 0 && g == len(first) {
				ordered = append(ordered, r)
			}
		}
	}
	copy(all, ordered)
}
