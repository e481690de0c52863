package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/wdlrun/wdlrun/internal/runs/rundir"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/runs"
	"github.com/wdlrun/wdlrun/internal/runs/report"
	"github.com/wdlrun/wdlrun/internal/runs/sweep"
	"github.com/wdlrun/wdlrun/internal/text/nearest"
	"github.com/wdlrun/wdlrun/internal/text/plural"
	"github.com/wdlrun/wdlrun/internal/train"
	"github.com/wdlrun/wdlrun/rank"
)

// Files in the directory of a sweep.
const (
	sweepBase   = "base.yaml" // the configuration that trials change
	sweepSpace  = "space.yaml"
	sweepState  = "sweep.json"
	sweepReport = "report.html"
	sweepBest   = "best.yaml"
)

func sweepCommand(p *program) *cli.Command {
	return &cli.Command{
		Name: "sweep", Usage: "train with many combinations of settings and compare them", UsageText: "wdlrun sweep -config FILE -space FILE [flags]",
		Description: `-space is a YAML file of keys of the configuration with their possible values:

   model.kind: [wide_deep, dcn_v2]                                      one of a list
   model.hidden: {choice: [[64, 32], [128, 64]]}                        the same
   train.optimizer.deep.learning_rate: {log: [0.001, 0.3]}              a number, uniform in its logarithm
   model.dropout: {uniform: [0, 0.5]}                                   a number
   model.cross.layers: {int: [1, 4], if: model.kind=dcn_v2}             an integer, for trials with dcn_v2

-method grid trains every combination; a range then needs steps: N. random draws -trials
combinations. asha draws them too and trains each for -min-epochs epochs. It continues the
best 1/-eta of them up to -eta times as many epochs, and repeats this up to train.epochs.

Trials are compared by -metric on the validation data. -repeats N trains each trial with N
seeds and compares the means. Trials with the same data and features share one scan. A
trial that fails is reported and does not end the sweep. Ctrl-C writes a checkpoint of
each running trial. -resume DIR continues, and trains failed trials again. The test
metrics of the best trial are printed at the end.

Examples:
   wdlrun sweep -config ctr.yaml -space space.yaml -trials 20 -parallel 2 -np 1
   wdlrun sweep -config ctr.yaml -space space.yaml -method asha -trials 60 -budget 2h
   wdlrun sweep -config ctr.yaml -space space.yaml -method grid -repeats 3
   wdlrun sweep -resume sweeps/20261121-101500
   wdlrun runs -web 127.0.0.1:6061 sweeps/20261121-101500`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "config", Usage: "read the configuration that trials change from `FILE` (YAML)"},
			&cli.StringSliceFlag{Name: "set", Usage: "override one key for all trials: `KEY=VALUE`; may be repeated"},
			&cli.StringFlag{Name: "space", Usage: "read the keys to try, with their values, from `FILE`"},
			&cli.StringFlag{Name: "method", Value: sweep.Random, Usage: "choose combinations by `METHOD`: " + strings.Join(sweep.Methods(), ", ")},
			&cli.IntFlag{Name: "trials", Value: 20, Usage: "draw `NUMBER` combinations; grid takes all"},
			&cli.IntFlag{Name: "repeats", Value: 1, Usage: "train each combination with `NUMBER` seeds"},
			&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "draw combinations from the random seed `NUMBER`"},
			&cli.StringFlag{Name: "metric", Usage: "compare trials by `METRIC` of the validation data", DefaultText: "auc; rmse if the label is a number"},
			&cli.IntFlag{Name: "eta", Value: 3, Usage: "asha: continue one of `NUMBER` trials"},
			&cli.IntFlag{Name: "min-epochs", Value: 1, Usage: "asha: compare trials after `NUMBER` epochs, then after eta times as many"},
			&cli.IntFlag{Name: "parallel", Value: 1, Usage: "train `NUMBER` trials at a time"},
			&cli.IntFlag{Name: "np", Value: 1, Usage: "train each trial on `NUMBER` ranks"},
			&cli.DurationFlag{Name: "budget", Usage: "stop as with Ctrl-C after `TIME`, such as 2h", DefaultText: "no limit"},
			&cli.StringFlag{Name: "out", Value: "sweeps", Usage: "create the directory of the sweep in `DIR`"},
			&cli.StringFlag{Name: "resume", Usage: "continue the sweep in `DIR`, and train its failed trials again"},
			jsonFlag(),
		},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return fmt.Errorf("sweep takes no arguments, but got %q", c.Args().First())
			}
			if err := positive(c, "trials", "repeats", "min-epochs", "parallel", "np", "budget"); err != nil {
				return err
			}
			s, err := openSweep(c)
			if err != nil {
				return err
			}
			return s.run(c, p)
		},
	}
}

