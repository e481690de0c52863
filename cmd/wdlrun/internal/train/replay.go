package train

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/gpu"
	"github.com/wdlrun/wdlrun/internal/train"
	"github.com/wdlrun/wdlrun/member"
	"github.com/wdlrun/wdlrun/trace"
)

func ReplayCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "replay",
		Usage:     "repeat a training with -backup or -mode bit for bit",
		UsageText: "wdlrun -np N replay [flags] RUN",
		Description: `RUN is the run directory of a training with -mode drop or speculate. Its commits.log records
which microbatches counted in each step. The same ones count again, so the model is
bit-identical. N must be the original number of ranks. A training is rejected if it was resumed
with another number of ranks, another mode or other settings of its steps.

Example:
   wdlrun -np 3 replay runs/20261121-101500`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "out", Value: "runs", Usage: "create the new run directory in `DIR`"},
			gpu.ShareFlag(), command.JSONFlag(),
		},
		Action: func(c *cli.Context) error {
			check := func(c *cli.Context) error {
				if c.NArg() != 1 {
					return errors.New("replay takes one argument, the run directory: wdlrun -np N replay RUN")
				}
				root := c.Lineage()[len(c.Lineage())-2] // the last is an empty parent
				ranks, _, here, err := p.World(root)
				if err != nil {
					return err
				}
				opt := train.Options{Replay: command.RunAt(c.Args().First(), command.PathOf(c, "out")), Here: here}
				if err := gpu.Use(c, &opt, gpu.Choice{Assigned: gpu.Assigned(p.Getenv, root)}); err != nil {
					return err
				}
				return checkOptions(c, opt, ranks, train.CheckReplay)
			}
			work := func(ctx context.Context, c *cli.Context, m *member.Member, warn func(string)) (any, error) {
				opt := train.Options{
					Out: command.PathOf(c, "out"), Replay: command.RunAt(c.Args().First(), command.PathOf(c, "out")), Warn: warn,
					Say: func(line string) { fmt.Fprintln(p.Stderr, line) },
				}
				if err := gpu.Use(c, &opt, gpu.Choice{Member: m}); err != nil {
					return nil, err
				}
				job := train.NewJob(m.Comm, trace.New(traceSpans), opt)
				m.Session.Watch(job.Status)
				defer requests(p, m.Session, job)()
				return job.Run(ctx)
			}
			return p.OnRanks(c, check, work, trained(p))
		},
	}
}
