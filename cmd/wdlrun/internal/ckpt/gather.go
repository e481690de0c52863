package ckpt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/model/plan"
	"github.com/wdlrun/wdlrun/internal/text/plural"
	"github.com/wdlrun/wdlrun/internal/train"
	"github.com/wdlrun/wdlrun/member"
	"github.com/wdlrun/wdlrun/trace"
)

func ckptGather(p *command.Program) *cli.Command {
	return &cli.Command{
		Name: "gather", Usage: "collect a checkpoint of several hosts on one of them", UsageText: "wdlrun -H HOSTS ckpt gather [flags] RUN|CHECKPOINT",
		Description: `If hosts do not share the run directory, each holds the parts of its ranks. This command copies
three kinds of checkpoints to the first host of -H: the newest one of which the hosts together
hold all parts, those that it builds upon, and the one of the best epoch. RUN is the same path
on every host. The other hosts keep their parts. Training, eval and predict need no gather:
they read parts from other hosts.

Examples:
   wdlrun -H a,b ckpt gather runs/20261121-101500
   wdlrun -H localhost,a,b -wdir /data ckpt gather runs/20261121-101500`,
		Flags: []cli.Flag{command.JSONFlag()},
		Action: func(c *cli.Context) error {
			check := func(c *cli.Context) error {
				if c.NArg() != 1 {
					return errors.New("give one run directory or checkpoint; see: wdlrun ckpt gather --help")
				}
				return nil
			}
			work := func(ctx context.Context, c *cli.Context, m *member.Member, warn func(string)) (any, error) {
				job := train.NewJob(m.Comm, trace.New(0), train.Options{Resume: command.RunAt(c.Args().First(), command.RunsFolder), Peers: command.Peers(m, p.Getenv), Warn: warn})
				m.Session.Watch(job.Status)
				return job.Gather(ctx)
			}
			return p.OnRanks(c, check, work, command.JSONOr(printGathered))
		},
	}
}

// printGathered prints the result of ckpt gather.
func printGathered(w io.Writer, _ int, result []byte) error {
	var r train.Gathered
	if err := json.Unmarshal(result, &r); err != nil {
		return err
	}
	best := ""
	if r.Best > 0 {
		best = fmt.Sprintf(", and step %d, the best epoch", r.Best)
	}
	_, err := fmt.Fprintf(w, "complete %s%s: %s, %v, from other hosts\n", r.Checkpoint, best, plural.Of(r.Parts, "part"), plan.Bytes(r.Bytes))
	return err
}
