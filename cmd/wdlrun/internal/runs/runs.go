// Package runs has the commands that read run directories: runs, report and trace.
package runs

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/runs"
	"github.com/wdlrun/wdlrun/internal/runs/history"
	"github.com/wdlrun/wdlrun/internal/text/plural"
)

func Command(p *command.Program) *cli.Command {
	return &cli.Command{
		Name: "runs", Usage: "list the run directories of a folder, with their metrics and differing settings", UsageText: "wdlrun runs [flags] [DIR]\n   wdlrun runs diff A B",
		Description: `DIR is the folder of the run directories, by default runs. Each line shows the state of a run
(running, finished, stopped, failed, killed or unreadable), its duration, its last metrics and
the settings that differ between the listed runs. The metrics are computed on the test data, or on
the validation data if there is no test data.

-where lists the runs that meet all CONDITIONS. A condition is NAME, one of = != < <= > >= or
~ (contains), and a value. NAME and the key of -sort are state, name, began, from (the run whose
model a training began with), day (the partition of train -by), note, tags, a key of the configuration (wdlrun help config), or one of
   ` + strings.Join(runs.Names()[:8], " ") + `
   ` + strings.Join(runs.Names()[8:], " ") + `
-sort by a metric lists the best run first. Runs with other labels or evaluated rows are not
comparable and listed after the largest group of comparable ones. -tree lists each run below the one in from. The link
latest, to the run that finished last, is no run of its own.

For runs of train -by, day_auc and the other metrics of day_… show how the model before predicted the
partition. runs diff A B compares two runs: rows, features, settings and metrics. A and B may also be
outputs of eval -json, of which it compares the metrics, by slice if both have slices (eval -report -by).

-web serves a page with the same table, and the curves and differing settings of selected
runs. An address that other machines reach needs -web-token.

-export mlflow sends the runs to the tracking server of MLflow at -out, or MLFLOW_TRACKING_URI: settings, metrics, tags,
the note, the configuration, the result, the report and the ONNX model. The experiment is that of MLFLOW_EXPERIMENT_NAME, or has the name
of the folder. A second export replaces a run. Credentials are MLflow's: MLFLOW_TRACKING_TOKEN, or
MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD.

Examples:
   wdlrun runs
   wdlrun runs -sort auc experiments
   wdlrun runs -where 'auc>.92 model.kind=dcn_v2' -sort logloss
   wdlrun runs -where state=killed -json
   wdlrun runs -tree
   wdlrun runs diff runs/20261121-101500 latest
   wdlrun runs -web 127.0.0.1:6061
   wdlrun runs -export mlflow -out http://127.0.0.1:5000 -where tags=baseline`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "where", Usage: "list runs that meet `CONDITIONS`, separated by spaces"},
			&cli.StringFlag{Name: "sort", Value: "name", Usage: "order by `KEY`"},
			&cli.BoolFlag{Name: "reverse", Usage: "reverse the order"},
			&cli.BoolFlag{Name: "tree", Usage: "list each run below the one whose model it began with"},
			&cli.BoolFlag{Name: "csv", Usage: "print comma-separated values"},
			&cli.StringFlag{Name: "web", Usage: "serve a page about the runs at `ADDRESS`, such as 127.0.0.1:6061, until Ctrl-C"},
			TokenFlag(),
			&cli.StringFlag{Name: "export", Usage: "send the runs to another `PROGRAM`: mlflow"},
			&cli.StringFlag{Name: "out", Usage: "send -export to the server at `URL`", DefaultText: "MLFLOW_TRACKING_URI"},
			command.JSONFlag(),
		},
		Action: p.Action(list),
	}
}

