// Package train has the commands train and replay, and the walk of train -by.
package train

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/gpu"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/machine/cpus"
	"github.com/wdlrun/wdlrun/internal/model/plan"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/train"
	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/member"
	"github.com/wdlrun/wdlrun/rank"
	"github.com/wdlrun/wdlrun/trace"
)

func Command(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "train",
		Usage:     "train a model, evaluate it and save it in a run directory",
		UsageText: "wdlrun [launch flags] train [flags]",
		Description: `Trains the model that the configuration describes, evaluates it, and saves it in a new run
directory with the configuration, metrics, checkpoints and a timeline of each rank. Without
-config it trains on UCI Adult, which is built in. To write a configuration for your own files:
wdlrun init -data FILE. -resume continues a training, on any number of ranks. -from begins a
new training with the rows and layers of another: on the data of the next day, or with other
features. It prints what it took.

Ctrl-C, SIGTERM             write a checkpoint after the current step and stop
a second Ctrl-C             stop at once
SIGUSR1 to the launcher     write a checkpoint and continue
SIGUSR2 to the launcher     write the timelines and continue; see: wdlrun trace --help

Examples:
   wdlrun -np 2 train
   wdlrun -np 4 train -config ctr.yaml -set train.epochs=3 -set train.seed=7
   wdlrun -np 8 train -resume runs/20261121-101500
   wdlrun -np 64 -H a:32,b:32 train -config ctr.yaml -plan
   wdlrun -np 512 train -config ctr.yaml -plan -cluster hosts=64,memory_gib=16,keys=6.25e9
   wdlrun -np 8 -restarts 3 -min-np 6 train     restart after failures
   wdlrun -np 8 train -replicas 2               continue from memory if a rank is lost
   wdlrun -np 8 train -backup 1                 do not wait for the slowest microbatch
   wdlrun -np 4 train -config ctr.yaml -by dt       train on each new folder dt=VALUE
   mpirun -np 4 wdlrun train -config ctr.yaml`,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "config", Usage: "read the configuration from `FILE` (YAML); see: wdlrun help config"},
			&cli.StringSliceFlag{Name: "set", Usage: "override one key of the configuration: `KEY=VALUE`, such as train.epochs=3; may be repeated"},
			&cli.IntFlag{Name: "threads", Usage: "use `NUMBER` threads in each rank: sets train.threads", DefaultText: "the configuration's"},
			command.MaxBadFlag(),
			&cli.StringFlag{Name: "resume", Usage: "continue the training in run directory `DIR`; a checkpoint DIR starts a new run directory; auto takes the newest run in -out, if it has a checkpoint; latest takes the one that finished last"},
			&cli.StringFlag{Name: "from", Usage: "begin a new training with the model in run directory or checkpoint `DIR`, or latest, the run that finished last in -out; the configuration may have other data and features"},
			command.ReplicasFlag(),
			&cli.StringFlag{Name: "by", Usage: "train partition after partition by `COLUMN`, such as dt (folders dt=VALUE) or dt,hour, or FIELD=WIDTH of a time, such as time=1d; continues with the latest model in -out, and only on what is new"},
			&cli.StringFlag{Name: "again", Usage: "with -by: first train on these partitions again, `VALUE,…`"},
			&cli.StringFlag{Name: "day", Hidden: true, Usage: "the partition of this training, `JSON`, which train -by gives"},
			&cli.StringFlag{Name: "into", Hidden: true, Usage: "run `DIR` of an earlier generation of this job, which the launcher gives after a failure"},
			&cli.DurationFlag{Name: "disk-patience", Value: time.Minute, Usage: "a disk that several hosts share may show what another host has written up to `DURATION` late"},
			&cli.StringFlag{Name: "survey", Hidden: true, Usage: "`DIR` of surveys that trainings of a sweep share"},
			&cli.StringFlag{Name: "out", Value: command.RunsFolder, Usage: "create the new run directory in `DIR`"},
			&cli.StringFlag{Name: "note", Usage: "store `TEXT` with the run; wdlrun runs shows it"},
			&cli.StringFlag{Name: "tag", Usage: "store `TAGS`, separated by commas, with the run; wdlrun runs -where tags=TAG selects by them"},
			&cli.BoolFlag{Name: "plan", Usage: "estimate the rows, memory and network traffic of every table and rank; do not train"},
			&cli.StringFlag{Name: "cluster", Usage: "with -plan: also compute memory, traffic, checkpoints and cost on hosts that need not exist, `NAME=NUMBER,…`: hosts, memory_gib, network_gbit, disk_gb, step_ms, price, keys"},
			command.JSONFlag(),
		}, slices.Concat(gpu.Flags(), liveFlags(), logFlags(), command.ToleranceFlags())...),
		Action: func(c *cli.Context) error {
			if err := logRecords(p, c); err != nil {
				return err
			}
			if c.IsSet("by") && !c.IsSet("day") {
				return walkForward(p, c)
			}
			if c.IsSet("again") && !c.IsSet("day") {
				return errors.New("-again names partitions that train -by trains on again: give -by too")
			}
			if c.Bool("plan") {
				return planTrain(p, c)
			}
			if c.IsSet("cluster") {
				return errors.New("-cluster describes hosts for -plan: give -plan too")
			}
			return p.OnRanks(c, p.Action(checkTrain), p.Work(trainRank), trained(p))
		},
	}
}

