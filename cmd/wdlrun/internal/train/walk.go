package train

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/text/plural"
	"github.com/wdlrun/wdlrun/internal/train"
	"github.com/wdlrun/wdlrun/internal/train/input"
	"github.com/wdlrun/wdlrun/internal/train/walk"
	"github.com/wdlrun/wdlrun/rank"
)

// walking is a command train -by: one training for each partition that the model does not know.
type walking struct {
	p      *command.Program
	c      *cli.Context
	root   *cli.Context
	opt    train.Options
	by     walk.By
	config *config.Config // of the command, without a partition
	ledger rundir.Days    // of the model
	from   string         // run directory of the model; "": none yet
	parts  *walk.Parts
	plan   walk.Plan
	done   []rundir.Day // by this command
	passed []rundir.Day // partitions that were skipped since the model
	skips  map[string]string
	next   int             // of the plan: the first partition that is neither trained on nor skipped
	rows   map[string]bool // by partition: it has records
}

// walkForward trains partition after partition.
func walkForward(p *command.Program, c *cli.Context) error {
	w := walking{p: p, c: c, root: c.Lineage()[len(c.Lineage())-2], skips: map[string]string{}, done: []rundir.Day{}, rows: map[string]bool{}}
	if err := w.check(); err != nil {
		return err
	}
	if !c.Bool("plan") && !w.root.Bool("plan") {
		if err := os.MkdirAll(w.opt.Out, 0o755); err != nil {
			return fmt.Errorf("-out: %w", err)
		}
		unlock, err := rundir.Lock(w.opt.Out)
		if errors.Is(err, rundir.ErrInUse) {
			return fmt.Errorf("another train -by runs in %s: wait for it, or give another -out", w.opt.Out)
		}
		if err != nil {
			return err
		}
		defer unlock()
	}
	if err := w.open(); err != nil {
		return err
	}
	for _, line := range w.plan.Lines(w.late, c.Bool("plan") || w.root.Bool("plan")) {
		w.warn(line)
	}
	w.nameLeft()
	if c.Bool("plan") {
		if err := w.checkNext(); err != nil {
			return err
		}
		return w.print()
	}
	if w.plan.Named(&w.ledger) && w.ledger.By != "" && !w.root.Bool("plan") {
		if err := rundir.WriteDays(w.from, w.ledger); err != nil {
			fmt.Fprintf(p.Stderr, "wdlrun: the next command names them again: %v\n", err)
		}
	}
	for i := 0; i < len(w.plan.Next); {
		n, err := w.train(i)
		if i += n; err != nil || w.root.Bool("plan") {
			return err
		}
	}
	return w.end()
}

// check rejects flags that cannot be combined with -by.
func (w *walking) check() (err error) {
	c := w.c
	if w.by, err = walk.ParseBy(c.String("by")); err != nil {
		return err
	}
	if c.IsSet("resume") {
		return errors.New("-by continues with the next partition by itself: leave out -resume; to go back to an earlier model: -from RUN")
	}
	if _, found, err := rank.FromEnv(w.p.Getenv); err != nil || found && !w.root.IsSet("np") {
		return errors.Join(err, errors.New("-by starts one training after another: start it with wdlrun -np N, not with another launcher"))
	}
	if err := command.Enter(w.root); err != nil {
		return err
	}
	if w.opt, _, _, err = launchOptions(w.p, c); err != nil {
		return err
	}
	if w.opt.From != "" && c.String("from") != rundir.Latest {
		w.from = w.opt.From
		return nil
	}
	w.from = rundir.LatestOf(w.opt.Out)
	return nil
}

func (w *walking) warn(line string) { fmt.Fprintf(w.p.Stderr, "wdlrun: %s\n", line) }

// widen takes the configuration of the model, with the data of all partitions.
func (w *walking) widen() error {
	opt := w.opt
	opt.Set = nil
	c, err := train.OpenConfig(w.c.Context, opt)
	if err != nil {
		return err
	}
	if w.ledger.By != "" {
		c.Data.Train, c.Data.TrainWhere = w.ledger.Train, w.ledger.Where
		if c.Train.Gate.Data == "next" {
			c.Data.Valid, c.Data.ValidWhere = nil, ""
		}
	}
	removed, err := config.SetAll(c, w.opt.Set)
	if err != nil {
		return err
	}
	for _, line := range removed {
		w.warn("-set " + line)
	}
	w.config = c
	return nil
}

