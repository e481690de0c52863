package sweep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/runs"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/runs/sweep"
	"github.com/wdlrun/wdlrun/internal/text/nearest"
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

// sweeping is a sweep with the inputs of its trainings.
type sweeping struct {
	*sweep.Sweep
	dir   string
	space sweep.Space
	base  *config.Config
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
		return resumeSweep(command.PathOf(c, "resume"))
	}
	if !c.IsSet("space") {
		return nil, errors.New("sweep: which settings? give -space FILE, or -resume DIR; see: wdlrun sweep --help")
	}
	s = &sweeping{base: config.Default()}
	if c.IsSet("config") {
		if s.base, err = command.Config(command.PathOf(c, "config"), c.StringSlice("set")); err != nil {
			return nil, err
		}
	}
	removed, err := config.SetAll(s.base, c.StringSlice("set"))
	if err != nil {
		return nil, err
	}
	text, err := regular.ReadFile(command.PathOf(c, "space"), sweep.MaxBytes)
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
	s.Sweep = sweep.New(command.Version, o, settings)
	for _, line := range removed {
		s.Removed = append(s.Removed, "in all trials, "+line)
	}
	warn := func(line string) { fmt.Fprintf(c.App.ErrWriter, "wdlrun: %s\n", line) }
	if err := s.check(c.Context, c.Int("np"), warn); err != nil {
		return nil, err
	}
	if s.dir, err = rundir.New(command.PathOf(c, "out"), "", time.Now()); err != nil {
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

// maxShown is the maximum number of trials in the text table.
const maxShown = 20