// sweeping is a sweep with the inputs of its trainings.
type sweeping struct {
	*sweep.Sweep
	dir   string
	space sweep.Space
	base  *config.Config
	start *trainings
}

// openSweep starts or resumes the requested sweep.
func openSweep(c *cli.Context) (s *sweeping, err error) {
	if np := c.Int("np"); np > rank.MaxSize {
		return nil, fmt.Errorf("sweep: -np %d: at most %d", np, rank.MaxSize)
	}
	if c.IsSet("resume") {
		for _, flag := range []string{"config", "set", "space", "method", "trials", "repeats", "seed", "metric", "eta", "min-epochs", "out"} {
			if c.IsSet(flag) {
				return nil, fmt.Errorf("sweep: -resume continues with the settings of the sweep: leave out -%s", flag)
			}
		}
		return resumeSweep(pathOf(c, "resume"))
	}
	if !c.IsSet("space") {
		return nil, errors.New("sweep: which settings? give -space FILE, or -resume DIR; see: wdlrun sweep --help")
	}
	s = &sweeping{base: config.Default()}
	if c.IsSet("config") {
		if s.base, err = config.Load(pathOf(c, "config")); err != nil {
			return nil, err
		}
	}
	removed, err := config.SetAll(s.base, c.StringSlice("set"))
	if err != nil {
		return nil, err
	}
	text, err := regular.ReadFile(pathOf(c, "space"), sweep.MaxBytes)
	if err != nil {
		return nil, fmt.Errorf("-space: %w", err)
	}
	check := func(key, value string) error { return config.Check(s.base, key, value) }
	if s.space, err = sweep.ParseSpace(c.String("space"), text, check); err != nil {
		return nil, err
	}
	o, err := sweepOptions(c, s.base)
	if err != nil {
		return nil, err
	}
	settings, err := o.Settings(s.space)
	if err != nil {
		return nil, err
	}
	s.Sweep = sweep.New(version, o, settings)
	for _, line := range removed {
		s.Removed = append(s.Removed, "in all trials, "+line)
	}
	warn := func(line string) { fmt.Fprintf(c.App.ErrWriter, "wdlrun: %s\n", line) }
	if err := s.check(c.Context, c.Int("np"), warn); err != nil {
		return nil, err
	}
	if s.dir, err = rundir.New(pathOf(c, "out"), "", time.Now()); err != nil {
		return nil, err
	}
	return s, errors.Join(rundir.WriteFile(s.dir, sweepBase, s.base.YAML()), rundir.WriteFile(s.dir, sweepSpace, text), s.save())
}

func resumeSweep(dir string) (*sweeping, error) {
	s := &sweeping{dir: dir}
	b, err := regular.ReadFile(filepath.Join(dir, sweepState), rundir.MaxFile)
	if err != nil {
		return nil, fmt.Errorf("sweep: -resume: %w; give the directory of a sweep", err)
	}
	if s.Sweep, err = sweep.Parse(b); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, sweepState), err)
	}
	text, err := regular.ReadFile(filepath.Join(dir, sweepSpace), sweep.MaxBytes)
	if err == nil {
		s.space, err = sweep.ParseSpace(filepath.Join(dir, sweepSpace), text, nil)
	}
	if err == nil {
		s.base, err = config.Load(filepath.Join(dir, sweepBase))
	}
	return s, err
}

