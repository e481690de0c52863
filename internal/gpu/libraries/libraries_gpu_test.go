//go:build gpu

package libraries

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// The sources of libraries that answer the questions of this package and nothing else. A real NCCL
// contains its version as a text.
const (
	driverSource = `#include <stdlib.h>
int cuDriverGetVersion(int *v) { *v = atoi(getenv("CUDA_OF_TEST")); return 0; }`
	cublasSource = `int cublasGetProperty(int i, int *v) { *v = i ? i : MAJOR; return 0; }`
	ncclSource   = `const char *text(void) { return "NCCL version 2.19.3+cuda" CUDA; }
int ncclGetVersion(int *v) { *v = 21903; return 0; }`
)

// compile makes a library in a folder of its own.
func compile(t *testing.T, name, source string, flags ...string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	file := filepath.Join(folder, "source.c")
	fatal.If(t, os.WriteFile(file, []byte(source), 0o600))
	out, err := exec.Command("gcc", append([]string{"-shared", "-fPIC", "-Wl,-soname," + name, "-o", filepath.Join(folder, name), file}, flags...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return folder
}

// TestPairsOfDriverAndLibrary has each driver with each choice of cuBLAS and NCCL.
func TestPairsOfDriverAndLibrary(t *testing.T) {
	cuda := filepath.Join(compile(t, "libcuda.so.1", driverSource), "libcuda.so.1")
	blas12, blas13 := compile(t, "libcublas.so.12", cublasSource, "-DMAJOR=12"), compile(t, "libcublas.so.13", cublasSource, "-DMAJOR=13")
	nccl12, nccl13 := compile(t, "libnccl.so.2", ncclSource, `-DCUDA="12.3"`), compile(t, "libnccl.so.2", ncclSource, `-DCUDA="13.4"`)
	const (
		old    = "the driver supports CUDA 11.4, at least 12.0 is needed: install driver 525 or later"
		blas   = "cuBLAS 13.1.2 (%s/libcublas.so.13) needs a driver for CUDA 13, and this one supports CUDA %s: install cuBLAS 12, or driver 580 or later"
		sums   = "NCCL 2.19.3 (%s/libnccl.so.2) needs a driver for CUDA 13, and this one supports CUDA %s: install NCCL for CUDA 12, or driver 580 or later"
		no12   = "libcublas.so.13: cannot open shared object file: No such file or directory; libcublas.so.12: cannot open shared object file: No such file or directory: install cuBLAS 12, or name its folder in WDLRUN_CUDA_PATH or LD_LIBRARY_PATH"
		noNCCL = "libnccl.so.2: cannot open shared object file: No such file or directory: install NCCL for CUDA 13, or name its folder in WDLRUN_CUDA_PATH or LD_LIBRARY_PATH"
	)
	for _, x := range []struct {
		driver               int
		folders              []string
		driverFault          string
		blas, nccl           string // folder of the chosen library
		blasFault, ncclFault string
	}{
		{driver: 11040, folders: []string{blas12, nccl12}, driverFault: old},
		{driver: 12000, folders: []string{blas12, blas13, nccl12}, blas: blas12, nccl: nccl12},
		{driver: 12000, folders: []string{blas13, blas12, nccl13, nccl12}, blas: blas12, nccl: nccl12},
		{driver: 12090, folders: []string{blas13, nccl13}, blasFault: fmt.Sprintf(blas, blas13, "12.9"), ncclFault: fmt.Sprintf(sums, nccl13, "12.9")},
		{driver: 12090, folders: []string{"", nccl12}, blasFault: no12, nccl: nccl12},
		{driver: 13050, folders: []string{blas12, blas13, nccl12, nccl13}, blas: blas13, nccl: nccl12},
		{driver: 13050, folders: []string{blas12, ""}, blas: blas12, ncclFault: noNCCL},
	} {
		t.Setenv("CUDA_OF_TEST", fmt.Sprint(x.driver))
		f := Files{CUDA: cuda, Folders: x.folders}
		d, err := Driver(f)
		if text(err) != x.driverFault {
			t.Errorf("driver %d: %v, want %q", x.driver, err, x.driverFault)
		}
		if err != nil {
			continue
		}
		b, err := CUBLAS(f, d.CUDA)
		if filepath.Dir(b.Path) != filepath.Dir(filepath.Join(x.blas, "x")) || text(err) != x.blasFault {
			t.Errorf("driver %d: %v, %v, want %s %s", x.driver, b, err, x.blas, x.blasFault)
		}
		n, err := NCCL(f, d.CUDA)
		if filepath.Dir(n.Path) != filepath.Dir(filepath.Join(x.nccl, "x")) || text(err) != x.ncclFault {
			t.Errorf("driver %d: %v, %v, want %s %s", x.driver, n, err, x.nccl, x.ncclFault)
		}
	}
}

// TestEveryPairing has each driver with each set of cuBLAS and NCCL, in each order of their folders, and two
// libraries of one name. Chosen is the newest major version of cuBLAS, and the first NCCL, that the driver can run.
func TestEveryPairing(t *testing.T) {
	cuda := filepath.Join(compile(t, "libcuda.so.1", driverSource), "libcuda.so.1")
	blas, sums := map[string]int{}, map[string]int{} // the major version of CUDA by folder
	for range 2 {
		for _, major := range []int{12, 13} {
			blas[compile(t, fmt.Sprintf("libcublas.so.%d", major), cublasSource, fmt.Sprintf("-DMAJOR=%d", major))] = major
			sums[compile(t, "libnccl.so.2", ncclSource, fmt.Sprintf(`-DCUDA="%d.1"`, major))] = major
		}
	}
	blasFolders, sumFolders := slices.Sorted(maps.Keys(blas)), slices.Sorted(maps.Keys(sums))
	for _, driver := range []int{11040, 12000, 12090, 13050} {
		t.Setenv("CUDA_OF_TEST", fmt.Sprint(driver))
		for _, b := range orders(blasFolders) {
			for _, n := range orders(sumFolders) {
				f := Files{CUDA: cuda, Folders: append(slices.Clone(b), n...)}
				d, err := Driver(f)
				if (err == nil) != (driver >= MinCUDA) || d.CUDA != driver {
					t.Fatalf("driver %d: %v, %v", driver, d, err)
				}
				if err != nil {
					break
				}
				expect(t, f, driver, b, blas, true, func() (Library, error) { return CUBLAS(f, driver) })
				expect(t, f, driver, n, sums, false, func() (Library, error) { return NCCL(f, driver) })
			}
		}
	}
}

// orders returns the ordered choices of up to two folders.
func orders(folders []string) (all [][]string) {
	all = append(all, nil)
	for _, a := range folders {
		all = append(all, []string{a})
		for _, b := range folders {
			if b != a {
				all = append(all, []string{a, b})
			}
		}
	}
	return all
}

// expect compares the choice from folders with the rule.
func expect(t *testing.T, f Files, driver int, folders []string, majors map[string]int, newestFirst bool, choose func() (Library, error)) {
	t.Helper()
	want := ""
	for _, folder := range folders {
		if m := majors[folder]; m <= driver/1000 && (want == "" || newestFirst && m > majors[want]) {
			want = folder
		}
	}
	l, err := choose()
	ok := err == nil && filepath.Dir(l.Path) == want
	if want == "" {
		ok = err != nil && strings.Contains(err.Error(), ": install ") && l.Path == ""
	}
	if !ok {
		t.Errorf("driver %d, folders %q: %v, %v, want that of %q", driver, f.Folders, l, err, want)
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestTable lists what exists, also a truncated library, and what exists nowhere.
func TestTable(t *testing.T) {
	t.Setenv("CUDA_OF_TEST", "12040")
	cuda := filepath.Join(compile(t, "libcuda.so.1", driverSource), "libcuda.so.1")
	blas12, blas13 := compile(t, "libcublas.so.12", cublasSource, "-DMAJOR=12"), compile(t, "libcublas.so.13", cublasSource, "-DMAJOR=13")
	cut := t.TempDir()
	whole, err := os.ReadFile(filepath.Join(blas12, "libcublas.so.12"))
	fatal.If(t, err)
	fatal.If(t, os.WriteFile(filepath.Join(cut, "libcublas.so.12"), whole[:2000], 0o755))
	var b strings.Builder
	fatal.If(t, Write(&b, Find(Files{CUDA: cuda, Folders: []string{cut, blas12, blas13, ""}})))
	lines := strings.Split(b.String(), "\n")
	for i, want := range []string{
		"LIBRARY VERSION PATH FITS",
		"driver CUDA 12.4 " + cuda + " yes",
		"cuBLAS 13.1.2 " + blas13 + "/libcublas.so.13 no: needs a driver for CUDA 13, and this one supports CUDA 12.4: install cuBLAS 12, or driver 580 or later",
		"cuBLAS unknown " + cut + "/libcublas.so.12 no: is damaged: EOF: install it again",
		"cuBLAS 12.1.2 " + blas12 + "/libcublas.so.12 yes",
		"NCCL unknown libnccl.so.2 no: cannot open shared object file: No such file or directory",
		"",
	} {
		if i >= len(lines) || strings.Join(strings.Fields(lines[i]), " ") != want {
			t.Errorf("line %d: want %q in\n%s", i, want, b.String())
		}
	}
	if all := Find(Files{CUDA: filepath.Join(cut, "libcublas.so.12")}); !strings.Contains(all[0].Fault, "is damaged: EOF: install it again") {
		t.Errorf("%+v", all)
	}
	// An older cuBLAS, which is not supported, is no remedy.
	l, err := CUBLAS(Files{Folders: []string{blas12}}, 11080)
	if want := "and this one supports CUDA 11.8: install driver 525 or later"; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v, %v, want %s", l, err, want)
	}
	if l, err := CUBLAS(Files{CUBLAS: "libm.so.6"}, 12040); err == nil || !strings.Contains(err.Error(), "is no cuBLAS 12 or 13") {
		t.Errorf("%v, %v", l, err)
	}
}
