package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"

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
   wdlrun -np 8 -restarts 3 -min-np 6 train     go on by itself after failures
   mpirun -np 4 wdlrun train -config ctr.yaml`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "config", Usage: "YAML `FILE` of the job; see: wdlrun help config"},
			&cli.StringSliceFlag{Name: "set", Usage: "`KEY=VALUE` replaces a setting, such as train.epochs=3; may be repeated"},
			&cli.IntFlag{Name: "threads", Usage: "`NUMBER` of threads of each rank: sets train.threads"},
			&cli.StringFlag{Name: "resume", Usage: "continue from `DIR`, a run directory or one checkpoint"},
			&cli.StringFlag{Name: "again", Hidden: true, Usage: "run `DIR` of an earlier generation of this job, which the launcher gives after a failure"},
			&cli.StringFlag{Name: "out", Value: "runs", Usage: "parent `DIR` of the new run directory"},
			jsonFlag(),
		},
		Action: func(c *cli.Context) error { return p.everywhere(c, p.checkTrain, p.trainRank, printTrained) },
	}
}

// trainOptions reads the flags; Config is nil unless -config or, for a new
// training, -set asks for one.
func trainOptions(c *cli.Context) (wdl.Options, error) {
	opt := wdl.Options{Out: c.String("out"), Resume: c.String("resume"), Again: c.String("again"), Set: c.StringSlice("set")}
	if c.Args().Present() {
		return opt, fmt.Errorf("train takes no argument, and %q is one; a configuration is given as -config FILE", c.Args().First())
	}
	if c.IsSet("threads") {
		opt.Set = append(opt.Set, fmt.Sprintf("train.threads=%d", c.Int("threads")))
	}
	if path := c.String("config"); path != "" {
		if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
			return opt, fmt.Errorf("-config %s: every rank reads it, so it must be a regular file, not a pipe or a folder", path)
		}
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
	if err == nil {
		err = tolerant(c, &opt)
	}
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
	opt.Began = m.Session.Beat // the launcher needs the directory if the job must go on
	if err := tolerant(c, &opt); err != nil {
		return nil, err
	}
	opt.Failures = m.World.Generation
	opt.Kill = func() { syscall.Kill(os.Getpid(), syscall.SIGKILL) }
	opt.Warn, opt.Say = warn, func(line string) { fmt.Fprintln(p.stderr, line) }
	rec := trace.New(traceSpans)
	job := wdl.NewJob(m.Comm, rec, opt)
	m.Session.Watch(job.Status)
	defer p.wishes(m.Session, job)()
	result, err := job.Run(ctx)
	if err != nil {
		var last bytes.Buffer
		if rec.WriteLast(&last, failureSpans) == nil {
			m.Session.Report(aboutTrace, last.Bytes())
		}
	}
	return result, err
}

// failureSpans is how many spans of a rank are kept beside a verdict: those of the
// last hundred steps or so.
const failureSpans = 1000

// traceSpans is how many spans of a rank's timeline are kept: the last ten
// thousand steps or so, 2.5 MB.
const traceSpans = 1 << 16

// printTrained shows a wdl.Result to a person. A model that could not be saved
// is an error, whoever reads.
func printTrained(w io.Writer, np int, asJSON bool, result []byte) error {
	var r wdl.Result
	if err := json.Unmarshal(result, &r); err != nil {
		return err
	}
	if asJSON {
		fmt.Fprintf(w, "%s\n", result)
	} else {
		figures(w, r)
		rundir(w, np, r)
	}
	switch {
	case r.Checkpoint == "":
		return afterwards{errors.New("the trained model could not be saved (see above): free some space there or choose another place with -out, and train again")}
	case r.Stopped:
		return exit(stoppedCode)
	}
	return nil
}

// stoppedCode is the exit code of a training that was asked to stop by a signal
// to a rank: nobody is to take it for finished. It is that of SIGTERM.
const stoppedCode = 143

func figures(w io.Writer, r wdl.Result) {
	if r.Stopped {
		fmt.Fprintf(w, "stopped after step %d, as asked\n", r.Steps)
		return
	}
	if r.SamplesPerSecond > 0 {
		fmt.Fprintf(w, "trained %d samples in %d steps, %.1f s, %.0f samples/s on %d %s (%.1f %% waiting for input)\n",
			r.Samples, r.Steps, r.Seconds, r.SamplesPerSecond, r.WorldSize, plural(r.WorldSize, "rank"), 100*r.InputWaitShare)
	} else {
		fmt.Fprintf(w, "nothing was left to train after %d steps; to train on: -set train.epochs=N with more epochs\n", r.Steps)
	}
	fmt.Fprintf(w, "train  log-loss %.4f in the last epoch\n", r.TrainLogLoss)
	if r.ValidAUC != nil {
		epoch := ""
		if r.BestEpoch > 0 {
			epoch = fmt.Sprintf("   (epoch %d, the best)", r.BestEpoch)
		}
		fmt.Fprintf(w, "valid  AUC %.4f   log-loss %.4f%s\n", *r.ValidAUC, *r.ValidLogLoss, epoch)
	}
	if r.TestAUC != nil {
		fmt.Fprintf(w, "test   AUC %.4f   log-loss %.4f   accuracy %.4f\n", *r.TestAUC, *r.TestLogLoss, *r.TestAccuracy)
		unknown(w, r.TestUnknown)
	}
	tables(w, r)
}

// tables says in a line what all tables hold, and what policies have done.
func tables(w io.Writer, r wdl.Result) {
	var sum wdl.TableReport
	for _, t := range r.Tables {
		sum.Rows, sum.Bytes = sum.Rows+t.Rows, sum.Bytes+t.Bytes
		sum.Refused, sum.Evicted, sum.ToDisk = sum.Refused+t.Refused, sum.Evicted+t.Evicted, sum.ToDisk+t.ToDisk
	}
	fmt.Fprintf(w, "tables %d rows, %.1f MB; %.1f MB of keys, rows and gradients sent", sum.Rows, float64(sum.Bytes)*1e-6, float64(r.SparseBytesSent)*1e-6)
	for _, x := range []struct {
		n    int64
		what string
	}{{sum.Refused, "gradients of keys not admitted yet"}, {sum.Evicted, "rows given up"}, {sum.ToDisk, "rows moved to disk"}} {
		if x.n > 0 {
			fmt.Fprintf(w, "; %d %s", x.n, x.what)
		}
	}
	fmt.Fprintln(w)
}

// unknown says of which features values came that training had not seen.
func unknown(w io.Writer, counts map[string]int64) {
	if len(counts) == 0 {
		return
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, fmt.Sprintf("%s %d", name, counts[name]))
	}
	fmt.Fprintf(w, "values that the vocabulary does not hold: %s\n", strings.Join(all, ", "))
}

// rundir says what lies where, and what to do next.
func rundir(w io.Writer, np int, r wdl.Result) {
	fmt.Fprintf(w, "\nrun directory  %s\n", r.RunDir)
	for _, f := range wdl.RunFiles(r.Checkpoint != "") {
		fmt.Fprintf(w, "  %-15s %s\n", f.Name, f.What)
	}
	next := fmt.Sprintf("wdlrun -np %d eval -resume %s", np, r.RunDir)
	switch {
	case r.Checkpoint == "":
		return
	case r.Stopped:
		next = fmt.Sprintf("wdlrun -np %d train -resume %s", np, r.RunDir)
	case r.TestAUC == nil:
		next += " -data FILE"
	}
	fmt.Fprintf(w, "next           %s\n", next)
}

func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}
