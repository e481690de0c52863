package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/gpu"
	"github.com/wdlrun/wdlrun/internal/bench/step"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/config/network"
	"github.com/wdlrun/wdlrun/internal/train"
	"github.com/wdlrun/wdlrun/member"
	"github.com/wdlrun/wdlrun/rank"
)

func benchStepCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "step",
		Usage:     "measure the training step and compare it with the bound of the machine",
		UsageText: "wdlrun [launch flags] bench step [flags]",
		Description: `Trains on click logs generated in memory: w1 (60 sparse fields, 10 million keys) or w2
(26 sparse and 13 dense fields, 2 million keys). It prints the median step time, the time of
each part, and its ratio to the bound by multiply-adds or memory bandwidth. The bound is
measured in the same run. The line "busy machine" reports interference by other work. With
-device gpu, GPUs compute the dense layers, and no bound is printed.

Examples:
   wdlrun -np 1 bench step -workload w1 -batch 1024
   wdlrun -np 2 bench step -workload w2 -batch 4096 -json
   wdlrun -np 2 bench step -workload w2 -epoch
   wdlrun -np 1 bench step -config ctr.yaml`,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "workload", Value: "w1", Usage: "train on workload `NAME`: " + strings.Join(step.Workloads(), " or ")},
			&cli.StringFlag{Name: "config", Usage: "measure the training of configuration `FILE` instead, on generated rows; -batch replaces its batch size"},
			&cli.IntFlag{Name: "batch", Value: step.DefaultBatch, Usage: "use a global batch of `SAMPLES`"},
			&cli.StringFlag{Name: "model", Value: network.Default, Usage: "train a model of `KIND`: " + strings.Join(network.Names(), ", ")},
			&cli.IntFlag{Name: "threads", Usage: "use `NUMBER` threads in each rank", DefaultText: "the configuration's; 1 for a workload"},
			&cli.IntFlag{Name: "steps", Value: step.DefaultSteps, Usage: "measure `NUMBER` steps"},
			&cli.BoolFlag{Name: "bf16", Usage: "multiply in bfloat16; needs a CPU with AVX512_BF16 or AMX"},
			&cli.BoolFlag{Name: "epoch", Usage: "train on the whole workload once and evaluate its test rows"},
			command.JSONFlag(),
		}, gpu.Flags()...),
		Action: func(c *cli.Context) error {
			opt, err := stepOptions(c)
			if err != nil {
				return err
			}
			work := func(_ context.Context, _ *cli.Context, m *member.Member, _ func(string)) (any, error) {
				var done atomic.Int64
				m.Session.Watch(func() rank.Status {
					return rank.Status{Phase: "bench", Waits: true, Step: done.Load(), Progress: done.Load()}
				})
				opt.Progress = done.Store
				if opt.Devices, _, err = gpu.DevicesOf(c, gpu.Choice{Member: m}); err != nil {
					return nil, err
				}
				return step.Run(m.Comm, opt)
			}
			return p.OnRanks(c, func(c *cli.Context) error { return checkStep(p, c, opt) }, work, printBenchStep)
		},
	}
}

// checkStep rejects invalid flags before any rank is started.
func checkStep(p *command.Program, c *cli.Context, opt step.Options) error {
	if err := opt.Validate(); err != nil {
		return err
	}
	root := c.Lineage()[len(c.Lineage())-2] // the last is an empty parent
	_, _, here, err := p.World(root)
	if err != nil || here == 0 {
		return err
	}
	var given []string
	if opt.Devices, given, err = gpu.DevicesOf(c, gpu.Choice{Assigned: gpu.Assigned(p.Getenv, root)}); err != nil {
		return err
	}
	if device := opt.Device; len(given) > 0 && device != "gpu" && (device != "" || opt.Config == nil || opt.Config.Train.Device != "gpu") {
		return fmt.Errorf("bench step: no effect on steps of the CPU: %s: give -device gpu too", strings.Join(given, " and "))
	}
	if err = opt.Able(here); errors.Is(err, train.ErrNoDevices) {
		return gpu.Continue(c.Context, "bench step -device gpu")
	}
	return err
}

// stepOptions parses the flags.
func stepOptions(c *cli.Context) (step.Options, error) {
	opt := step.Options{
		Workload: c.String("workload"), Batch: c.Int("batch"), Model: c.String("model"),
		Threads: c.Int("threads"), Steps: c.Int("steps"), Epoch: c.Bool("epoch"), BF16: c.Bool("bf16"), Device: c.String("device"),
	}
	if c.Args().Present() {
		return opt, fmt.Errorf("bench step takes no arguments, but got %q", c.Args().First())
	}
	for _, name := range []string{"batch", "threads", "steps"} {
		if c.IsSet(name) && c.Int(name) < 1 {
			return opt, fmt.Errorf("bench step: -%s %d: at least 1", name, c.Int(name))
		}
	}
	path := command.PathOf(c, "config")
	if path == "" {
		return opt, nil
	}
	if c.IsSet("workload") || c.IsSet("model") {
		return opt, fmt.Errorf("bench step takes -config or a -workload and its -model, not both")
	}
	opt.Workload, opt.Model = "", ""
	var err error
	opt.Config, err = config.Load(path)
	return opt, err
}

func printBenchStep(w io.Writer, _ int, asJSON bool, result []byte) error {
	if asJSON {
		_, err := fmt.Fprintf(w, "%s\n", result)
		return err
	}
	var r step.Result
	if err := json.Unmarshal(result, &r); err != nil {
		return err
	}
	_, err := fmt.Fprint(w, r)
	return err
}
