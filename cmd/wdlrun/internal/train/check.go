package train

import (
	"context"
	"errors"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/gpu"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/train"
)

// checkTrain rejects invalid flags before any rank is started.
func checkTrain(p *command.Program, c *cli.Context) error {
	opt, ranks, _, err := launchOptions(p, c)
	if err != nil {
		return err
	}
	if opt.Here > 0 {
		if err := rundir.CheckPlace(opt.Out, opt.Resume); err != nil {
			return err
		}
	}
	if err := checkOptions(c, opt, ranks, train.Check); err != nil || opt.Here == 0 {
		return err
	}
	return train.CheckTiers(opt)
}

// checkOptions calls check, which is train.Check or train.CheckReplay. If the training may use GPUs and only wdlrun-gpu supports them, it
// continues as wdlrun-gpu. If there is none, train.device: gpu is an error, and with auto the
// training continues here.
func checkOptions(c *cli.Context, opt train.Options, ranks int, check func(context.Context, train.Options, int) error) error {
	err := check(c.Context, opt, ranks)
	if !errors.Is(err, train.ErrNoDevices) {
		return err
	}
	asked := "train.device: gpu"
	if c.IsSet("device") {
		asked = "-device gpu"
	}
	opt.Devices = train.NoDevices{Reason: gpu.Continue(c.Context, asked)}
	return check(c.Context, opt, ranks)
}

// launchOptions parses the flags of a training and of its launch before any rank runs. It returns
// the number of ranks and whether all are on one host.
func launchOptions(p *command.Program, c *cli.Context) (opt train.Options, ranks int, oneHost bool, err error) {
	root := c.Lineage()[len(c.Lineage())-2] // the last is an empty parent
	ranks, oneHost, here, err := p.World(root)
	if err != nil {
		return opt, 0, false, err
	}
	if err := command.Tolerable(c, ranks); err != nil {
		return opt, 0, false, err
	}
	if err := checkLive(c); err != nil {
		return opt, 0, false, err
	}
	if _, err := recorder(c); err != nil {
		return opt, 0, false, err
	}
	if opt, err = trainOptions(c); err == nil {
		err = command.Tolerant(c, &opt)
	}
	if err == nil {
		opt.Config, err = loadConfig(c)
	}
	if err != nil {
		return opt, 0, false, err
	}
	opt.Replicas, opt.Here, opt.Away = c.Int("replicas"), here, here < ranks
	return opt, ranks, oneHost, gpu.Use(c, &opt, gpu.Choice{Assigned: gpu.Assigned(p.Getenv, root)})
}