// planTrain plans, in one process, a training on the ranks of the launch flags or the
// environment.
func planTrain(p *command.Program, c *cli.Context) error {
	opt, ranks, oneHost, err := launchOptions(p, c)
	if err != nil {
		return err
	}
	if err := checkOptions(c, opt, ranks, train.Check); err != nil {
		return err
	}
	if world, found, _ := rank.FromEnv(p.Getenv); found && world.Rank != 0 {
		return nil
	}
	command.SayRoom(cpus.RoomHere(), opt.Here, p.Stderr)
	opt.Warn = func(line string) { fmt.Fprintf(p.Stderr, "wdlrun: %s\n", line) }
	opt.Say = func(line string) { fmt.Fprintln(p.Stderr, line) }
	shared := oneHost && c.String("transport") != member.TCP
	var cluster *plan.Cluster
	if c.IsSet("cluster") {
		if cluster, err = plan.ParseCluster(c.String("cluster")); err != nil {
			return err
		}
		shared = cluster.Hosts == 1
	}
	planned, err := train.Estimate(c.Context, opt, ranks, shared)
	if err != nil {
		return err
	}
	var scale *plan.Scale
	if cluster != nil {
		if scale, err = planned.On(*cluster); err != nil {
			return err
		}
	}
	if command.AsJSON(c) {
		return p.PrintJSON(struct {
			*plan.Plan
			Scale *plan.Scale `json:"scale,omitempty"`
		}{planned, scale})
	}
	fmt.Fprint(p.Stdout, planned)
	if scale != nil {
		fmt.Fprintf(p.Stdout, "\n%v", scale)
	}
	return nil
}

