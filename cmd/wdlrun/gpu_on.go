//go:build gpu

package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/internal/gpu/cuda"
	"github.com/wdlrun/wdlrun/internal/model/device"
	"github.com/wdlrun/wdlrun/internal/model/device/check"
	"github.com/wdlrun/wdlrun/internal/train"
	"github.com/wdlrun/wdlrun/nccl"
)

// gpus returns the devices of this machine.
func gpus(c gpuChoice) train.Devices {
	// An abort that hangs holds memory of the device, and later calls would hang too.
	stuck := func(err error) {
		fmt.Fprintln(os.Stderr, "wdlrun:", err)
		os.Exit(1)
	}
	_, ordered := os.LookupEnv("CUDA_VISIBLE_DEVICES")
	return device.Machine{Member: c.member, Assigned: c.assigned, Ordered: ordered, Share: c.share, Sum: c.sum, NCCL: nccl.Config{Stuck: stuck}}
}

// checkGPUs is gpu-check.
func checkGPUs(p *program, c *cli.Context) error {
	r, err := check.Run(version, cuda.Files{}, nccl.Config{}, func(x check.Result) {
		fmt.Fprintf(p.stderr, "wdlrun: %v\n", x)
	})
	if err != nil {
		return fmt.Errorf("gpu-check: %w", err)
	}
	if r.Count(check.Failed) > 0 {
		r.ExitCode = 1
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.String("report"), append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("gpu-check: %w", err)
	}
	if asJSON(c) {
		err = p.printJSON(r)
	} else {
		err = check.Write(p.stdout, r)
	}
	if err == nil && r.ExitCode != 0 {
		return exit(r.ExitCode)
	}
	return err
}