// sweepOptions parses the flags of a new sweep.
func sweepOptions(c *cli.Context, base *config.Config) (o sweep.Options, err error) {
	full := base.Clone()
	full.Fill()
	o = sweep.Options{Method: c.String("method"), Trials: c.Int("trials"), Repeats: c.Int("repeats"), Seed: c.Uint64("seed"), Metric: c.String("metric"), Epochs: full.Train.Epochs}
	if o.Metric == "" {
		o.Metric = "auc"
		if full.Label.IsNumber() {
			o.Metric = "rmse"
		}
	}
	var metrics []string
	for _, m := range runs.Columns() {
		metrics = append(metrics, m.Name)
	}
	if !slices.Contains(metrics, o.Metric) || o.Metric == "calibration" {
		return o, fmt.Errorf("sweep: -metric %q: there are %s", o.Metric, strings.Join(slices.DeleteFunc(metrics, func(m string) bool { return m == "calibration" }), ", "))
	}
	switch o.Method {
	case sweep.Grid:
		if o.Trials = 0; c.IsSet("trials") {
			return o, errors.New("sweep: -method grid trains every combination: leave out -trials")
		}
	case sweep.ASHA:
		if o.Eta, o.MinEpochs = c.Int("eta"), c.Int("min-epochs"); o.Eta < 2 || o.Eta > sweep.MaxValues {
			return o, fmt.Errorf("sweep: -eta %d: from 2 to %d", o.Eta, sweep.MaxValues)
		}
	case sweep.Random:
	default:
		near := nearest.Of(o.Method, sweep.Methods())
		if near != "" {
			near = "; did you mean " + near + "?"
		}
		return o, fmt.Errorf("sweep: -method %q: there are %s%s", o.Method, strings.Join(sweep.Methods(), ", "), near)
	}
	if o.Method != sweep.ASHA && (c.IsSet("eta") || c.IsSet("min-epochs")) {
		return o, errors.New("sweep: -eta and -min-epochs belong to -method asha")
	}
	if o.Trials > sweep.MaxTrials || o.Repeats > sweep.MaxRepeats {
		return o, fmt.Errorf("sweep: at most %d trials and %d repeats are possible", sweep.MaxTrials, sweep.MaxRepeats)
	}
	if full.Data.ValidFraction == 0 && len(full.Data.Valid) == 0 {
		return o, errors.New("sweep: trials are compared on validation data, and the configuration has none: hold some out with -set data.valid_fraction=0.1, or name files in data.valid")
	}
	return o, nil
}

// check rejects settings that no training accepts, before the first trial. It warns about data on
// which trials cannot be compared.
func (s *sweeping) check(ctx context.Context, np int, warn func(string)) error {
	own := map[string]bool{}
	for _, p := range s.space {
		own[p.Key] = true
	}
	if s.Options.Repeats > 1 && own["train.seed"] {
		return errors.New("sweep: -repeats changes train.seed, which the space has too: leave one of them out")
	}
	if s.Options.Method == sweep.ASHA && own["train.epochs"] {
		return errors.New("sweep: -method asha decides on train.epochs, which the space has too: leave it out")
	}
	for _, t := range s.Trials {
		c := s.base.Clone()
		removed, err := config.SetAll(c, t.Pairs())
		if err != nil {
			return fmt.Errorf("sweep: trial %d of the space (%s) is impossible: %w", t.Number, strings.Join(t.Pairs(), " "), err)
		}
		for _, line := range removed {
			if line = s.removal(line); !slices.Contains(s.Removed, line) && len(s.Removed) < maxShown {
				s.Removed = append(s.Removed, line)
			}
		}
		if t.Number == 1 {
			if err := train.Check(ctx, train.Options{Config: c, Out: "runs", Warn: warn}, np); err != nil {
				return err
			}
		}
	}
	return nil
}

// removal describes what a setting of trials removes. A number has one line for all its values.
func (s *sweeping) removal(line string) string {
	key, _, _ := strings.Cut(line, "=")
	if slices.ContainsFunc(s.space, func(p sweep.Param) bool { return p.Key == key && p.Numeric() }) {
		_, gone, _ := strings.Cut(line, " removes ")
		line = key + " removes " + gone
	}
	return "in trials, " + line
}

// config returns the configuration of a trial.
func (s *sweeping) config(t *sweep.Trial) (*config.Config, error) {
	c := s.base.Clone()
	_, err := config.SetAll(c, t.Pairs())
	return c, err
}

func (s *sweeping) save() error {
	b, err := json.MarshalIndent(s.Sweep, "", " ")
	if err != nil {
		return err
	}
	if err := rundir.WriteFile(s.dir, sweepState, append(b, '\n')); err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	return nil
}