func list(p *command.Program, c *cli.Context) error {
	if c.Args().First() == "diff" {
		return diffRuns(p, c)
	}
	if c.NArg() > 1 {
		return errors.New("runs: give one folder; see: wdlrun runs --help")
	}
	dir := cmp.Or(c.Args().First(), "runs")
	if err := checkRuns(c); err != nil {
		return err
	}
	if c.IsSet("web") {
		return runsPage(c, p, dir)
	}
	all, err := runs.List(dir, listProgress(p.Stderr))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return fmt.Errorf("runs: folder %s does not exist; give the folder that contains the run directories: wdlrun runs DIR", dir)
	}
	if err != nil {
		return err
	}
	found := len(all)
	all, err = runs.Select(all, c.String("where"), c.String("sort"), c.Bool("reverse"))
	if err != nil {
		return fmt.Errorf("runs: %w", err)
	}
	switch {
	case c.IsSet("export"):
		return exportRuns(c, p, dir, all)
	case command.AsJSON(c):
		return p.PrintJSON(map[string]any{"dir": dir, "found": found, "runs": runLines(all)})
	case c.Bool("csv"):
		return runsCSV(p.Stdout, all)
	}
	branch := make([]string, len(all))
	if c.Bool("tree") {
		all, branch = runs.Tree(all)
	}
	out := bufio.NewWriter(p.Stdout) // a tabwriter writes each cell
	if err := runsTable(out, dir, found, all, branch); err != nil {
		return err
	}
	return out.Flush()
}

// listProgress returns a function that prints how many runs have been read.
func listProgress(w io.Writer) func(done, of int) {
	return func(done, of int) { fmt.Fprintf(w, "runs: %d of %d read\n", done, of) }
}

// checkRuns rejects flags that cannot be combined.
func checkRuns(c *cli.Context) error {
	if format := c.String("export"); c.IsSet("export") && format != "mlflow" {
		return fmt.Errorf("runs: -export %q: the only program is mlflow", format)
	}
	if c.IsSet("out") && !c.IsSet("export") {
		return errors.New("runs: -out is the server of -export: give -export mlflow too")
	}
	if err := CheckWeb(c); err != nil {
		return fmt.Errorf("runs: %w", err)
	}
	for _, flag := range []string{"csv", "json", "export"} {
		if c.Bool("tree") && (c.IsSet(flag) || command.AsJSON(c)) {
			return errors.New("runs: -tree orders the printed table: leave out -tree, or -csv, -json and -export")
		}
	}
	for _, flag := range []string{"where", "sort", "reverse", "tree", "csv", "json", "export"} {
		if c.IsSet("web") && c.IsSet(flag) {
			return fmt.Errorf("runs: the page of -web has its own conditions and order: leave out -%s", flag)
		}
	}
	return nil
}

// runsPage serves the page until the command is interrupted.
func runsPage(c *cli.Context, p *command.Program, dir string) error {
	token, err := Secret(c)
	if err != nil {
		return err
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Errorf("runs: %s is not a folder: give the folder of the run directories: wdlrun runs -web %s DIR", dir, c.String("web"))
	}
	ln, err := net.Listen("tcp", c.String("web"))
	if err != nil {
		return fmt.Errorf("runs: -web: %w; try another port", err)
	}
	fmt.Fprintf(p.Stderr, "page: http://%s/\n", Reachable(ln.Addr(), os.Hostname))
	return history.Serve(c.Context, ln, dir, token, listProgress(p.Stderr))
}

// runLine is the JSON form of a run.
type runLine struct {
	Dir      string             `json:"dir"`
	State    runs.State         `json:"state"`
	Began    *time.Time         `json:"began"`
	Of       string             `json:"metrics_of,omitempty"` // test or valid
	Group    int                `json:"group,omitempty"`      // metrics of one group can be compared; 0: no evaluation
	Day      string             `json:"day,omitempty"`        // partition of train -by
	From     string             `json:"from,omitempty"`       // checkpoint that the training began with
	Note     string             `json:"note,omitempty"`
	Tags     []string           `json:"tags,omitempty"`
	Metrics  map[string]float64 `json:"metrics"`  // those that it has
	Settings map[string]string  `json:"settings"` // those that differ
	Failure  string             `json:"failure,omitempty"`
	Rejected string             `json:"rejected,omitempty"` // why train.gate rejected the model
	Faults   []string           `json:"faults,omitempty"`
}

