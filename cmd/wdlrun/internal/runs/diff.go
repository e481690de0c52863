package runs

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/runs"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/train/apply"
)

// diffRuns compares two runs, or two outputs of eval -json.
func diffRuns(p *command.Program, c *cli.Context) error {
	if c.NArg() != 3 {
		return errors.New("runs diff: give two runs, or two outputs of eval -json: wdlrun runs diff A B")
	}
	for _, flag := range []string{"where", "sort", "reverse", "tree", "csv", "web", "export", "out"} {
		if c.IsSet(flag) {
			return fmt.Errorf("runs diff: -%s has no effect: leave it out", flag)
		}
	}
	a, b := c.Args().Get(1), c.Args().Get(2)
	isFile := func(path string) bool { info, err := os.Stat(path); return err == nil && info.Mode().IsRegular() }
	var d difference
	var err error
	switch {
	case isFile(a) && isFile(b):
		d, err = diffEvaluations(a, b)
	case isFile(a) || isFile(b):
		err = errors.New("give two runs or two files, not one of each")
	default:
		d, err = diffRunDirs(a, b)
	}
	if err != nil {
		return fmt.Errorf("runs diff: %w", err)
	}
	if command.AsJSON(c) {
		return p.PrintJSON(d)
	}
	return d.print(p.Stdout)
}

// difference is what two runs or evaluations differ in, and the JSON form of runs diff.
type difference struct {
	A        string          `json:"a"`
	B        string          `json:"b"`
	OnlyA    []string        `json:"features_only_a,omitempty"`
	OnlyB    []string        `json:"features_only_b,omitempty"`
	Settings []settingDiffer `json:"settings,omitempty"`
	Numbers  []numberDiffer  `json:"numbers"`
	Note     string          `json:"note,omitempty"` // why metrics may not be compared
}

// settingDiffer is a setting that differs; "" is unset.
type settingDiffer struct {
	Key string `json:"key"`
	A   string `json:"a"`
	B   string `json:"b"`
}

// numberDiffer is a metric, or the metric of a slice.
type numberDiffer struct {
	Name string   `json:"name"`
	A    *float64 `json:"a"` // null: it has none
	B    *float64 `json:"b"`
}

// add adds a number of both; NaN is none.
func (d *difference) add(name string, a, b float64) {
	of := func(x float64) *float64 {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil
		}
		return &x
	}
	if x := (numberDiffer{name, of(a), of(b)}); x.A != nil || x.B != nil {
		d.Numbers = append(d.Numbers, x)
	}
}

