package report

import (
	"embed"
	"fmt"
	"html/template"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/wdlrun/wdlrun/internal/model/plan"
	"github.com/wdlrun/wdlrun/internal/runs"
	"github.com/wdlrun/wdlrun/internal/runs/timeline"
	"github.com/wdlrun/wdlrun/internal/text/plural"
)

//go:embed *.html
var texts embed.FS

// pages are parsed when the first is written, not in every process of wdlrun.
var pages = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{"grouped": grouped}).ParseFS(texts, "*.html"))
})

// grouped writes a whole number in groups of three digits.
func grouped(n any) string {
	switch n := n.(type) {
	case int:
		return plural.Grouped(int64(n))
	case int64:
		return plural.Grouped(n)
	case float64:
		if finite(n) {
			return plural.Grouped(int64(math.Round(n)))
		}
	}
	return ""
}

// MaxRuns is the maximum number of runs of one report.
const MaxRuns = 32

// runView is the data of a run for the template.
type runView struct {
	*runs.Run
	Color  int
	Dashed bool
	Best   bool
	Other  string // why its metrics are not compared with the metrics of the best run
	Split  template.HTML
	Waits  string // which ranks waited for which
	Tables []runs.Table
	More   int // number of tables not shown
	split  *timeline.Analysis
}

// pageView is the data of the page for the template.
type pageView struct {
	Title   string
	Made    string
	Verdict []string
	Runs    []*runView
	Differ  []string
	Follow  []string // further settings that differ
	Charts  []template.HTML
	Several bool

	Warnings []*warning
}

// maxDiffering is the number of settings shown at first.
const maxDiffering = 12

// maxText is the number of characters shown of a command and of a list of hosts.
const maxText = 500

// maxTables is the maximum number of tables shown of a run, the largest ones.
const maxTables = 40

func view(r *runs.Run, i int) *runView {
	v := &runView{Run: r, Color: i % colors, Dashed: i/colors%2 == 1}
	if found, _ := filepath.Glob(filepath.Join(escaped(r.Dir), timeline.Pattern)); len(found) > 0 {
		if t, err := timeline.Open(r.Dir); err != nil {
			r.Faults = append(r.Faults, err.Error())
		} else {
			a := t.Analyse()
			v.split, v.Split, v.Waits = &a, split(&a), a.Verdict()
			r.Faults = append(r.Faults, a.Faults...)
		}
	}
	if r.Result != nil {
		v.Tables = slices.Clone(r.Result.Tables)
		slices.SortStableFunc(v.Tables, func(a, b runs.Table) int { return int(max(-1, min(1, b.Bytes-a.Bytes))) })
		v.More = max(0, len(v.Tables)-maxTables)
		v.Tables = v.Tables[:len(v.Tables)-v.More]
	}
	return v
}

// escaped returns a directory name with pattern characters escaped.
func escaped(dir string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(dir)
}

// verdict returns the main results.
func verdict(all []*runView, found []*warning) (lines []string) {
	if len(all) == 1 {
		r := all[0]
		lines = append(lines, fmt.Sprintf("%s: %s after %d steps%s", r.State, quality(r.Run), r.Step, taking(r.Run)))
		if r.Rejected != "" {
			lines = append(lines, "the model was rejected by train.gate: "+r.Rejected)
		}
		if r.Result != nil && r.Result.Refit != nil {
			f := r.Result.Refit
			lines = append(lines, fmt.Sprintf("the model was then trained again on all %d rows, for %s (train.refit): the validation metrics are those of the first training", f.Rows, plural.Of(int(f.Epochs), "epoch")))
		}
		if r.Thinned.Lines > 0 {
			lines = append(lines, fmt.Sprintf("the curves have fewer points up to step %d: %s of metrics.jsonl had to make room", r.Thinned.Step, plural.Of(r.Thinned.Lines, "line")))
		}
	} else if best, second, by := ranking(all); best != nil {
		best.Best = true
		lines = append(lines, fmt.Sprintf("%s is the best by %s: %s", best.Name, by, quality(best.Run)))
		if second != nil {
			lines = append(lines, fmt.Sprintf("next is %s: %s%s", second.Name, quality(second.Run), apart(best.Run, second.Run)))
		}
	} else {
		lines = append(lines, "no run has comparable metrics, so there is no best run")
	}
	for _, r := range all {
		if r.Other != "" {
			lines = append(lines, fmt.Sprintf("%s is not comparable: %s", r.Name, r.Other))
		}
	}
	if n := len(found); n > 0 {
		lines = append(lines, plural.Of(n, "warning")+", see below")
	}
	if len(all) == 1 && all[0].Waits != "" {
		r := all[0]
		if r.Result != nil && len(r.Result.SlowRanks) > 0 && !r.split.Stands() {
			r.Waits += "; in the whole job, ranks were slow for some of the time, see the warnings"
		}
		lines = append(lines, r.Waits)
	}
	return lines
}

