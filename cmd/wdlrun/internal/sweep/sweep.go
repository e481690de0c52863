// Package sweep has the command sweep, which starts many trainings.
package sweep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/runs/sweep"
	"github.com/wdlrun/wdlrun/internal/text/plural"
)

func Command(p *command.Program) *cli.Command {
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
			command.JSONFlag(),
		},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return fmt.Errorf("sweep takes no arguments, but got %q", c.Args().First())
			}
			if err := command.Positive(c, "trials", "repeats", "min-epochs", "parallel", "np", "budget"); err != nil {
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

// run runs the remaining trainings, and prints the result.
func (s *sweeping) run(c *cli.Context, p *command.Program) error {
	unlock, err := rundir.Lock(s.dir)
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	defer unlock()
	start, err := newTrainings(s, c.Int("np"))
	if err != nil {
		return err
	}
	ctx, spent := c.Context, errors.New("the budget is spent")
	if b := c.Duration("budget"); b > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, b, spent)
		defer cancel()
	}
	p.OwnsRanks.Store(true) // trainings write checkpoints before they end
	fmt.Fprintf(p.Stderr, "sweep %s: %s\n", s.dir, plural.Of(len(s.Trials), "trial"))
	for _, line := range s.Removed {
		fmt.Fprintf(p.Stderr, "%s\n", line)
	}
	if n := s.Retry(); n > 0 { // of an earlier process
		fmt.Fprintf(p.Stderr, "failed trainings to repeat: %d\n", n)
	}
	if s.Options.Trials > len(s.Trials) {
		fmt.Fprintf(p.Stderr, "the space has no more combinations for -trials %d\n", s.Options.Trials)
	}
	err = s.Run(ctx, c.Int("parallel"), start.train, func(t *sweep.Trial, x sweep.Outcome) error {
		fmt.Fprintf(p.Stderr, "%s\n", s.line(t, x))
		return s.save()
	})
	if err != nil && ctx.Err() == nil {
		return err
	}
	if wrote := s.writeResults(); wrote != nil {
		return wrote
	}
	if command.AsJSON(c) {
		if e := p.PrintJSON(map[string]any{"dir": s.dir, "finished": err == nil, "sweep": s.Sweep}); e != nil {
			return e
		}
	} else {
		s.print(p.Stdout, c.Int("np"))
	}
	next := "to continue: " + command.Called(os.Args[0]) + " sweep -resume " + command.QuotedPath(s.dir)
	for _, flag := range []string{"parallel", "np"} {
		if n := c.Int(flag); n > 1 {
			next += fmt.Sprintf(" -%s %d", flag, n)
		}
	}
	switch {
	case errors.Is(err, spent):
		fmt.Fprintf(p.Stderr, "wdlrun: %v; %s\n", err, next)
		return nil
	case err != nil:
		return command.Afterwards(fmt.Errorf("%w; %s", err, next))
	case s.Best == 0:
		return command.Afterwards(fmt.Errorf("sweep: no trial has finished: trial 1: %s", s.Trials[0].Error()))
	}
	return nil
}
