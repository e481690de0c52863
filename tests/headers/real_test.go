//go:build gpu

package headers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	for _, version := range []int{11040, 12000, 12090, 13050} {
		for _, files := range [][]string{{blas12, nccl12}, {blas12, nccl13}, {blas13, nccl12}, {blas13, nccl13}, {blas13, blas12, nccl13, nccl12}, {blas12, blas13, nccl12, nccl13}} {
			has := fmt.Sprintf("%d.%d", version/1000, version%1000/10)
			device, sums, path := older, older[len("cuda: "):], ""
			if version >= 12000 {
				device = "cuda: open: cuBLAS 13.10.0 (" + blas13 + ") " + fmt.Sprintf(needs, has, "cuBLAS 12")
				sums = "nccl: open: NCCL 2.32.3 (" + nccl13 + ") " + fmt.Sprintf(needs, has, "NCCL for CUDA 12")
				switch {
				case version >= 13000 && slices.Contains(files, blas13):
					device = fmt.Sprintf(failed, "13.10.0", blas13, has)
				case slices.Contains(files, blas12):
					device = fmt.Sprintf(failed, "12.0.1", blas12, has)
				}
				for _, file := range files { // the first that the driver can run
					if path == "" && (file == nccl12 || file == nccl13 && version >= 13000) {
						path, sums = file, map[string]string{nccl12: "2.19.3", nccl13: "2.32.3"}[file]
					}
				}
			}
			pair(t, fmt.Sprint(version), files, standin.CUDA, device, sums, path)
		}
	}
}

// pair opens libraries in a process of its own, and looks for the line about the device, and for the line about NCCL, or
// its version if path is that of the library that is used.
func pair(t *testing.T, version string, files []string, standin, device, sums, path string) {
	t.Helper()
	var folders []string
	for _, file := range files {
		folders = append(folders, filepath.Dir(file))
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestRealLibraries$")
	cmd.Env = append(os.Environ(), driver+"="+standin, "FOLDERS="+strings.Join(folders, ":"), "STANDIN_VERSION="+version, "LD_LIBRARY_PATH=", "NCCL_DEBUG=")
	out, err := cmd.CombinedOutput()
	fatal.If(t, err)
	ok := strings.Contains(string(out), sums)
	if path != "" {
		// Of NCCL 2.32, each failure leaves a group open on its thread.
		const connects = "connect: nccl: rank 0: initialisation: unhandled cuda error (run with NCCL_DEBUG=INFO for details): Cuda failure "
		ok = strings.Contains(string(out), "NCCL "+sums+" ("+path+")\n") && strings.Count(string(out), connects) == 2 &&
			strings.Count(string(out), " (error 1) (initialisation of NCCL "+sums+", "+path+")\n") == 2
	}
	if !ok || !strings.Contains(string(out), device) {
		t.Errorf("driver %s with %q: want %q and %q in\n%s", version, files, device, sums, out)
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