// quality summarises the evaluation of a run.
func quality(r *runs.Run) string {
	m, of := r.Evaluation()
	if m == nil {
		return "not evaluated"
	}
	var parts []string
	for _, x := range []struct {
		name string
		v    *float64
	}{{"AUC", m.AUC}, {"log-loss", m.LogLoss}, {"RMSE", m.RMSE}} {
		if x.v != nil {
			parts = append(parts, fmt.Sprintf("%s %.4f", x.name, *x.v))
		}
	}
	return of + " " + strings.Join(parts, ", ")
}

func taking(r *runs.Run) string {
	if !finite(r.Seconds) {
		return ""
	}
	return fmt.Sprintf(" in %.1f s", r.Seconds)
}

// apart lists up to four settings in which two runs differ.
func apart(a, b *runs.Run) string {
	keys := runs.Differing([]*runs.Summary{&a.Summary, &b.Summary})
	var parts []string
	for _, key := range keys[:min(len(keys), 4)] {
		parts = append(parts, fmt.Sprintf("%s %s, not %s", key, or(b.Config.Of(key)), or(a.Config.Of(key))))
	}
	switch {
	case len(keys) == 0:
		return ", with the same settings"
	case len(keys) > len(parts):
		parts = append(parts, fmt.Sprintf("%d more", len(keys)-len(parts)))
	}
	return " (" + strings.Join(parts, "; ") + ")"
}

func or(value string) string {
	if value == "" {
		return "unset"
	}
	return value
}

// ranking returns the two best runs by AUC, or by loss if one of them has no AUC, of the largest
// group of comparable runs.
func ranking(all []*runView) (best, second *runView, by string) {
	var summaries []*runs.Summary
	for _, r := range all {
		summaries = append(summaries, &r.Summary)
	}
	of, first := runs.Groups(summaries)
	var some []*runView
	for i, r := range all {
		switch {
		case of[i] == 0:
			some = append(some, r)
		case of[i] > 0:
			r.Other = runs.Incomparable(first[0], &r.Summary)
		}
	}
	if len(some) == 0 {
		return nil, nil, ""
	}
	name, sign := "auc", -1.0
	if slices.ContainsFunc(some, func(r *runView) bool { return !finite(r.Number("auc")) }) {
		name, sign = "logloss", 1
	}
	some = slices.DeleteFunc(some, func(r *runView) bool { return !finite(r.Number(name)) })
	slices.SortStableFunc(some, func(a, b *runView) int {
		d := float64(sign*a.Number(name)) - float64(sign*b.Number(name))
		return int(max(-1, min(1, math.Copysign(math.Ceil(math.Abs(d)), d))))
	})
	by = map[string]string{"auc": "AUC", "logloss": "log-loss"}[name] + " of the " + first[0].EvaluatedOn + " data"
	switch len(some) {
	case 0:
		return nil, nil, ""
	case 1:
		return some[0], nil, by
	}
	return some[0], some[1], by
}