// open finds the model, its ledger, and the partitions of the data.
func (w *walking) open() (err error) {
	if w.from != "" {
		if w.ledger, err = rundir.ReadDays(w.from); err != nil {
			return err
		}
	}
	if w.ledger.By != "" && w.ledger.By != w.by.String() {
		return fmt.Errorf("-by %s: %s was trained -by %s: give the same, or another -out", w.by, w.from, w.ledger.By)
	}
	w.opt.From = w.from
	if w.opt.Config == nil { // the configuration is the one of the model, narrowed to its partition
		err = w.widen()
	} else {
		opt := w.opt
		opt.Warn = w.warn
		w.config, err = train.OpenConfig(w.c.Context, opt)
	}
	if err != nil {
		return err
	}
	c := w.config
	if c.Data.Follow.On {
		return errors.New("-by: data.follow trains on a stream as it grows: set data.follow.on: false, or leave out -by")
	}
	if w.parts, err = walk.List(w.c.Context, c.Data, w.by, time.Now().Unix()); err != nil {
		return err
	}
	if w.from == "" {
		fmt.Fprintf(w.p.Stderr, "wdlrun: no training has finished in %s: the first partition begins a new model\n", w.opt.Out)
	}
	if w.from != "" && w.ledger.By == "" {
		if err := w.adopt(); err != nil {
			return err
		}
	}
	var again []string
	if text := w.c.String("again"); text != "" {
		again = strings.Split(text, ",")
	}
	if w.plan, err = w.parts.NewPlan(&w.ledger, again); err != nil {
		return err
	}
	if c.Train.Retain.Days > 0 && len(w.plan.Next) > 0 && w.plan.Next[0].End == 0 {
		return fmt.Errorf("train.retain: %s is no date: remove train.retain", w.plan.Name(w.plan.Next[0].Day))
	}
	return nil
}

// adopt makes a ledger for a model that was not trained with -by: the partitions that its training
// data was in.
func (w *walking) adopt() error {
	was, err := train.OpenConfig(w.c.Context, train.Options{From: w.from})
	if err != nil {
		return err
	}
	known, err := walk.List(w.c.Context, was.Data, w.by, time.Now().Unix())
	if err != nil || w.by.Columns == nil { // its files are gone or in other folders; or nothing tells which rows it was trained on
		fmt.Fprintf(w.p.Stderr, "wdlrun: %s was not trained -by %s, so all partitions are new to it\n", w.from, w.by)
		return nil
	}
	for _, part := range known.All {
		if part.Train == nil {
			continue
		}
		w.ledger.Days = append(w.ledger.Days, rundir.Day{Day: part.Day, End: part.End, Run: filepath.Base(w.from)})
	}
	return nil
}

// late returns how many rows a partition has more than when the model was trained on it.
func (w *walking) late(l *walk.Late) (int64, bool) {
	if n, ok := l.Rows(); ok {
		return n, true
	}
	c := w.config.Clone()
	c.Data.Train = l.Train
	now, err := train.Rows(w.c.Context, c)
	return now - l.Was.Rows, err == nil && l.Was.Rows > 0
}

