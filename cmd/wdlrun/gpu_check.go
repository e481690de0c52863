package main

import (
	"fmt"

	"github.com/urfave/cli/v2"
)

func gpuCheckCommand(p *program) *cli.Command {
	return &cli.Command{
		Name: "gpu-check", Usage: "check the GPUs of this machine and their libraries", UsageText: "wdlrun gpu-check [-report FILE] [--json]",
		Description: `Runs these checks on each device that CUDA_VISIBLE_DEVICES allows:
   kernels      each kernel computes the same bits as its counterpart on the CPU
   memory       copies arrive unchanged; bandwidth of pinned copies and within the device
   parity       200 steps of four models agree with the CPU, and have the same bits twice
this one on the first device, if python3 can import torch with CUDA:
   PyTorch      a step has the same results; its time is compared
and these between all devices, if there are at least 2 and NCCL is installed:
   collectives, NCCL bandwidth, and the abort of a sum that only one rank has begun
It prints a line for each check and writes the report, with the inventory and the paths of the
libraries, to a JSON file. The exit code is 1 if a check fails.

The command runs wdlrun-gpu, which must be built from the same source and be in the same
directory as wdlrun. Build it with
   ` + gpuBuild + `

Examples:
   wdlrun gpu-check
   CUDA_VISIBLE_DEVICES=0,1 wdlrun gpu-check -report node7.json`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "report", Usage: "write the report to `FILE`, replacing it", Value: "gpu-check.json"},
			jsonFlag(),
		},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return fmt.Errorf("gpu-check takes no arguments, but got %q", c.Args().First())
			}
			return checkGPUs(p, c)
		},
	}
}
