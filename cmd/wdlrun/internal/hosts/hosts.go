// Package hosts has the commands about the hosts of a job: hosts, agent, doctor and manifest.
package hosts

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/hosts/agent"
	"github.com/wdlrun/wdlrun/internal/machine/usersock"
	"github.com/wdlrun/wdlrun/internal/runs"
	"github.com/wdlrun/wdlrun/internal/text/plural"
)

// hostsProgram is the command hosts and those below it.
type hostsProgram struct{ *command.Program }

func Command(p *command.Program) *cli.Command {
	h := hostsProgram{p}
	subs := []*cli.Command{
		{
			Name: "add", Usage: "add hosts to a running training", UsageText: "wdlrun hosts add [flags] RUN HOST[:RANKS]…",
			Description: `Adds RANKS ranks on HOST. The default is 1 for a host that is new to the job; for a host of the
job, RANKS is required. wdlrun first logs in to the host. If that fails, the training continues
undisturbed.

Examples:
   wdlrun hosts add runs/20261121-101500 c:8 d:8
   wdlrun hosts add runs/20261121-101500 localhost:2`,
			Flags: []cli.Flag{command.JSONFlag()}, Action: h.change,
		},
		{
			Name: "drop", Usage: "remove hosts from a running training", UsageText: "wdlrun hosts drop [flags] RUN HOST[:RANKS]…",
			Description: `Removes RANKS ranks from HOST, by default all. At least one rank must remain.

Examples:
   wdlrun hosts drop runs/20261121-101500 b
   wdlrun hosts drop runs/20261121-101500 localhost:1`,
			Flags: []cli.Flag{command.JSONFlag()}, Action: h.change,
		},
	}
	return &cli.Command{
		Name: "hosts", Usage: "add hosts to a running training, or remove them", UsageText: "wdlrun hosts add|drop [flags] RUN HOST[:RANKS]…",
		Description: `RUN is the run directory of a training that wdlrun has started on this machine, as your
user. The ranks write a checkpoint at the end of their step and end, and the training
continues from it on the new set of hosts. The command ends when a step is complete there. If
the training cannot continue there, it returns to its previous hosts. Such a change does not
count towards -restarts.

Examples:
   wdlrun hosts add runs/20261121-101500 c:8
   wdlrun hosts drop runs/20261121-101500 b`,
		Subcommands: subs,
		Action: func(c *cli.Context) error {
			return errors.New("hosts: give add or drop, a run directory and hosts; see: wdlrun hosts --help")
		},
	}
}

// change sends a change to the launcher of a run, and prints the answer.
func (p hostsProgram) change(c *cli.Context) error {
	what := "hosts " + c.Command.Name
	if c.NArg() < 2 {
		return fmt.Errorf("%s: give a run directory and hosts, such as: wdlrun %s RUN c:8", what, what)
	}
	dir, r := command.RunAt(c.Args().First(), command.RunsFolder), command.HostsRequest{What: c.Command.Name, Hosts: c.Args().Tail()}
	run, err := runs.Read(dir)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	folder, _ := agent.Folder(p.Getenv)
	conn, err := usersock.Dial(folder, command.SteeringSocket(dir))
	switch {
	case errors.Is(err, usersock.ErrOtherUser):
		return fmt.Errorf("%s: %s: %w", what, dir, err)
	case err != nil && run.State == runs.Running:
		return fmt.Errorf("%s: no launcher on this machine serves %s: give this command on the machine where wdlrun was started, as the same user; mpirun, srun, torchrun and Kubernetes do not change a running job", what, dir)
	case err != nil:
		return fmt.Errorf("%s: %s has ended (%s); to continue it on other hosts: wdlrun -H HOSTS train -resume %s", what, dir, run.State, command.QuotedPath(dir))
	}
	defer conn.Close()
	defer context.AfterFunc(c.Context, func() { conn.Close() })()
	a, err := command.AskHosts(conn, r)
	switch {
	case c.Context.Err() != nil:
		return errors.New(what + ": interrupted; the launcher carries the change out")
	case err != nil:
		return fmt.Errorf("%s: the launcher has ended: %w", what, err)
	case a.Error != "":
		return fmt.Errorf("%s: %s", what, a.Error)
	case command.AsJSON(c):
		return p.PrintJSON(a)
	}
	_, err = fmt.Fprintf(p.Stdout, "the training continues with %s on %s\n", plural.Of(a.Size, "rank"), a.Hosts)
	return err
}
