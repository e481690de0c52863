package main

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/internal/gpu/inventory"
)

func gpusCommand(p *program) *cli.Command {
	return &cli.Command{
		Name: "gpus", Usage: "list the GPUs of this machine", UsageText: "wdlrun gpus [--json]",
		Description: `Prints model, memory, PCI address and link, NUMA node, NVLinks, ECC, the reasons for
reduced clocks, and the processes that use the GPU, as NVML reports them. --json adds the CPUs near
each device. Values that NVML does not report are "unknown", and null in JSON. CUDA_VISIBLE_DEVICES has no effect.

The command runs wdlrun-gpu, which must be built from the same source and be in the same
directory as wdlrun. Build it with
   ` + gpuBuild + `

Examples:
   wdlrun gpus
   wdlrun gpus --json`,
		Flags: []cli.Flag{jsonFlag()},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return fmt.Errorf("gpus takes no arguments, but got %q", c.Args().First())
			}
			v, err := inventory.Here()
			switch {
			case errors.Is(err, inventory.ErrNotBuilt):
				return continueOnGPU(c.Context, "gpus")
			case err != nil:
				return fmt.Errorf("gpus: %w", err)
			case asJSON(c):
				return p.printJSON(v)
			}
			return inventory.Write(p.stdout, v)
		},
	}
}
