//go:build !gpu

package main

import (
	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/internal/gpu/libraries"
	"github.com/wdlrun/wdlrun/internal/train"
)

// gpus returns nil: only builds with the tag gpu support GPUs.
func gpus(gpuChoice) (train.Devices, error) { return nil, nil }

// gpuFiles returns nothing, for the same reason.
func gpuFiles(func(string) string) (libraries.Files, error) { return libraries.Files{}, nil }

// checkGPUs is gpu-check.
func checkGPUs(_ *program, c *cli.Context) error { return continueOnGPU(c.Context, "gpu-check") }