// run runs the remaining trainings, and prints the result.
func (s *sweeping) run(c *cli.Context, p *program) error {
	unlock, err := rundir.Lock(s.dir)
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	defer unlock()
	if s.start, err = newTrainings(s, c.Int("np")); err != nil {
		return err
	}
	ctx, spent := c.Context, errors.New("the budget is spent")
	if b := c.Duration("budget"); b > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, b, spent)
		defer cancel()
	}
	p.ranks.Store(true) // trainings write checkpoints before they end
	fmt.Fprintf(p.stderr, "sweep %s: %s\n", s.dir, plural.Of(len(s.Trials), "trial"))
	for _, line := range s.Removed {
		fmt.Fprintf(p.stderr, "%s\n", line)
	}
	if n := s.Retry(); n > 0 { // of an earlier process
		fmt.Fprintf(p.stderr, "failed trainings to repeat: %d\n", n)
	}
	if s.Options.Trials > len(s.Trials) {
		fmt.Fprintf(p.stderr, "the space has no more combinations for -trials %d\n", s.Options.Trials)
	}
	err = s.Run(ctx, c.Int("parallel"), s.start.train, func(t *sweep.Trial, x sweep.Outcome) error {
		fmt.Fprintf(p.stderr, "%s\n", s.line(t, x))
		return s.save()
	})
	if err != nil && ctx.Err() == nil {
		return err
	}
	if wrote := s.writeResults(); wrote != nil {
		return wrote
	}
	if asJSON(c) {
		if e := p.printJSON(map[string]any{"dir": s.dir, "finished": err == nil, "sweep": s.Sweep}); e != nil {
			return e
		}
	} else {
		s.print(p.stdout, c.Int("np"))
	}
	next := "to continue: " + called(os.Args[0]) + " sweep -resume " + quotedPath(s.dir)
	for _, flag := range []string{"parallel", "np"} {
		if n := c.Int(flag); n > 1 {
			next += fmt.Sprintf(" -%s %d", flag, n)
		}
	}
	switch {
	case errors.Is(err, spent):
		fmt.Fprintf(p.stderr, "wdlrun: %v; %s\n", err, next)
		return nil
	case err != nil:
		return afterwards{fmt.Errorf("%w; %s", err, next)}
	case s.Best == 0:
		return afterwards{fmt.Errorf("sweep: no trial has finished: trial 1: %s", s.Trials[0].Error())}
	}
	return nil
}

// line formats an outcome.
func (s *sweeping) line(t *sweep.Trial, x sweep.Outcome) string {
	seed := ""
	if s.Options.Repeats > 1 {
		seed = fmt.Sprintf(" seed %d", x.Seed)
	}
	if x.Error != "" {
		return fmt.Sprintf("trial %d%s failed: %s", t.Number, seed, x.Error)
	}
	return fmt.Sprintf("trial %d%s, epochs: %s, validation %s: %.5f, %.1f s", t.Number, seed, sweep.EpochsOf([]sweep.Outcome{x}), s.Options.Metric, x.Valid[s.Options.Metric], x.Seconds)
}

// verdict describes the best trial, with its test metrics.
func (s *sweeping) verdict() []string {
	if s.Best == 0 {
		return []string{"no trial has finished"}
	}
	best, m := s.Trials[s.Best-1], s.Options.Metric
	peak := s.Peak(best)
	lines := []string{
		fmt.Sprintf("trial %d is the best by %s of the validation data: %s", best.Number, m, spread(sweep.Of(peak, m, false))),
		strings.Join(best.Pairs(), " "),
	}
	lines = append(lines, s.Removed...)
	if near := s.Near(); len(near) > 0 {
		lines = append(lines, fmt.Sprintf("trials that differ from it by no more than its seeds do: %d: %s", len(near), some(near)))
	}
	var parts []string
	for _, name := range slices.Compact([]string{m, "auc", "logloss", "rmse"}) {
		if values := sweep.Of(peak, name, true); len(values) > 0 && !slices.ContainsFunc(parts, func(p string) bool { return strings.HasPrefix(p, name+" ") }) {
			parts = append(parts, name+" "+spread(values))
		}
	}
	tried := 0
	for _, t := range s.Trials {
		if s.Peak(t) != nil {
			tried++
		}
	}
	if len(parts) == 0 {
		return append(lines, fmt.Sprintf("it was chosen among %d by its validation metric, which is therefore optimistic; there is no test data to correct it: name some in data.test", tried))
	}
	return append(lines, "test data: "+strings.Join(parts, ", "),
		fmt.Sprintf("it was chosen among %d by its validation metric, which is therefore optimistic: report the test metrics", tried))
}