func runLines(all []*runs.Summary) []runLine {
	lines, differ := []runLine{}, runs.Differing(all)
	group, _ := runs.Groups(all)
	for i, r := range all {
		l := runLine{
			Dir: r.Dir, State: r.State, Of: r.EvaluatedOn, Day: r.About.Day, From: r.About.From, Note: r.About.Note, Tags: r.About.Tags,
			Metrics: r.Numbers, Settings: map[string]string{}, Failure: r.Failure, Rejected: r.Rejected, Faults: r.Faults, Group: group[i] + 1,
		}
		if !r.Began.IsZero() {
			l.Began = &r.Began
		}
		for _, key := range differ {
			l.Settings[key] = r.Config.Of(key)
		}
		lines = append(lines, l)
	}
	return lines
}

func runsCSV(to io.Writer, all []*runs.Summary) error {
	differ := runs.Differing(all)
	w := csv.NewWriter(to)
	w.Write(slices.Concat([]string{"dir", "state", "began", "day", "from", "note", "tags"}, runs.Names(), differ))
	for _, r := range all {
		line := []string{r.Dir, string(r.State), "", r.Text("day"), r.Text("from"), r.Text("note"), r.Text("tags")}
		if !r.Began.IsZero() {
			line[2] = r.Began.Format(time.RFC3339)
		}
		for _, name := range runs.Names() {
			text := ""
			if x := r.Number(name); !math.IsNaN(x) {
				text = strconv.FormatFloat(x, 'g', -1, 64)
			}
			line = append(line, text)
		}
		for _, key := range differ {
			line = append(line, r.Config.Of(key))
		}
		w.Write(line)
	}
	w.Flush()
	return w.Error()
}

// maxDiffering is the number of settings in the text table.
const maxDiffering = 6

// runColumn is a metric of the text table, with its format.
type runColumn struct{ name, format string }

// text formats a value; whole numbers get groups of three digits.
func (c runColumn) text(x float64) string {
	if c.format == "%.0f" {
		return plural.Grouped(int64(math.Round(x)))
	}
	return fmt.Sprintf(c.format, x)
}

// runColumns are the metrics of all runs.
var runColumns = []runColumn{{"auc", "%.4f"}, {"logloss", "%.4f"}, {"train_logloss", "%.4f"}, {"steps", "%.0f"}, {"ranks", "%.0f"}}

// dayColumns are the metrics of partitions of train -by.
var dayColumns = []runColumn{{"day_rows", "%.0f"}, {"day_new_keys", "%.0f"}, {"day_retired_rows", "%.0f"}, {"day_auc", "%.4f"}, {"day_logloss", "%.4f"}, {"day_calibration", "%.4f"}, {"day_entropy", "%.4f"}}

// columnsOf returns the metrics of a table of runs.
func columnsOf(all []*runs.Summary) []runColumn {
	if slices.ContainsFunc(all, func(r *runs.Summary) bool { return r.Text("day") != "" }) {
		return slices.Concat(runColumns, dayColumns)
	}
	return runColumns
}