// options returns the options of the training on a partition.
func (w *walking) options(i int) (d dayOptions) {
	part := &w.plan.Next[i]
	c := &w.config.Data
	d.Lacks, d.Counted = w.lacks(part), w.ledger.Last(part.Day) != nil
	if n := len(part.Empty); n > 0 {
		fmt.Fprintf(w.p.Stderr, "wdlrun: %s: %s without bytes: %s\n", w.plan.Name(part.Day), plural.Of(n, "file"), input.FirstFew(part.Empty))
	}
	d.Day.Day, d.End, d.Mark, d.From = part.Day, part.End, part.Mark, w.from
	if i < w.plan.Again {
		d.Again = w.c.String("again")
	}
	d.Ledger = rundir.Days{By: w.by.String(), Train: c.Train, Where: c.TrainWhere, Days: w.ledger.Days, Skipped: w.passed}
	d.Set = []string{"data.train=" + command.Flow(part.Train)}
	if where := schema.And(c.TrainWhere, part.Where); where != "" {
		d.Set = append(d.Set, "data.train_where="+where)
	}
	if w.config.Train.Gate.Data == "next" {
		next := &w.plan.Next[w.after(i)]
		d.Lacks = append(d.Lacks, w.lacks(next)...)
		d.Set = append(d.Set, "data.valid_fraction=0", "data.valid="+command.Flow(next.Train))
		if where := schema.And(c.ValidWhere, next.Where); where != "" {
			d.Set = append(d.Set, "data.valid_where="+where)
		}
	}
	if days := w.config.Train.Retain.Days; days > 0 {
		d.Begin, d.Retain, d.Retire = part.Begin(), days, train.Retires(&w.ledger, part.Begin(), days)
	}
	if w.ledger.By != "" {
		d.Ledger.Days = nil // the run directory of the model has them
	}
	return d
}

// lacks returns the columns that a partition lacks, such as one from before a feature existed, and prints
// a line for each.
func (w *walking) lacks(part *walk.Partition) []string {
	label := w.config.Label.Field
	reads := append(train.Inputs(w.config), label)
	l, err := w.parts.Lacks(w.config.Data, part, reads)
	if err != nil || slices.Contains(l.Names, label) {
		return nil // the training reports it
	}
	unused := slices.DeleteFunc(l.New, func(name string) bool { return slices.Contains(reads, name) })
	for _, name := range l.Names {
		line := fmt.Sprintf("wdlrun: %s: no file has column %s, so its values are missing; the files of %s have it", w.plan.Name(part.Day), name, w.plan.Name(l.From))
		if len(unused) > 0 {
			line += fmt.Sprintf("; columns that are new there and that no feature uses: %s; if one of them is %s renamed, write %s", strings.Join(unused, ", "), name, w.renamed(name, unused[0]))
		}
		fmt.Fprintln(w.p.Stderr, line)
	}
	return l.Names
}

// renamed returns the features of a column as they are after it was renamed.
func (w *walking) renamed(column, to string) string {
	all := []string{fmt.Sprintf("{field: %s, was: %s, …}", to, column)}
	for _, f := range w.config.Features {
		if name := cmp.Or(f.Name, f.Field); f.Field == column && name != column {
			all = append(all, fmt.Sprintf("{field: %s, name: %s, …}", to, name))
		}
	}
	return strings.Join(all, " and ")
}

// nameLeft prints a line about such a training, if no training of the plan continues it.
func (w *walking) nameLeft() {
	dir, about := unfinished(w.opt.Out, w.from)
	of := func(part walk.Partition) bool { return part.Day == about.Day }
	if dir == "" || slices.ContainsFunc(w.plan.Next, of) || !slices.ContainsFunc(w.parts.All, of) {
		return
	}
	how := ""
	if w.ledger.Last(about.Day) != nil || slices.Contains(w.plan.Older, about.Day) {
		how = "; to continue it: -again " + about.Day
	}
	w.warn(fmt.Sprintf("%s: the training in %s did not become the latest and is left%s", w.plan.Name(about.Day), dir, how))
}

// resumes returns the newest run directory, if its training is on the same partition, with the same model
// and configuration, and did not become the latest; "" otherwise. It prints which of these has changed.
func (w *walking) resumes(d *dayOptions) (string, error) {
	dir, about := unfinished(w.opt.Out, w.from)
	if dir == "" || about.Day != d.Day.Day {
		return "", nil
	}
	why, err := differs(w.c.Context, dir, about, w.opt, d)
	if err != nil {
		return "", err
	}
	name := w.plan.Name(about.Day)
	if why != "" {
		w.warn(fmt.Sprintf("%s: the training in %s did not become the latest and is left: %s; a new one begins", name, dir, why))
		return "", nil
	}
	w.warn(fmt.Sprintf("%s: the training in %s did not become the latest and continues", name, dir))
	return dir, nil
}

