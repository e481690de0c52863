//go:build gpu

package headers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/gpu/cuda"
	"github.com/wdlrun/wdlrun/internal/gpu/cudatest"
	"github.com/wdlrun/wdlrun/internal/gpu/kernel"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/nccl"
)

// driver is the stand-in of the driver, and names the variable that tells a child where it is.
const driver = "HEADERS_DRIVER"

// TestRealLibraries opens NVIDIA's cuBLAS and NCCL over the stand-in of each driver, and checks which
// are chosen and what is printed. cuBLAS and NCCL find no driver of their own here.
func TestRealLibraries(t *testing.T) {
	if path := os.Getenv(driver); path != "" {
		open(path)
		return
	}
	blas12, blas13 := found(t, "oldest", "*/lib/libcublas.so.12"), found(t, "newest", "*/lib/libcublas.so.13")
	nccl12, nccl13 := found(t, "oldest", "*/lib/libnccl.so.2"), found(t, "newest", "*/lib/libnccl.so.2")
	standin, err := cudatest.Build(t.TempDir(), kernel.PTX)
	fatal.If(t, err)
	const (
		failed = "device: cuda: device 0: the library was not initialized (1) (cuBLAS %s (%s), CUDA %s)\n"
		needs  = "needs a driver for CUDA 13, and this one supports CUDA %s: install %s, or driver 580 or later\n"
		older  = "cuda: open: the driver supports CUDA 11.4, at least 12.0 is needed: install driver 525 or later\n"
	)
	for _, x := range []struct {
		driver string
		files  []string
		blas   string
		nccl   string // its version, or the text for none
		path   string
	}{
		{"11040", []string{blas12, nccl12}, older, older[len("cuda: "):], ""},
		{"12000", []string{blas12, nccl12}, fmt.Sprintf(failed, "12.0.1", blas12, "12.0"), "2.19.3", nccl12},
		{"12090", []string{blas13, nccl13}, "cuda: open: cuBLAS 13.10.0 (" + blas13 + ") " + fmt.Sprintf(needs, "12.9", "cuBLAS 12"),
			"nccl: open: NCCL 2.32.3 (" + nccl13 + ") " + fmt.Sprintf(needs, "12.9", "NCCL for CUDA 12"), ""},
		{"12090", []string{blas13, blas12, nccl13, nccl12}, fmt.Sprintf(failed, "12.0.1", blas12, "12.9"), "2.19.3", nccl12},
		{"13050", []string{blas12, blas13, nccl13, nccl12}, fmt.Sprintf(failed, "13.10.0", blas13, "13.5"), "2.32.3", nccl13},
		{"13050", []string{blas12, nccl12}, fmt.Sprintf(failed, "12.0.1", blas12, "13.5"), "2.19.3", nccl12},
	} {
		var folders []string
		for _, file := range x.files {
			folders = append(folders, filepath.Dir(file))
		}
		cmd := exec.Command(os.Args[0], "-test.run=^TestRealLibraries$")
		cmd.Env = append(os.Environ(), driver+"="+standin.CUDA, "FOLDERS="+strings.Join(folders, ":"), "STANDIN_VERSION="+x.driver, "LD_LIBRARY_PATH=", "NCCL_DEBUG=")
		out, err := cmd.CombinedOutput()
		fatal.If(t, err)
		ok := strings.Contains(string(out), x.nccl)
		if x.path != "" {
			// Of NCCL 2.32, each failure leaves a group open on its thread.
			const connects = "connect: nccl: rank 0: initialisation: unhandled cuda error (run with NCCL_DEBUG=INFO for details): Cuda failure "
			ok = strings.Contains(string(out), "NCCL "+x.nccl+" ("+x.path+")\n") && strings.Count(string(out), connects) == 2 &&
				strings.Count(string(out), " (error 1) (initialisation of NCCL "+x.nccl+", "+x.path+")\n") == 2
		}
		if !ok || !strings.Contains(string(out), x.blas) {
			t.Errorf("driver %s with %q: want %q and %q in\n%s", x.driver, x.files, x.blas, x.nccl, out)
		}
	}
}

// open prints how far a job would come.
func open(path string) {
	folders := strings.Split(os.Getenv("FOLDERS"), ":")
	library, err := cuda.Open(cuda.Files{CUDA: path, Folders: folders})
	if err != nil {
		fmt.Println("open:", err)
	} else if _, err = library.Device(0); err != nil {
		fmt.Println("device:", err)
	}
	sums, err := nccl.Open(nccl.Config{Cuda: path, Folders: folders})
	if err != nil {
		fmt.Println("nccl:", err)
		return
	}
	fmt.Printf("NCCL %v (%s)\n", sums.Version(), sums.Path())
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for range 2 { // the first failure leaves nothing behind
		id, err := sums.NewID()
		if err == nil {
			_, err = sums.Connect(ctx, id, 0, 1, 1)
		}
		fmt.Println("connect:", err)
	}
}
