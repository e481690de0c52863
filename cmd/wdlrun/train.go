package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/rank/member"
	"github.com/wdlrun/wdlrun/trace"
	"github.com/wdlrun/wdlrun/wdl"
	"github.com/wdlrun/wdlrun/wdl/config"
)

func trainCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "train",
		Usage:     "train a model, evaluate it, and leave it in a run directory",
		UsageText: "wdlrun [launch flags] train [flags]",
		Description: `Without -config it trains on UCI Adult, which is built in. The run directory
holds the configuration in effect, the metrics of every epoch, the timeline of
every rank, and checkpoints from which -resume goes on, on any number of ranks.

Ctrl-C, SIGTERM: writes a checkpoint after the current step and stops.
SIGUSR1 to the launcher: writes a checkpoint and goes on.

Examples:
   wdlrun -np 2 train
   wdlrun -np 4 train -config ctr.yaml -set train.epochs=3 -set train.seed=7
   wdlrun -np 8 train -resume runs/20261121-101500
   mpirun -np 4 wdlrun train -config ctr.yaml`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "config", Usage: "YAML `FILE` of the job; see: wdlrun help config"},
			&cli.StringSliceFlag{Name: "set", Usage: "`KEY=VALUE` replaces a setting, such as train.epochs=3; may be repeated"},
			&cli.StringFlag{Name: "resume", Usage: "continue from `DIR`, a run directory or one checkpoint"},
			&cli.StringFlag{Name: "out", Value: "runs", Usage: "parent `DIR` of the new run directory"},
			jsonFlag(),
		},
		Action: func(c *cli.Context) error { return p.everywhere(c, p.checkTrain, p.trainRank, either(printTrained)) },
	}
}

// trainOptions reads the flags; Config is nil unless -config or, for a new
// training, -set asks for one.
func trainOptions(c *cli.Context) (wdl.Options, error) {
	opt := wdl.Options{Out: c.String("out"), Resume: c.String("resume"), Set: c.StringSlice("set")}
	if c.Args().Present() {
		return opt, fmt.Errorf("train takes no argument, and %q is one; a configuration is given as -config FILE", c.Args().First())
	}
	if path := c.String("config"); path != "" {
		cfg, err := config.Load(path)
		if err != nil {
			return opt, err
		}
		opt.Config = cfg
	}
	return opt, nil
}

// checkTrain finds what can be found wrong before any rank is started.
func (p *program) checkTrain(c *cli.Context) error {
	opt, err := trainOptions(c)
	if err != nil {
		return err
	}
	return wdl.Check(opt)
}

// trainRank is one rank of the job.
func (p *program) trainRank(ctx context.Context, c *cli.Context, m *member.Member, warn func(string)) (any, error) {
	opt, err := trainOptions(c)
	if err != nil {
		return nil, err
	}
	opt.Warn = warn
	job := wdl.NewJob(m.Comm, trace.New(traceSpans), opt)
	m.Session.Watch(job.Status)
	defer p.wishes(m.Session, job)()
	return job.Run(ctx)
}

// traceSpans is how many spans of a rank's timeline are kept: the last ten
// thousand steps or so, 2.5 MB.
const traceSpans = 1 << 16

// printTrained shows a wdl.Result to a person.
func printTrained(w io.Writer, np int, result []byte) error {
	var r wdl.Result
	if err := json.Unmarshal(result, &r); err != nil {
		return err
	}
	if r.Stopped {
		fmt.Fprintf(w, "stopped after step %d, as asked\n", r.Steps)
	} else {
		fmt.Fprintf(w, "trained %d samples in %d steps, %.1f s, %.0f samples/s on %d %s (%.1f %% waiting for input)\n",
			r.Samples, r.Steps, r.Seconds, r.SamplesPerSecond, r.WorldSize, plural(r.WorldSize, "rank"), 100*r.InputWaitShare)
		fmt.Fprintf(w, "train  log-loss %.4f\n", r.TrainLogLoss)
	}
	if r.TestAUC != nil {
		fmt.Fprintf(w, "test   AUC %.4f   log-loss %.4f   accuracy %.4f\n", *r.TestAUC, *r.TestLogLoss, *r.TestAccuracy)
	}
	fmt.Fprintf(w, "\nrun directory  %s\n", r.RunDir)
	for _, f := range wdl.RunFiles() {
		fmt.Fprintf(w, "  %-15s %s\n", f.Name, f.What)
	}
	next := fmt.Sprintf("wdlrun -np %d eval -resume %s", np, r.RunDir)
	if r.Stopped {
		next = fmt.Sprintf("wdlrun -np %d train -resume %s", np, r.RunDir)
	}
	fmt.Fprintf(w, "next           %s\n", next)
	return nil
}

func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}
