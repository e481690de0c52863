//go:build !gpu

package gpu

import (
	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/gpu/libraries"
	"github.com/wdlrun/wdlrun/internal/train"
)

// Devices returns nil: only builds with the tag gpu support GPUs.
func Devices(Choice) (train.Devices, error) { return nil, nil }

// Files returns nothing, for the same reason.
func Files(func(string) string) (libraries.Files, error) { return libraries.Files{}, nil }

// checkGPUs is gpu-check.
func checkGPUs(_ *command.Program, c *cli.Context) error { return Continue(c.Context, "gpu-check") }
