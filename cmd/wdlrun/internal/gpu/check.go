package gpu

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
)

func CheckCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name: "gpu-check", Usage: "check the GPUs of this machine and their libraries", UsageText: "wdlrun gpu-check [-report DIR] [--json]",
		Description: `Runs these checks, in the order in which they are likely to fail on a new machine:
   libraries    the driver can run cuBLAS
   settings     nothing makes NVIDIA's libraries fail, slow or inexact
   inventory    NVML lists the devices
   open         each device can be used
   kernels      on each device, each kernel computes the same bits as its counterpart on the CPU
   collectives  NCCL's results between all devices are exact
   NCCL bandwidth
   memory       on each device, copies arrive unchanged; bandwidth of pinned copies and within the device
   parity       on each device, 50 steps of four models agree with the CPU, and have the same bits twice
   PyTorch      on the first device, a step has the same results; its time is compared
   abort        a sum that only one rank has begun is aborted
Checks of NCCL need at least 2 devices and NCCL, and that of PyTorch a python3 that can import torch with
CUDA. A check that does not end within its limit, at most 5 minutes, is the last. The command prints a line
for each check and, at the end, three things to do. The exit code is 1 if a check fails.

-report writes all of it, with the inventory and the variables that NVIDIA's libraries read, to
DIR/gpu-check-HOST.txt. The file is also written before each check: if the driver ends the program, it names
the check.

The command runs wdlrun-gpu, which must be built from the same source and be in the same
directory as wdlrun. Build it with
   ` + Build + `

Examples:
   wdlrun gpu-check
   CUDA_VISIBLE_DEVICES=0,1 wdlrun gpu-check -report /tmp/report`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "report", Usage: "write the report to one file in `DIR`"},
			command.JSONFlag(),
		},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return fmt.Errorf("gpu-check takes no arguments, but got %q", c.Args().First())
			}
			return checkGPUs(p, c)
		},
	}
}