// trainRank runs one rank of the job.
func trainRank(ctx context.Context, p *command.Program, c *cli.Context, m *member.Member, warn func(string)) (any, error) {
	opt, err := trainOptions(c)
	if err != nil {
		return nil, err
	}
	if err := command.Tolerant(c, &opt); err != nil {
		return nil, err
	}
	if m.World.Rank == 0 { // the other ranks, on other hosts perhaps, get it from there
		if opt.Config, err = loadConfig(c); err != nil {
			return nil, err
		}
	}
	if opt.Replicas = c.Int("replicas"); opt.Replicas > 1 && !m.World.Launched {
		return nil, errors.New("-replicas: the ranks must be started by wdlrun -np, which starts those that are lost again")
	}
	opt.Read = m.World.Launched             // the launcher has read it in checkTrain
	opt.Began = func() { m.Session.Beat() } // the launcher needs the directory if the job restarts
	if err := gpu.Use(c, &opt, gpu.Choice{Member: m}); err != nil {
		return nil, err
	}
	opt.Kill = func() { syscall.Kill(os.Getpid(), syscall.SIGKILL) }
	opt.Peers = command.Peers(m, p.Getenv)
	opt.DiskPatience = c.Duration("disk-patience")
	if m.World.Launched {
		opt.Job = m.World.Job
	}
	if opt.Job != "" && m.World.Rank == 0 && m.World.Generation > 0 && opt.Again == "" {
		opt.Again = rundir.Of(opt.Out, opt.Job) // rank 0 died before the launcher received it
	}
	opt.Warn, opt.Say = warn, func(line string) { fmt.Fprintln(p.Stderr, line) }
	if line := nothingToResume(c.String("resume"), m.World, opt); line != "" && m.World.Rank == 0 {
		opt.Say(line)
	}
	log, err := logged(p, c, m, &opt)
	if err != nil {
		return nil, err
	}
	defer log.end(&opt)
	show, err := showLive(c, m, &opt)
	if err != nil {
		return nil, err
	}
	rec, err := recorder(c)
	if err != nil {
		return nil, err
	}
	var memory *train.Memory // of the job in the previous generation
	for {
		opt.Generation = m.World.Generation
		job := train.NewJob(m.Comm, rec, opt)
		job.UseMemory(memory)
		memory = nil // the job frees it when it can
		show.watch(job.Status)
		log.watch(job.Status)
		result, err := runJob(ctx, p, m, rec, job)
		if err = unusable(c, job.Status().RunDir, err); err == nil || opt.Replicas < 2 {
			show.end(result, err)
			return result, err
		}
		memory = job.TakeMemory(err)
		if err := m.Rejoin(ctx, err); err != nil {
			show.end(result, err)
			return nil, err
		}
	}
}

// unusable adds to an error about a record the commands that list and skip all such
// records. The configuration in the run directory includes -set.
func unusable(c *cli.Context, runDir string, err error) error {
	var f *record.Fault
	if !errors.As(err, &f) {
		return err
	}
	check := "wdlrun data check " + command.QuotedPath(f.File)
	switch {
	case c.IsSet("config") && !c.IsSet("set"):
		check = "wdlrun data check -config " + command.QuotedPath(c.String("config"))
	case runDir != "":
		check = "wdlrun data check -config " + command.QuotedPath(filepath.Join(runDir, rundir.FileConfig))
	}
	err = fmt.Errorf("%w; to see all such records: %s; to leave up to N of them out: train -max-bad N", err, check)
	return &rank.PermanentError{Err: err} // a restart would read the record again
}

// runJob runs the job in one generation of the group.
func runJob(ctx context.Context, p *command.Program, m *member.Member, rec *trace.Recorder, job *train.Job) (report.Result, error) {
	m.Session.Watch(job.Status)
	defer requests(p, m.Session, job)()
	result, err := job.Run(ctx)
	p.RunDir = job.Status().RunDir
	if err != nil && !plain(err) {
		var last bytes.Buffer
		if rec.WriteLast(&last, failureSpans) == nil {
			m.Session.Report(command.AboutTrace, last.Bytes())
		}
		if lost := job.LastSteps(); lost != nil {
			fmt.Fprintf(p.Stderr, "wdlrun: the timeline of rank %d is not written: %v\n", m.World.Rank, lost)
		}
	}
	return result, err
}

// plain reports whether an error concerns only its rank and is complete, such as a record
// that cannot be read. Errors of collective calls are not plain: there the state of every
// rank matters.
func plain(err error) bool {
	var lost *collective.LostError
	var mismatch *collective.MismatchError
	var abort *collective.AbortError
	var limit *collective.LimitError
	var share *collective.ShareError
	return !errors.As(err, &lost) && !errors.As(err, &mismatch) && !errors.As(err, &abort) && !errors.As(err, &limit) && !errors.As(err, &share)
}

// failureSpans is the number of trace spans per rank that are saved after a failure, about
// a hundred steps.
const failureSpans = 1000
