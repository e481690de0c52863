// Package train has the commands train and replay, and the walk of train -by.
package train

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/urfave/cli/v2"
	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/gpu"
	"github.com/wdlrun/wdlrun/internal/machine/cpus"
	"github.com/wdlrun/wdlrun/internal/model/plan"
	"github.com/wdlrun/wdlrun/internal/train"
	"github.com/wdlrun/wdlrun/member"
	"github.com/wdlrun/wdlrun/rank"
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
			&cli.StringFlag{Name: "from", Usage: "begin a new training with the model in run directory, checkpoint or exported version `DIR`, or in arrays, or latest, the run that finished last in -out; the configuration may have other data and features"},
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