// some formats the first few of some numbers.
func some(numbers []int) string {
	const few = 5
	text := strings.Trim(fmt.Sprint(numbers[:min(few, len(numbers))]), "[]")
	if len(numbers) > few {
		text += " …"
	}
	return text
}

// spread formats mean and deviation over seeds.
func spread(values []float64) string {
	mean, deviation := sweep.Spread(values)
	if math.IsNaN(deviation) {
		return fmt.Sprintf("%.5f (one seed)", mean)
	}
	return fmt.Sprintf("%.5f ± %.5f (%d seeds)", mean, deviation, len(values))
}

// writeResults writes the report and the best configuration.
func (s *sweeping) writeResults() error {
	if err := s.save(); err != nil {
		return err
	}
	_, err := writeWhole(filepath.Join(s.dir, sweepReport), func(w io.Writer) error {
		return report.WriteSweep(w, filepath.Base(s.dir), s.Sweep, s.space, s.verdict(), time.Now())
	})
	if err != nil || s.Best == 0 {
		return err
	}
	best := s.Trials[s.Best-1]
	c, err := s.config(best)
	if peak := s.Peak(best)[0]; err == nil && s.Options.Method == sweep.ASHA {
		err = config.Set(c, "train.epochs", fmt.Sprint(peak.Epochs))
	}
	if err != nil {
		return err
	}
	var head strings.Builder
	for _, line := range s.verdict() {
		fmt.Fprintf(&head, "# %s\n", clean(line, 1<<10))
	}
	return rundir.WriteFile(s.dir, sweepBest, append([]byte(head.String()), c.YAML()...))
}

// maxShown is the maximum number of trials in the text table.
const maxShown = 20

func (s *sweeping) print(w io.Writer, np int) {
	head := []string{"trial", "state", "epochs", s.Options.Metric, "deviation", "seconds"}
	for _, p := range s.space {
		head = append(head, clean(p.Key, 48))
	}
	rows := [][]string{head}
	all := s.Ranking()
	for _, t := range all[:min(len(all), maxShown)] {
		row := []string{fmt.Sprint(t.Number), report.SweepState(s.Sweep, t), "-", "-", "-", "-"}
		if peak := s.Peak(t); peak != nil {
			mean, deviation := sweep.Spread(sweep.Of(peak, s.Options.Metric, false))
			row[2], row[3] = sweep.EpochsOf(peak), fmt.Sprintf("%.5f", mean)
			if !math.IsNaN(deviation) {
				row[4] = fmt.Sprintf("%.5f", deviation)
			}
		}
		if len(t.Outcomes) > 0 {
			seconds := 0.0
			for _, x := range t.Outcomes {
				seconds += x.Seconds
			}
			row[5] = fmt.Sprintf("%.1f", seconds)
		}
		for _, p := range s.space {
			row = append(row, cmp.Or(clean(t.Value(p.Key), widestSetting), "-"))
		}
		rows = append(rows, row)
	}
	if s.Options.Repeats < 2 {
		for i, row := range rows {
			rows[i] = slices.Delete(row, 4, 5)
		}
	}
	fmt.Fprint(w, aligned(rows))
	if n := len(all) - maxShown; n > 0 {
		fmt.Fprintf(w, "%d more trials: see %s\n", n, filepath.Join(s.dir, sweepReport))
	}
	fmt.Fprintln(w)
	for _, line := range s.verdict() {
		fmt.Fprintln(w, line)
	}
	fmt.Fprintf(w, "\n%s\n  %-12s    trials, the effect of each key\n  %-12s    every outcome\n  trial-*         run directories: wdlrun runs %s\n", s.dir, sweepReport, sweepState, quotedPath(s.dir))
	if s.Best > 0 {
		ranks := ""
		if np > 1 {
			ranks = fmt.Sprintf(" -np %d", np)
		}
		fmt.Fprintf(w, "  %-12s    the configuration of the best trial\nnext  %s%s train -config %s\n", sweepBest, called(os.Args[0]), ranks, quotedPath(filepath.Join(s.dir, sweepBest)))
	}
}