// diffRunDirs compares two run directories: their rows, features, settings and last metrics.
func diffRunDirs(dirA, dirB string) (d difference, err error) {
	var both [2]*runs.Run
	for i, dir := range []string{dirA, dirB} {
		if both[i], err = runs.Read(command.RunAt(dir, command.RunsFolder)); err != nil {
			return d, err
		}
	}
	a, b := both[0], both[1]
	d.A, d.B = a.Dir, b.Dir
	features := func(r *runs.Run) (names []string) {
		for _, key := range r.Config.Keys() {
			if rest, ok := strings.CutPrefix(key, "features["); ok {
				name, _, _ := strings.Cut(rest, "]")
				if !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
		return names
	}
	of := map[string]bool{} // features of one run only
	d.OnlyA, d.OnlyB = command.Without(features(a), features(b)), command.Without(features(b), features(a))
	for _, name := range slices.Concat(d.OnlyA, d.OnlyB) {
		of[name] = true
	}
	for _, key := range runs.Differing([]*runs.Summary{&a.Summary, &b.Summary}) {
		if rest, ok := strings.CutPrefix(key, "features["); ok {
			if name, _, _ := strings.Cut(rest, "]"); of[name] {
				continue
			}
		}
		d.Settings = append(d.Settings, settingDiffer{key, a.Config.Of(key), b.Config.Of(key)})
	}
	for _, name := range runs.Names() {
		d.add(name, a.Number(name), b.Number(name))
	}
	rows := func(r *runs.Run, table string) float64 {
		if r.Result != nil {
			for _, t := range r.Result.Tables {
				if t.Name == table {
					return float64(t.Rows)
				}
			}
		}
		return math.NaN()
	}
	for _, name := range tablesOf(a, b) {
		d.add("rows of table "+name, rows(a, name), rows(b, name))
	}
	if why := runs.Incomparable(&a.Summary, &b.Summary); why != "" {
		d.Note = "their metrics are not comparable: " + why + ": to compare the models, evaluate both on the same files: wdlrun -json eval -resume RUN -data FILE > A.json, and give runs diff the two outputs"
	}
	return d, nil
}

// tablesOf returns the tables of the results of runs.
func tablesOf(all ...*runs.Run) (names []string) {
	for _, r := range all {
		if r.Result == nil {
			continue
		}
		for _, t := range r.Result.Tables {
			if !slices.Contains(names, t.Name) {
				names = append(names, t.Name)
			}
		}
	}
	return names
}

// diffEvaluations compares two outputs of eval -json.
func diffEvaluations(fileA, fileB string) (d difference, err error) {
	var both [2]apply.EvalResult
	for i, path := range []string{fileA, fileB} {
		b, err := regular.ReadFile(path, rundir.MaxFile)
		if err != nil {
			return d, err
		}
		b = bytes.TrimSpace(b)
		if err := json.Unmarshal(b[bytes.LastIndexByte(b, '\n')+1:], &both[i]); err != nil || both[i].Samples == 0 {
			return d, fmt.Errorf("%s: its last line is not the result of eval -json", path)
		}
	}
	a, b := &both[0], &both[1]
	d.A, d.B = cmp.Or(a.Checkpoint, fileA), cmp.Or(b.Checkpoint, fileB)
	if !slices.Equal(a.Data, b.Data) || a.Samples != b.Samples {
		d.Note = "they were evaluated on different rows, so that the metrics cannot be compared"
	}
	d.add("samples", float64(a.Samples), float64(b.Samples))
	for _, m := range []struct {
		name string
		of   func(m *metrics.Metrics) *float64
	}{
		{"auc", func(m *metrics.Metrics) *float64 { return m.AUC }},
		{"logloss", func(m *metrics.Metrics) *float64 { return &m.LogLoss }},
		{"pr_auc", func(m *metrics.Metrics) *float64 { return m.PRAUC }},
		{"normalised_entropy", func(m *metrics.Metrics) *float64 { return m.NormalisedEntropy }},
		{"calibration", func(m *metrics.Metrics) *float64 { return m.Calibration }},
	} {
		d.add(m.name, runs.Value(m.of(&a.Metrics)), runs.Value(m.of(&b.Metrics)))
	}
	if a.Quality == nil || b.Quality == nil {
		return d, nil
	}
	for _, list := range a.Quality.Slices {
		i := slices.IndexFunc(b.Quality.Slices, func(l metrics.SliceList) bool { return l.Field == list.Field })
		if i < 0 {
			continue
		}
		for _, s := range list.Top {
			k := slices.IndexFunc(b.Quality.Slices[i].Top, func(o metrics.Slice) bool { return o.Value == s.Value })
			if k < 0 {
				continue
			}
			o, name := b.Quality.Slices[i].Top[k], list.Field+"="+s.Value
			d.add("auc of "+name, runs.Value(s.AUC), runs.Value(o.AUC))
			d.add("logloss of "+name, s.LogLoss, o.LogLoss)
			d.add("calibration of "+name, runs.Value(s.Calibration), runs.Value(o.Calibration))
		}
	}
	return d, nil
}

// print prints the difference as text.
func (d *difference) print(to io.Writer) error {
	out := bufio.NewWriter(to)
	fmt.Fprintf(out, "A  %s\nB  %s\n", command.Clean(d.A, 1<<10), command.Clean(d.B, 1<<10))
	for _, x := range []struct {
		of    string
		names []string
	}{{"A", d.OnlyA}, {"B", d.OnlyB}} {
		if len(x.names) > 0 {
			fmt.Fprintf(out, "features only of %s: %s\n", x.of, command.Clean(strings.Join(x.names, ", "), 1<<10))
		}
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if len(d.Settings) > 0 {
		fmt.Fprintln(t, "\nsetting\tA\tB")
	}
	for _, s := range d.Settings {
		fmt.Fprintf(t, "%s\t%s\t%s\n", command.Clean(s.Key, 64), cmp.Or(command.Clean(s.A, 64), "-"), cmp.Or(command.Clean(s.B, 64), "-"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	t = tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\nmetric\tA\tB\tB − A")
	text := func(x *float64) string {
		switch {
		case x == nil:
			return "-"
		case *x == math.Trunc(*x) && math.Abs(*x) < 1e15:
			return strconv.FormatFloat(*x, 'f', 0, 64)
		}
		return strconv.FormatFloat(*x, 'g', 6, 64)
	}
	for _, n := range d.Numbers {
		var by *float64
		if n.A != nil && n.B != nil {
			x := *n.B - *n.A
			by = &x
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", command.Clean(n.Name, 80), text(n.A), text(n.B), text(by))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if d.Note != "" {
		fmt.Fprintf(out, "\nnote: %s\n", d.Note)
	}
	return out.Flush()
}
