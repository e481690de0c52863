package libraries

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// sharedMemory is where NCCL exchanges data between the processes of a host.
const sharedMemory = "/dev/shm"

// minShared is the size of shared memory that NVIDIA's guide to NCCL advises for containers, which have
// 64 MiB by default.
const minShared = 1 << 30

// Settings returns a line for each setting of the machine that makes NVIDIA's libraries fail, slow or
// inexact, with the remedy. precision is that of train.precision. shared: processes of this machine use
// NCCL.
func Settings(getenv func(string) string, precision string, shared bool) (lines []string) {
	for _, line := range []string{tf32(getenv, precision), cache(getenv), Shared(shared)} {
		if line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

func tf32(getenv func(string) string, precision string) string {
	switch v := getenv("NVIDIA_TF32_OVERRIDE"); {
	case v == "", v == "0" && precision != "tf32", v != "0" && precision == "tf32":
		return ""
	case v == "0":
		return "NVIDIA_TF32_OVERRIDE=0 turns TF32 off, and train.precision: tf32 has no effect: unset it"
	default:
		return fmt.Sprintf("NVIDIA_TF32_OVERRIDE=%s may make cuBLAS round operands to TF32, whatever train.precision is: unset it, or set train.precision: tf32", v)
	}
}

// cache is about the driver's cache of compiled kernels.
func cache(getenv func(string) string) string {
	const each = "each process compiles the kernels at each start"
	if getenv("CUDA_CACHE_DISABLE") == "1" {
		return "CUDA_CACHE_DISABLE=1: " + each + ": unset it"
	}
	folder := getenv("CUDA_CACHE_PATH")
	if home := getenv("HOME"); folder == "" && home != "" {
		folder = filepath.Join(home, ".nv", "ComputeCache")
	}
	if folder == "" {
		return "CUDA_CACHE_PATH and HOME are not set: " + each + ": set CUDA_CACHE_PATH to a folder that can be written"
	}
	at := folder
	for { // the driver creates what is missing
		if _, err := os.Lstat(at); err == nil || at == filepath.Dir(at) {
			break
		}
		at = filepath.Dir(at)
	}
	if err := unix.Access(at, unix.W_OK|unix.X_OK); err != nil {
		return fmt.Sprintf("the driver cannot write to %s (%v: %v), so %s: set CUDA_CACHE_PATH to a folder that can be written", folder, at, err, each)
	}
	return ""
}

// Shared returns a line if NCCL may fail because the machine has little shared memory.
func Shared(used bool) string {
	var fs unix.Statfs_t
	if !used || unix.Statfs(sharedMemory, &fs) != nil {
		return ""
	}
	return small(uint64(fs.Bsize)*fs.Blocks, uint64(fs.Bsize)*fs.Bavail)
}

// small returns the line about shared memory of a size.
func small(size, free uint64) string {
	if free >= minShared {
		return ""
	}
	return fmt.Sprintf("%s has %d MiB, of which %d MiB are free, and NCCL may need up to %d MiB: start the container with --shm-size=1g or --ipc=host, or remove files from it",
		sharedMemory, size>>20, free>>20, minShared>>20)
}
