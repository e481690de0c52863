// Package gpu has the commands gpus and gpu-check, the flags about GPUs, and the change to
// wdlrun-gpu, the build that supports them.
package gpu

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/gpu/inventory"
	"github.com/wdlrun/wdlrun/internal/gpu/libraries"
)

func Command(p *command.Program) *cli.Command {
	return &cli.Command{
		Name: "gpus", Usage: "list the GPUs of this machine", UsageText: "wdlrun gpus [--json]",
		Description: `Prints model, memory, PCI address and link, NUMA node, NVLinks, ECC, the reasons for
reduced clocks, and the processes that use the GPU, as NVML reports them. --json adds the CPUs near
each device. Values that NVML does not report are "unknown", and null in JSON. CUDA_VISIBLE_DEVICES has no effect.
Then it prints the driver, each cuBLAS and NCCL that it finds, and whether the driver can run them. It searches
WDLRUN_CUDA_PATH, LD_LIBRARY_PATH, the folders of the system and the active environment of Python, in this order.

The command runs wdlrun-gpu, which must be built from the same source and be in the same
directory as wdlrun. Build it with
   ` + Build + `

Examples:
   wdlrun gpus
   wdlrun gpus --json`,
		Flags: []cli.Flag{command.JSONFlag()},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return fmt.Errorf("gpus takes no arguments, but got %q", c.Args().First())
			}
			v, err := inventory.Here()
			if errors.Is(err, inventory.ErrNotBuilt) {
				return Continue(c.Context, "gpus")
			}
			files, fault := Files(p.Getenv)
			if fault != nil {
				return fmt.Errorf("gpus: %w", fault)
			}
			all := libraries.Find(files)
			switch {
			case err != nil:
				return errors.Join(fmt.Errorf("gpus: %w", err), libraries.Write(p.Stdout, all))
			case command.AsJSON(c):
				return p.PrintJSON(struct {
					inventory.Inventory
					Libraries []libraries.Library `json:"libraries"`
				}{v, all})
			}
			return errors.Join(inventory.Write(p.Stdout, v), libraries.Write(p.Stdout, all))
		},
	}
}
