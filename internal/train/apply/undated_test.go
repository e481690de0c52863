package apply

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// dated writes a file of records with dates in two formats; odd has the dates of some rows.
func dated(t *testing.T, path string, rows int, odd map[int]string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("click,item,ts,clock\n")
	for i := range rows {
		ts := fmt.Sprintf("2026-11-%02dT%02d:00:00Z", 1+i%28, i%24)
		if x, ok := odd[i]; ok {
			ts = x
		}
		fmt.Fprintf(&b, "%d,i%d,%s,%s\n", i*7%3&1, i%20, ts, strings.ReplaceAll(ts, "-", "/"))
	}
	fatal.If(t, os.WriteFile(path, []byte(b.String()), 0o644))
	return path
}

// TestValuesThatAreNoDates: the training, its test, eval and predict of a checkpoint and of an exported
// model count the values that should be dates and are none, with the line of data check, on 1 and 2
// ranks. They are missing values, not unknown ones, and so is what is missing from the start.
func TestValuesThatAreNoDates(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	train := dated(t, dir+"/train.csv", 400, nil)
	faulty := dated(t, dir+"/faulty.csv", 400, map[int]string{5: "soon"})
	test := dated(t, dir+"/test.csv", 51, map[int]string{3: "yesterday", 30: "2026-13-45T20:00:00Z", 40: "20:00", 41: ""})
	text := `
data: {train: [%q], test: [%q], header: true}
label: {field: click}
features:
- {field: item, encode: hash}
- {field: ts, encode: hour}
- {field: ts, name: days, encode: age}
- {field: clock, encode: age, format: "%%Y/%%m/%%dT%%H:%%M:%%SZ"}
model: {embedding_dim: 4, hidden: [8]}
train: {global_batch: 32, epochs: 1}
`
	const format = "%Y/%m/%dT%H:%M:%SZ"
	want := []encode.Dates{{Field: "ts", Format: "iso", Values: 50, Unread: 3, Example: "2026-13-45T20:00:00Z"}, {Field: "clock", Format: format, Values: 50, Unread: 3, Example: "2026/13/45T20:00:00Z"}}
	line := "[" + test + `]: field ts: 3 of 50 values, such as "2026-13-45T20:00:00Z", are not dates in the format iso and count as missing; features[].format names another`
	var mu sync.Mutex
	var warned []string
	warn := func(s string) {
		mu.Lock()
		defer mu.Unlock()
		warned = append(warned, s)
	}
	check := func(what string, got []encode.Dates, why map[string]metrics.Unknown) {
		t.Helper()
		if !reflect.DeepEqual(got, want) || len(why) > 0 || !slices.Contains(warned, line) {
			t.Errorf("%s: %+v, want %+v; unknown %v; warned %q", what, got, want, why, warned)
		}
		warned = nil
	}
	for size := 1; size <= 2; size++ {
		c, err := config.Parse("dates.yaml", fmt.Appendf(nil, text, train, test))
		fatal.If(t, err)
		r := trainedWarning(t, size, c, warn)
		check(fmt.Sprintf("training on %d ranks", size), r.TestUndated, r.TestWhy)
		if len(r.TrainUndated) > 0 {
			t.Errorf("%d ranks: training data: %+v", size, r.TrainUndated)
		}
		o := PredictOptions{Eval: EvalOptions{Resume: r.RunDir, Data: []string{test}, Warn: warn}}
		e := evaluation(t, o.Eval)
		check("eval", e.Undated, e.Why)
		_, from := predictAll(t, o)
		check("predict", from.Undated, from.Why)
		versions, _ := exported(t, r.RunDir, "")
		o.Eval.Resume, o.Model = "", versions
		_, of := predictAll(t, o)
		check("an exported model", of.Undated, of.Why)
		c, err = config.Parse("dates.yaml", fmt.Appendf(nil, text, faulty, test))
		fatal.If(t, err)
		r = trainedWarning(t, size, c, warn)
		if n := r.TrainUndated; len(n) != 2 || n[0] != (encode.Dates{Field: "ts", Format: "iso", Values: 400, Unread: 1, Example: "soon"}) || n[1].Unread != 1 {
			t.Errorf("%d ranks: training data: %+v", size, n)
		}
		check("faulty training data", r.TestUndated, r.TestWhy)
	}
}