// runsTable prints the runs; branch is printed before the name of each.
func runsTable(to io.Writer, dir string, found int, all []*runs.Summary, branch []string) error {
	if found == 0 {
		fmt.Fprintf(to, "%s has no run directories: wdlrun train makes them\n", command.Clean(dir, 1<<10))
		return nil
	}
	differ := runs.Differing(all)
	shown := differ[:min(len(differ), maxDiffering)]
	t := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "run\tstate\ttime")
	var noted []string
	for _, name := range []string{"day", "from", "tags", "note"} {
		if slices.ContainsFunc(all, func(r *runs.Summary) bool { return r.Text(name) != "" }) {
			noted = append(noted, name)
		}
	}
	group, groups := runs.Groups(all)
	mixed := len(groups) > 1
	if mixed {
		fmt.Fprint(t, "\tmetrics of")
	}
	columns := columnsOf(all)
	for _, c := range columns {
		fmt.Fprintf(t, "\t%s", c.name)
	}
	for _, head := range headings(shown) {
		fmt.Fprintf(t, "\t%s", head)
	}
	for _, name := range noted {
		fmt.Fprintf(t, "\t%s", name)
	}
	fmt.Fprintln(t)
	for i, r := range all {
		fmt.Fprintf(t, "%s%s\t%s\t%s", branch[i], command.Clean(r.Name, 64), stateOf(r), lasted(r.Seconds))
		if mixed {
			fmt.Fprintf(t, "\t%s", dataOf(r, group[i]))
		}
		for _, c := range columns {
			text := "-"
			if x := r.Number(c.name); !math.IsNaN(x) {
				text = c.text(x)
			}
			fmt.Fprintf(t, "\t%s", text)
		}
		for _, key := range shown {
			fmt.Fprintf(t, "\t%s", cmp.Or(command.Clean(r.Config.Of(key), command.WidestSetting), "-"))
		}
		for _, name := range noted {
			fmt.Fprintf(t, "\t%s", cmp.Or(command.Clean(r.Text(name), command.WidestSetting), "-"))
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if n := found - len(all); n > 0 {
		fmt.Fprintf(to, "%d of %d runs do not meet the conditions\n", n, found)
	}
	if n := len(differ) - len(shown); n > 0 {
		fmt.Fprintf(to, "%d more settings differ, of %s: see -json or -csv\n", n, strings.Join(sections(differ[len(shown):]), ", "))
	}
	notes(to, all, groups)
	return nil
}

// notes prints what the table does not show of runs and of their groups.
func notes(to io.Writer, all, groups []*runs.Summary) {
	if slices.ContainsFunc(all, func(r *runs.Summary) bool { return r.Number("refit_epochs") > 0 }) {
		fmt.Fprintln(to, "note: with train.refit, validation metrics are of the first training; the model has also trained on those rows")
	}
	const most = 3 // of groups that are named, such as one for each day of train -by
	for i := 1; i < len(groups) && len(groups) <= most+1; i++ {
		fmt.Fprintf(to, "note: metrics of %s are not comparable with %s: %s\n", dataOf(groups[i], i), dataOf(groups[0], 0), runs.Incomparable(groups[0], groups[i]))
	}
	if n := len(groups); n > most+1 {
		fmt.Fprintf(to, "note: the metrics of the %d groups, %s to %s, are not comparable with each other: each has other data or another label\n", n, dataOf(groups[0], 0), dataOf(groups[n-1], n-1))
	}
	for _, r := range all {
		if r.Rejected != "" {
			fmt.Fprintf(to, "note: %s: rejected by train.gate: %s\n", command.Clean(r.Name, 64), command.Clean(r.Rejected, 300))
		}
		if r.Failure != "" {
			fmt.Fprintf(to, "note: %s: %s\n", command.Clean(r.Name, 64), command.Clean(r.Failure, 300))
		}
		for _, f := range r.Faults {
			fmt.Fprintf(to, "note: %s: %s\n", command.Clean(r.Name, 64), command.Clean(f, 300))
		}
	}
}

// stateOf returns the state of a run, and whether its model was rejected.
func stateOf(r *runs.Summary) string {
	if r.Rejected != "" {
		return string(r.State) + ", rejected"
	}
	return string(r.State)
}

// dataOf names the rows on which the metrics of a run were computed, by the number of its group.
func dataOf(r *runs.Summary, group int) string {
	if group < 0 {
		return "-"
	}
	return fmt.Sprintf("%s (%d)", r.EvaluatedOn, group+1)
}

// sections returns the sections of the configuration that have these keys.
func sections(keys []string) (all []string) {
	for _, key := range keys {
		name := command.Clean(key[:strings.IndexAny(key+".", ".[")], command.WidestSetting)
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// headings returns the headings of settings. Long ones are cut in the middle, unless two
// would become equal.
func headings(keys []string) []string {
	heads, same := make([]string, len(keys)), map[string]int{}
	for i, key := range keys {
		heads[i] = command.Clean(key, len(key))
		if r := []rune(heads[i]); len(r) > command.WidestSetting {
			heads[i] = string(r[:command.WidestSetting/2]) + "…" + string(r[len(r)-command.WidestSetting/2:])
		}
		same[heads[i]]++
	}
	for i, key := range keys {
		if same[heads[i]] > 1 {
			heads[i] = command.Clean(key, len(key))
		}
	}
	return heads
}

// lasted formats a duration for people.
func lasted(seconds float64) string {
	if math.IsNaN(seconds) {
		return "-"
	}
	d := time.Duration(float64(seconds * float64(time.Second)))
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", seconds)
	case d < time.Hour:
		return d.Round(time.Second).String()
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}