// awaitRanks waits a while for the ranks of a training that continues. They end soon after their launcher.
func awaitRanks(dir string) {
	for range 100 {
		if dir == "" || !rundir.Locked(dir) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// after returns the place of the first partition after the i-th that has records; -1: there is none.
func (w *walking) after(i int) int {
	for j := i + 1; j < len(w.plan.Next); j++ {
		part := &w.plan.Next[j]
		if _, known := w.rows[part.Day]; !known {
			w.rows[part.Day] = w.parts.HasRows(w.c.Context, w.config.Data, part) && w.selects(part)
		}
		if w.rows[part.Day] {
			return j
		}
	}
	return -1
}

// selects reports whether the conditions of validation rows select a row of a partition. It reports true if they
// cannot be read: the training names the fault.
func (w *walking) selects(part *walk.Partition) bool {
	c := w.config.Clone()
	if c.Data.Where == "" && c.Data.ValidWhere == "" {
		return true
	}
	c.Data.Train, c.Data.TrainWhere = part.Train, schema.And(c.Data.ValidWhere, part.Where)
	_, err := train.Rows(w.c.Context, c)
	return !train.IsEmpty(err)
}

// waits reports whether the i-th partition waits for one after it.
func (w *walking) waits(i int) bool {
	return w.config.Train.Gate.Data == "next" && w.after(i) < 0
}

const (
	maxTogether     = 64       // partitions on which the same processes train
	maxStamped      = 1 << 30  // bytes of their files, which are read before the first training
	maxTogetherText = 64 << 10 // bytes of the flag that describes them
)

// stamp sets the identity of the files of the i-th partition in its options. If train.gate compares the
// models on the next partition, the identity includes its files.
func (w *walking) stamp(i int, d *dayOptions) (err error) {
	d.Times, d.Content, err = w.plan.Next[i].Stamp()
	if err != nil || w.config.Train.Gate.Data != "next" {
		return err
	}
	next := &w.plan.Next[w.after(i)]
	_, bytes, err := next.Stamp()
	d.Valid = next.Mark + " " + bytes
	return err
}

// together selects the partitions from the i-th on that the same processes train on. It adds the options of
// the later ones to d, and returns the number of partitions.
func (w *walking) together(i int, d *dayOptions) (n int, err error) {
	if err = w.stamp(i, d); err != nil || w.c.Int("replicas") > 1 {
		return 1, err
	}
	bytes, text := w.plan.Next[i].Bytes(), len(command.Flow(d))
	for n = 1; n < maxTogether && i+n < len(w.plan.Next) && w.plan.Next[i+n].Train != nil && !w.waits(i+n); n++ {
		part := &w.plan.Next[i+n]
		if bytes += part.Bytes(); bytes > maxStamped {
			break
		}
		next := w.options(i + n)
		next.From, next.Retire = "", 0 // by the training before it
		next.Ledger.Days, next.Ledger.Skipped = d.Ledger.Days, nil
		if err = w.stamp(i+n, &next); err != nil {
			return n, err
		}
		if text += len(command.Flow(next)); text > maxTogetherText {
			break
		}
		d.Then = append(d.Then, next)
	}
	return n, nil
}

// train trains on the i-th partition of the plan, and on those after it that the same processes can
// train on. It returns the number of all.
func (w *walking) train(i int) (n int, err error) {
	p, part := w.p, &w.plan.Next[i]
	name := w.plan.Name(part.Day)
	if part.Train == nil {
		w.took(i, dayReport{Skipped: "its files are empty"})
		return 1, nil
	}
	if w.waits(i) {
		fmt.Fprintf(p.Stderr, "wdlrun: %s waits for the partition after it, on which train.gate compares the models\n", name)
		return 1, nil
	}
	d := w.options(i)
	if n, err = w.together(i, &d); err != nil {
		return n, err
	}
	if d.Into, err = w.resumes(&d); err != nil {
		return n, err
	}
	awaitRanks(d.Into)
	text := command.Flow(d)
	if err := w.c.Set("day", text); err != nil {
		return n, err
	}
	p.Progress.Begin("train", 0, "")
	if err := checkTrain(p, w.c); err != nil {
		return n, fmt.Errorf("%s: %w", name, err)
	}
	self, err := os.Executable()
	if err != nil {
		return n, fmt.Errorf("the path of the program is unknown: %w", err)
	}
	got := w.results(i)
	var r dayResult
	print := func(_ io.Writer, np int, _ bool, result []byte) error {
		if err := json.Unmarshal(result, &r); err != nil || r.Skipped != "" {
			return err
		}
		return command.Unfinished(p.Starts(np), r.Result)
	}
	err = p.Launch(w.root, append(command.RanksCommand(self, w.root), "-day", text), command.LaunchedAs(w.c, print).Parts(got.part))
	got.end()
	if r.Skipped != "" || err == nil && r.Day != nil {
		w.took(i, r.brief())
	}
	if err != nil {
		return n, w.ended(i, &r, err)
	}
	return n, nil
}

// ended reports that the training on one of the partitions from the i-th of the plan has not made the latest
// model, and returns err.
func (w *walking) ended(i int, r *dayResult, err error) error {
	why := "it was stopped"
	if r.Gate.Closed() {
		at := i + r.Part
		name, next := w.plan.Name(w.plan.Next[at].Day), ""
		if w.config.Train.Gate.Data == "next" {
			next = " or " + w.plan.Name(w.plan.Next[w.after(at)].Day)
		}
		why = fmt.Sprintf("%s: %s: %s", name, r.RunDir, command.Gated(r.Result))
		if !command.AsJSON(w.c) {
			w.warn(why)
		}
		w.warn(fmt.Sprintf("check the data of %s%s: if it is wrong, correct it, or move its folder away to leave it out, and give the same command; to continue from the rejected model: -from %s", name, next, r.RunDir))
	} else if left := w.left(); len(left) > 0 {
		w.warn(fmt.Sprintf("to continue, give the same command: %s left, from %s on", plural.Of(len(left), "partition"), w.plan.Name(left[0])))
	}
	if code := command.Exit(0); command.AsJSON(w.c) && (r.Stopped || r.Gate.Closed()) && errors.As(err, &code) {
		return errors.Join(err, w.json(map[string]any{"trained": w.done, "skipped": w.skips, "run_dir": w.from, "exit_code": int(code), "error": why}))
	}
	return err
}

// left returns the partitions that are still to be trained on.
func (w *walking) left() (days []string) {
	for i := w.next; i < len(w.plan.Next); i++ {
		if w.plan.Next[i].Train != nil && !w.waits(i) {
			days = append(days, w.plan.Next[i].Day)
		}
	}
	return days
}

// results takes the reports of the trainings on the partitions from the i-th of the plan.
func (w *walking) results(i int) *results { return &results{w: w, first: i} }

// results receives the result of each training of a group of processes, except the last. Another
// goroutine adds reports until end is called.
type results struct {
	w     *walking
	first int

	mu    sync.Mutex
	ended bool
}

// part takes a dayReport.
func (r *results) part(body []byte) {
	var d dayReport
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := json.Unmarshal(body, &d); err == nil && !r.ended && r.first+d.Part < len(r.w.plan.Next) {
		r.w.took(r.first, d)
	}
}

func (r *results) end() {
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
}

// took notes the result of a training on one of the partitions from the i-th of the plan, and prints it.
func (w *walking) took(i int, r dayReport) {
	part := &w.plan.Next[i+r.Part]
	name := w.plan.Name(part.Day)
	w.next = max(w.next, i+r.Part+1)
	if r.Skipped != "" {
		if _, again := w.skips[part.Day]; again {
			return // the ranks have started again
		}
		w.skips[part.Day] = r.Skipped
		w.passed = append(w.passed, rundir.Day{Day: part.Day, Mark: part.Mark})
		fmt.Fprintf(w.p.Stderr, "wdlrun: %s is not trained on: %s\n", name, r.Skipped)
		return
	}
	if r.Day == nil {
		return
	}
	w.from, w.ledger.By, w.passed = r.RunDir, w.by.String(), nil // its run directory has them
	days := []rundir.Day{*r.Day}
	if l, err := rundir.ReadDays(w.from); err == nil && len(l.Days) > len(w.ledger.Days) {
		days = l.Days[len(w.ledger.Days):] // also those of a rank that was killed before it could report them
	}
	for _, day := range days {
		w.ledger.Days, w.done = append(w.ledger.Days, day), append(w.done, day)
		if !command.AsJSON(w.c) {
			w.row(w.plan.Name(day.Day), &day)
		}
	}
}

// checkNext checks the training on the next partition as it would begin, and prints a line if one continues.
func (w *walking) checkNext() (err error) {
	i := slices.IndexFunc(w.plan.Next, func(part walk.Partition) bool { return part.Train != nil })
	if i < 0 || w.waits(i) {
		return nil
	}
	d := w.options(i)
	if err := w.stamp(i, &d); err != nil {
		return err
	}
	if d.Into, err = w.resumes(&d); err != nil {
		return err
	}
	if err := w.c.Set("day", command.Flow(d)); err != nil {
		return err
	}
	if err := checkTrain(w.p, w.c); err != nil {
		return fmt.Errorf("%s: %w", w.plan.Name(w.plan.Next[i].Day), err)
	}
	return nil
}

// row prints a line of the table of days.
func (w *walking) row(name string, d *rundir.Day) {
	const form = "%-20s %10s %9s %9s %7s %8s %11s %7s %8s  %s\n"
	if len(w.done) == 1 {
		fmt.Fprintf(w.p.Stdout, form, "partition", "rows", "new keys", "retired", "AUC", "log-loss", "calibration", "entropy", "seconds", "run")
	}
	seen := ""
	if d.Seen {
		seen = " (metrics of rows that the model before was trained on)"
	}
	of := func(x *float64) string {
		if x == nil {
			return "-"
		}
		return fmt.Sprintf("%.4f", *x)
	}
	fmt.Fprintf(w.p.Stdout, form, command.Clean(name, 64), fmt.Sprint(d.Rows), fmt.Sprint(d.Keys), fmt.Sprint(d.Retired), of(d.AUC), of(d.LogLoss), of(d.Calib), of(d.Entropy), fmt.Sprintf("%.1f", d.Seconds), d.Run+seen)
}

// print prints the partitions of -plan.
func (w *walking) print() error {
	if command.AsJSON(w.c) {
		return w.json(map[string]any{})
	}
	fmt.Fprintf(w.p.Stdout, "%d partitions, of which %d are trained on next", len(w.parts.All), len(w.left()))
	if w.from != "" {
		fmt.Fprintf(w.p.Stdout, ", from %s", w.from)
	}
	fmt.Fprintln(w.p.Stdout)
	for i := range w.plan.Next {
		part := &w.plan.Next[i]
		what := command.Clean(strings.Join(part.Train, " "), 200)
		if part.Train == nil {
			what = "its files are empty"
		} else if w.waits(i) {
			what += "  waits for the partition after it"
		}
		fmt.Fprintf(w.p.Stdout, "  %-20s %s\n", command.Clean(w.plan.Name(part.Day), 64), what)
	}
	return nil
}

// end reports that no partition is left.
func (w *walking) end() error {
	if command.AsJSON(w.c) {
		return w.json(map[string]any{"trained": w.done, "skipped": w.skips, "run_dir": w.from})
	}
	if len(w.done) > 0 || len(w.ledger.Days) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w.p.Stdout, "nothing new: %s was trained up to %s\n", w.from, w.plan.Name(w.plan.Newest))
	return err
}

// json prints the result of the command.
func (w *walking) json(result map[string]any) error {
	next, late := []string{}, []string{}
	for i := range w.plan.Next {
		next = append(next, w.plan.Next[i].Day)
	}
	for i := range w.plan.Late {
		late = append(late, w.plan.Late[i].Day)
	}
	result["by"], result["partitions"], result["next"], result["late"], result["older"], result["missing"] = w.by.String(), len(w.parts.All), next, late, w.plan.Older, w.plan.Missing
	return w.p.PrintJSON(result)
}
