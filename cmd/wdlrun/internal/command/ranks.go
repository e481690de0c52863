package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/internal/control"
	"github.com/wdlrun/wdlrun/internal/machine/cpus"
	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/launcher"
	"github.com/wdlrun/wdlrun/member"
	"github.com/wdlrun/wdlrun/rank"
)

// OnRank is called on every rank to run a command. The value it returns on rank 0 is the
// result of the command.
type OnRank func(ctx context.Context, c *cli.Context, m *member.Member, warn func(string)) (any, error)

// OnRanks runs a command on all ranks. In a rank it does the work; otherwise it checks
// the flags and starts the ranks.
func (p *Program) OnRanks(c *cli.Context, check func(*cli.Context) error, work OnRank, print Printer) error {
	world, found, err := rank.FromEnv(p.Getenv)
	if err != nil {
		return err
	}
	if found && !c.IsSet("np") {
		return p.beRank(c, world, work, print)
	}
	if _, err := (member.Options{}).Completed(p.rankEnv(c)); err != nil {
		return err
	}
	root := c.Lineage()[len(c.Lineage())-2] // the last is an empty parent
	p.Progress.Begin(c.Command.Name, 0, "") // check may verify a checkpoint
	if err := errors.Join(Enter(root), check(c)); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("the path of the program is unknown: %w", err)
	}
	return p.Launch(root, RanksCommand(self, root), LaunchedAs(c, print))
}

// RanksCommand returns the command of the ranks of a command.
func RanksCommand(self string, root *cli.Context) []string {
	return append([]string{self, fmt.Sprintf("-json=%t", root.Bool("json"))}, root.Args().Slice()...)
}

// LaunchedAs describes a command of wdlrun that the launcher starts.
func LaunchedAs(c *cli.Context, print Printer) launched {
	return launched{
		print: print, resumes: Defined(c.Command.Flags, "into"), replicas: c.Int("replicas"), needs: needed(c), chaos: c.String("chaos") != "",
		perHost:  c.Command.Name == "doctor" || c.Command.Name == "gather",
		verbatim: c.String("log-format") == JSONLog || c.Command.Name == "bench" || c.Command.Name == "predict" && c.String("out") == StdoutName, // only rank 0 writes: lines as they are measured, or predictions
	}
}

// beRank runs one rank of a command.
func (p *Program) beRank(c *cli.Context, world rank.World, work OnRank, print Printer) error {
	if err := ofLauncher(c, world); err != nil {
		return err
	}
	p.Progress.End()
	p.foreign = !world.Launched
	opts := control.Options{Version: Version, Timeout: c.Duration("timeout")}
	hosts := world.Rank == 0 && !world.Launched
	if hosts {
		opts.Host = launcher.NewProgress(p.Stderr)
	}
	if p.foreign {
		if world.LocalRank == 0 { // each rank may be bound to CPUs of its own
			SayRoom(cpus.Room{Quota: cpus.RoomHere().Quota}, world.LocalSize, p.Stderr)
		}
		opts.Word = func(line string) { go printObservation(line, p.Stderr) }
	}
	warn := func(line string) { fmt.Fprintf(p.Stderr, "wdlrun: %s\n", line) }
	join := member.Options{Control: opts, Encrypt: c.Bool("encrypt"), Warn: warn}
	if c.IsSet("transport") { // the rank was started by mpirun, srun or torchrun
		join.Transport = c.String("transport")
	}
	if c.IsSet("streams") {
		join.Streams = c.Int("streams")
	}
	join.Control.Ports = c.String("ports")
	defer followLauncher(world, p.Getenv, p.Stderr)()
	m, err := member.Join(c.Context, p.Getenv, join)
	if err != nil {
		return err
	}
	defer m.Close()
	result, err := work(c.Context, c, m, warn)
	if err != nil {
		return p.failed(m, m.Fail(err))
	}
	b, err := json.Marshal(result)
	if err != nil {
		return err
	}
	if err := m.Done(b); err != nil || world.Launched {
		return err
	}
	if !hosts {
		return likeRank0(result)
	}
	return print(p.Stdout, world.Size, AsJSON(c), b)
}

// likeRank0 makes the other ranks exit with the code of rank 0. A foreign launcher may
// check each rank by itself, and restart one that has not ended with 0.
func likeRank0(result any) error {
	r, trains := result.(report.Result)
	if !trains {
		return nil
	}
	var code Exit
	if err := Unfinished("wdlrun", r); err == nil || errors.As(err, &code) {
		return err
	}
	return Exit(1)
}

// ofLauncher rejects launch flags that only wdlrun's launcher implements if mpirun, srun or
// torchrun has started the rank.
func ofLauncher(c *cli.Context, world rank.World) error {
	if world.Launched {
		return nil
	}
	for _, name := range []string{"restarts", "restart-wait", "min-np", "H", "hostfile", "oversubscribe", "map", "bind", "mem", "plan", "output"} {
		if c.IsSet(name) {
			return fmt.Errorf("-%s has no effect on ranks that another launcher has started: use the option of that launcher, or start them with wdlrun -np N", name)
		}
	}
	return nil
}

// failed prints the verdict once per job: the launcher does if there is one, otherwise
// rank 0. If rank 0 is gone together with the coordinator, each remaining rank prints it.
func (p *Program) failed(m *member.Member, err error) error {
	var v *rank.Verdict
	switch {
	case !errors.As(err, &v):
		return err
	case m.World.Launched, m.World.Rank != 0 && v.Kind != rank.Gone:
		return Exit(1)
	}
	printVerdict(v, p.Stderr)
	if m.World.Rank == 0 { // the launcher keeps more if there is one
		keepFailure(launcher.Outcome{Verdict: v, Status: rank.Status{RunDir: p.RunDir}}, p.Stderr)
	}
	printHint(v, "", p.Stderr)
	if m.World.Rank <= 1 { // if rank 0 is gone, only one remaining rank prints it
		p.printNext(v, p.Starts(m.World.Size), p.RunDir)
	}
	return Exit(1)
}

// Work returns a function of a command that works on all ranks for this program.
func (p *Program) Work(f func(context.Context, *Program, *cli.Context, *member.Member, func(string)) (any, error)) OnRank {
	return func(ctx context.Context, c *cli.Context, m *member.Member, warn func(string)) (any, error) {
		return f(ctx, p, c, m, warn)
	}
}
