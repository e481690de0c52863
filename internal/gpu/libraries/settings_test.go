package libraries

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

func TestSettings(t *testing.T) {
	home := t.TempDir()
	file := filepath.Join(home, "file")
	fatal.If(t, os.WriteFile(file, nil, 0o600))
	for _, x := range []struct{ environment, precision, want string }{
		{"HOME=" + home, "fp32", ""},
		{"HOME=" + home + " NVIDIA_TF32_OVERRIDE=0", "fp32", ""},
		{"HOME=" + home + " NVIDIA_TF32_OVERRIDE=0", "bf16", ""},
		{"HOME=" + home + " NVIDIA_TF32_OVERRIDE=0", "tf32", "NVIDIA_TF32_OVERRIDE=0 turns TF32 off, and train.precision: tf32 has no effect"},
		{"HOME=" + home + " NVIDIA_TF32_OVERRIDE=1", "tf32", ""},
		{"HOME=" + home + " NVIDIA_TF32_OVERRIDE=1", "fp32", "NVIDIA_TF32_OVERRIDE=1 may make cuBLAS round operands to TF32"},
		{"HOME=" + home + " CUDA_CACHE_DISABLE=1", "fp32", "CUDA_CACHE_DISABLE=1: each process compiles"},
		{"", "fp32", "CUDA_CACHE_PATH and HOME are not set: each process compiles"},
		{"HOME=/proc/self", "fp32", "the driver cannot write to /proc/self/.nv/ComputeCache (/proc/self: "}, // read-only for root too
		{"HOME=" + file, "fp32", "the driver cannot write to " + file + "/.nv/ComputeCache"},
		{"HOME=/proc/self CUDA_CACHE_PATH=" + home + "/a/b", "fp32", ""},
	} {
		getenv := func(name string) string {
			for _, v := range strings.Fields(x.environment) {
				if n, value, _ := strings.Cut(v, "="); n == name {
					return value
				}
			}
			return ""
		}
		lines := Settings(getenv, x.precision, false)
		if got := strings.Join(lines, "\n"); len(lines) > 1 || x.want == "" && got != "" || !strings.HasPrefix(got, x.want) {
			t.Errorf("%s, %s: %q, want %q", x.environment, x.precision, got, x.want)
		}
	}
	if got := small(64<<20, 63<<20); !strings.HasPrefix(got, "/dev/shm has 64 MiB, of which 63 MiB are free, and NCCL may need up to 1024 MiB: start the container with --shm-size=1g") {
		t.Error(got)
	}
	if got := small(2<<30, minShared); got != "" {
		t.Error(got)
	}
}
