//go:build gpu

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/internal/gpu/libraries"
	"github.com/wdlrun/wdlrun/internal/model/device"
	"github.com/wdlrun/wdlrun/internal/model/device/check"
	"github.com/wdlrun/wdlrun/internal/train"
	"github.com/wdlrun/wdlrun/nccl"
)

// gpus returns the devices of this machine.
func gpus(c gpuChoice) (train.Devices, error) {
	files, err := gpuFiles(os.Getenv)
	if err != nil {
		return nil, err
	}
	// An abort that hangs holds memory of the device, and later calls would hang too.
	stuck := func(err error) {
		fmt.Fprintln(os.Stderr, "wdlrun:", err)
		os.Exit(1)
	}
	_, ordered := os.LookupEnv("CUDA_VISIBLE_DEVICES")
	return device.Machine{Member: c.member, Assigned: c.assigned, Ordered: ordered, Share: c.share, Sum: c.sum, Files: files, NCCL: nccl.Config{Stuck: stuck, Folders: files.Folders}}, nil
}

// gpuFiles selects the libraries by the environment.
func gpuFiles(getenv func(string) string) (f libraries.Files, err error) {
	f.Folders, err = libraries.Folders(getenv)
	return f, err
}

// checkGPUs is gpu-check.
func checkGPUs(p *program, c *cli.Context) error {
	files, err := gpuFiles(p.getenv)
	if err != nil {
		return fmt.Errorf("gpu-check: %w", err)
	}
	r, err := check.Run(version, files, nccl.Config{Folders: files.Folders}, func(x check.Result) {
		fmt.Fprintf(p.stderr, "wdlrun: %v\n", x)
	})
	if err != nil {
		return errors.Join(fmt.Errorf("gpu-check: %w", err), libraries.Write(p.stdout, libraries.Find(files)))
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
