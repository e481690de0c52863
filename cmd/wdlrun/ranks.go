package main

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

// onRank is called on every rank to run a command. The value it returns on rank 0 is the
// result of the command.
type onRank func(ctx context.Context, c *cli.Context, m *member.Member, warn func(string)) (any, error)

// onRanks runs a command on all ranks. In a rank it does the work; otherwise it checks
// the flags and starts the ranks.
func (p *program) onRanks(c *cli.Context, check func(*cli.Context) error, work onRank, print printer) error {
	world, found, err := rank.FromEnv(p.getenv)
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
	p.progress.begin(c.Command.Name, 0, "") // check may verify a checkpoint
	if err := errors.Join(enter(root), check(c)); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("the path of the program is unknown: %w", err)
	}
	return p.launch(root, ranksCommand(self, root), launchedAs(c, print))
}

// ranksCommand returns the command of the ranks of a command.
func ranksCommand(self string, root *cli.Context) []string {
	return append([]string{self, fmt.Sprintf("-json=%t", root.Bool("json"))}, root.Args().Slice()...)
}

// launchedAs describes a command of wdlrun that the launcher starts.
func launchedAs(c *cli.Context, print printer) launched {
	return launched{
		print: print, resumes: defined(c.Command.Flags, "into"), replicas: c.Int("replicas"), needs: needed(c), chaos: c.String("chaos") != "",
		perHost:  c.Command.Name == "doctor" || c.Command.Name == "gather",
		verbatim: c.String("log-format") == jsonLog || c.Command.Name == "bench" || c.Command.Name == "predict" && c.String("out") == stdoutName, // only rank 0 writes: lines as they are measured, or predictions
	}
}

// beRank runs one rank of a command.
func (p *program) beRank(c *cli.Context, world rank.World, work onRank, print printer) error {
	if err := ofLauncher(c, world); err != nil {
		return err
	}
	p.progress.end()
	p.foreign = !world.Launched
	opts := control.Options{Version: version, Timeout: c.Duration("timeout")}
	hosts := world.Rank == 0 && !world.Launched
	if hosts {
		opts.Host = launcher.NewProgress(p.stderr)
	}
	if p.foreign {
		if world.LocalRank == 0 { // each rank may be bound to CPUs of its own
			sayRoom(cpus.Room{Quota: cpus.RoomHere().Quota}, world.LocalSize, p.stderr)
		}
		opts.Word = func(line string) { go printObservation(line, p.stderr) }
	}
	warn := func(line string) { fmt.Fprintf(p.stderr, "wdlrun: %s\n", line) }
	join := member.Options{Control: opts, Encrypt: c.Bool("encrypt"), Warn: warn}
	if c.IsSet("transport") { // the rank was started by mpirun, srun or torchrun
		join.Transport = c.String("transport")
	}
	if c.IsSet("streams") {
		join.Streams = c.Int("streams")
	}
	join.Control.Ports = c.String("ports")
	defer followLauncher(world, p.getenv, p.stderr)()
	m, err := member.Join(c.Context, p.getenv, join)
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
	return print(p.stdout, world.Size, asJSON(c), b)
}

// likeRank0 makes the other ranks exit with the code of rank 0. A foreign launcher may
// check each rank by itself, and restart one that has not ended with 0.
func likeRank0(result any) error {
	r, trains := result.(report.Result)
	if !trains {
		return nil
	}
	var code exit
	if err := unfinished("wdlrun", r); err == nil || errors.As(err, &code) {
		return err
	}
	return exit(1)
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
func (p *program) failed(m *member.Member, err error) error {
	var v *rank.Verdict
	switch {
	case !errors.As(err, &v):
		return err
	case m.World.Launched, m.World.Rank != 0 && v.Kind != rank.Gone:
		return exit(1)
	}
	printVerdict(v, p.stderr)
	if m.World.Rank == 0 { // the launcher keeps more if there is one
		keepFailure(launcher.Outcome{Verdict: v, Status: rank.Status{RunDir: p.runDir}}, p.stderr)
	}
	printHint(v, "", p.stderr)
	if m.World.Rank <= 1 { // if rank 0 is gone, only one remaining rank prints it
		p.printNext(v, p.starts(m.World.Size), p.runDir)
	}
	return exit(1)
}
