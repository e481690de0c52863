//go:build !gpu

package main

import (
	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/internal/train"
)

// gpus returns nil: only builds with the tag gpu support GPUs.
func gpus(gpuChoice) train.Devices { return nil }

// checkGPUs is gpu-check.
func checkGPUs(_ *program, c *cli.Context) error { return continueOnGPU(c.Context, "gpu-check") }
