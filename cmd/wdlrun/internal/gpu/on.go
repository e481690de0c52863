//go:build gpu

package gpu

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/gpu/libraries"
	"github.com/wdlrun/wdlrun/internal/model/device"
	"github.com/wdlrun/wdlrun/internal/model/device/check"
	"github.com/wdlrun/wdlrun/internal/train"
	"github.com/wdlrun/wdlrun/nccl"
)

// Devices returns the devices of this machine.
func Devices(c Choice) (train.Devices, error) {
	files, err := Files(os.Getenv)
	if err != nil {
		return nil, err
	}
	// An abort that hangs holds memory of the device, and later calls would hang too.
	stuck := func(err error) {
		fmt.Fprintln(os.Stderr, "wdlrun:", err)
		os.Exit(1)
	}
	_, ordered := os.LookupEnv("CUDA_VISIBLE_DEVICES")
	return device.Machine{Member: c.Member, Assigned: c.Assigned, Ordered: ordered, Share: c.share, Sum: c.sum, Files: files, Getenv: os.Getenv, NCCL: nccl.Config{Stuck: stuck, Folders: files.Folders}}, nil
}

// Files selects the libraries by the environment.
func Files(getenv func(string) string) (f libraries.Files, err error) {
	f.Folders, err = libraries.Folders(getenv)
	return f, err
}

// checkGPUs is gpu-check.
func checkGPUs(p *command.Program, c *cli.Context) error {
	files, err := Files(p.Getenv)
	if err != nil {
		return fmt.Errorf("gpu-check: %w", err)
	}
	file := ""
	if dir := c.String("report"); dir != "" {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return fmt.Errorf("gpu-check: -report: %w", err)
		}
		host, _ := os.Hostname()
		file = filepath.Join(dir, "gpu-check-"+filepath.Base(host)+".txt")
	}
	var failed error
	save := func(r check.Report) { // before and after each check: a driver may end the program
		if x := len(r.Results); r.Running == "" && x > 0 && r.Next == nil {
			fmt.Fprintf(p.Stderr, "wdlrun: %v\n", r.Results[x-1])
		}
		if file != "" && failed == nil {
			failed = writeReport(file, r)
		}
	}
	r := check.Run(check.Setup{Program: command.Version, Files: files, NCCL: nccl.Config{Folders: files.Folders}, Getenv: p.Getenv, File: file, Progress: save})
	if command.AsJSON(c) {
		err = p.PrintJSON(r)
	} else {
		err = check.Write(p.Stdout, r)
	}
	if err = errors.Join(failed, err); err != nil {
		return fmt.Errorf("gpu-check: %w", err)
	}
	if r.ExitCode != 0 {
		return command.Exit(r.ExitCode)
	}
	return nil
}

// writeReport writes a report, and the variables that NVIDIA's libraries read, to a file.
func writeReport(file string, r check.Report) error {
	var b bytes.Buffer
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); name == "LD_LIBRARY_PATH" || strings.HasPrefix(name, "CUDA_") || strings.HasPrefix(name, "NCCL_") || strings.HasPrefix(name, "NVIDIA_") || strings.HasPrefix(name, "WDLRUN_CUDA_") {
			fmt.Fprintln(&b, v)
		}
	}
	if err := check.Write(&b, r); err != nil {
		return err
	}
	return os.WriteFile(file, b.Bytes(), 0o644)
}