// charts draws the curves of all runs.
func charts(all []*runView) (out []template.HTML) {
	var loss, speed, validLoss, validAUC, days []curve
	for i, r := range all {
		if n := len(r.Days.Days); n > 1 {
			c := curve{Name: r.Name, Color: i, Dots: true}
			for k := range r.Days.Days {
				y := runs.Value(r.Days.Days[k].Entropy)
				if r.Days.Days[k].Seen {
					y = math.NaN() // it does not show how the model predicts new rows
				}
				c.X, c.Y = append(c.X, float64(k+1)), append(c.Y, y)
			}
			days = append(days, c)
		}
		x, y := series(r.Train)
		loss = append(loss, curve{Name: r.Name, Color: i, X: x, Y: y, Faint: true})
		loss = append(loss, curve{Name: r.Name, Color: i, X: x, Y: smooth(y, max(1, min(len(y)/20, 200)))})
		speed = append(speed, curve{Name: r.Name, Color: i, X: x, Y: r.Speeds()})
		for k, points := range [][]runs.Point{r.Valid, r.Test} {
			x, y := series(points)
			auc, test := make([]float64, len(y)), k == 1
			for k, p := range points {
				if auc[k] = math.NaN(); p.Metrics != nil {
					auc[k] = runs.Value(p.Metrics.AUC)
				}
			}
			if len(x) > 0 {
				c := curve{Name: r.Name, Color: i, X: x, Y: y, Dots: !test, Rings: test}
				if !test {
					c.Best = bestPoint(r.Run)
				}
				validLoss = append(validLoss, c)
				c.Y = auc
				validAUC = append(validAUC, c)
			}
		}
	}
	for _, c := range []template.HTML{
		chart("Training log-loss, of single steps and their moving mean", "samples", "log-loss", loss),
		chart("Log-loss of evaluations"+rings(all), "samples", "log-loss", validLoss),
		chart("AUC of evaluations"+rings(all), "samples", "AUC", validAUC),
		chart("Partitions, predicted by the model before", "number of the partition", "normalised entropy", days),
		chart("Speed, mean of ten seconds", "samples", "samples per second", speed),
	} {
		if c != "" {
			out = append(out, c)
		}
	}
	return out
}

// DayRows returns the partitions of train -by, the newest first, at most maxRows of them.
func (v *runView) DayRows() (rows [][]string) {
	all := v.Run.Days.Days
	for i := len(all) - 1; i >= max(0, len(all)-maxDayRows); i-- {
		d := &all[i]
		name := shortened(d.Day)
		if d.Seen {
			name += " (trained on it before)"
		}
		count, keys, retired := "-", "-", "-" // of a training on several partitions
		if d.Rows > 0 {
			count, keys, retired = strconv.FormatInt(d.Rows, 10), strconv.FormatInt(d.Keys, 10), strconv.FormatInt(d.Retired, 10)
		}
		rows = append(rows, []string{name, count, keys, retired, decimals(d.AUC), decimals(d.LogLoss), decimals(d.Calib), decimals(d.Entropy), strconv.FormatFloat(d.Seconds, 'f', 1, 64)})
	}
	return rows
}

// maxDayRows is the number of partitions listed.
const maxDayRows = 100

// rings explains the marks of charts with both validation and test data.
func rings(all []*runView) string {
	valid, test := 0, 0
	for _, r := range all {
		valid, test = valid+len(r.Valid), test+len(r.Test)
	}
	kept := ""
	if slices.ContainsFunc(all, func(r *runView) bool { return bestPoint(r.Run) > 0 }) {
		kept = ", the large dot the best one"
	}
	switch {
	case valid == 0:
		return ", test data"
	case test == 0:
		return ", validation data" + kept
	}
	return ": dots validation data, rings test data" + kept
}

// series returns the samples and losses of points.
func series(points []runs.Point) (x, loss []float64) {
	for _, p := range points {
		x, loss = append(x, float64(p.Samples)), append(loss, p.LogLoss)
	}
	return x, loss
}

// Metric formats a metric, "" if it is missing.
func (v *runView) Metric(name, format string) string {
	x := v.Number(name)
	if !finite(x) {
		return ""
	}
	return fmt.Sprintf(format, x)
}

// Bytes formats a number of bytes.
func (*runView) Bytes(n int64) string { return plan.Bytes(n) }

// Of returns the data on which the metrics of the run were computed.
func (v *runView) Of() string {
	_, of := v.Evaluation()
	return of
}

// Command returns the command of the run, without -day, which only train -by gives, Version the
// program's version, and Hosts the names of the hosts, all cut to maxText.
func (v *runView) Command() string {
	words := v.About.Command
	if i := slices.Index(words, "-day"); i >= 0 {
		words = words[:i]
	}
	return clipped(strings.Join(words, " "), maxText)
}
func (v *runView) Version() string { return clipped(v.About.Version, maxText) }
func (v *runView) Hosts() string {
	all := slices.Compact(slices.Sorted(slices.Values(v.About.Hosts)))
	return clipped(strings.Join(all, ", "), maxText)
}

// warning holds the findings of one kind, of all runs, with the same advice.
type warning struct {
	Lines []warningLine
	Do    string
}

// warningLine is what was found, in which runs.
type warningLine struct{ Runs, What string }
