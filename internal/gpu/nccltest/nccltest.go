// Package nccltest contains stand-ins of libcuda and libnccl for tests on machines without a
// device. They are written in C, and gcc compiles them when a test needs them.
//
// They reproduce the faults of the real libraries, but not their speed or their rounding. The
// variable Env selects a fault; the head of nccl.c lists them.
package nccltest

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Env is the environment variable by which tests ask for faults.
const Env = "WDLRUN_STANDIN_NCCL"

//go:embed nccl.c
var ncclSource []byte

//go:embed cuda.c
var cudaSource []byte

// Build compiles both libraries into dir, and returns their paths. flags are passed to the
// compiler of the stand-in for NCCL, such as -DLACKS_RECV, which leaves a function out.
func Build(dir string, flags ...string) (nccl, cuda string, err error) {
	cuda = filepath.Join(dir, "libcuda.so.1")
	if err := compile(dir, cuda, cudaSource); err != nil {
		return "", "", err
	}
	nccl, err = BuildOver(dir, cuda, flags...)
	return nccl, cuda, err
}

// BuildOver compiles the stand-in for NCCL into dir and links it to another libcuda. The one
// of package cudatest has memory that faults when the host touches it. Ranks that connect
// share files of dir named shared-ID.
func BuildOver(dir, cuda string, flags ...string) (nccl string, err error) {
	nccl = filepath.Join(dir, "libnccl.so.2")
	return nccl, compile(dir, nccl, ncclSource, append(flags, cuda, "-Wl,-rpath,"+filepath.Dir(cuda), fmt.Sprintf("-DSHARED=%q", filepath.Join(dir, "shared")))...)
}

func compile(dir, out string, source []byte, flags ...string) error {
	file := filepath.Join(dir, filepath.Base(out)+".c")
	if err := os.WriteFile(file, source, 0o644); err != nil {
		return err
	}
	args := append([]string{"-O1", "-g", "-shared", "-fPIC", "-pthread", "-Wall", "-Werror", "-Wno-unknown-pragmas", "-o", out, "-Wl,-soname," + filepath.Base(out), file}, flags...)
	if text, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("nccltest: gcc: %w\n%s", err, text)
	}
	return nil
}
