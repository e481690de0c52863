// Package cudatest builds stand-ins of libcuda and libcublas with gcc, for tests on
// machines without a device. The sources in src describe what they check.
package cudatest

import (
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed src
var sources embed.FS

// Files are the libraries of a build, in one folder.
type Files struct{ Folder, CUDA, CUBLAS string }

// FilesIn are the libraries of a folder that Build has filled.
func FilesIn(folder string) Files {
	return Files{folder, filepath.Join(folder, "libcuda.so.1"), filepath.Join(folder, "libcublas.so.12")}
}

// Main builds the libraries in a temporary folder and returns the exit code of run. It is the
// TestMain of packages whose tests use them. kernels and flags are as in Build.
func Main(kernels string, run func(Files) int, flags ...string) int {
	folder, err := os.MkdirTemp("", "cudatest-")
	defer os.RemoveAll(folder)
	if err == nil {
		var f Files
		if f, err = Build(folder, kernels, flags...); err == nil {
			return run(f)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// Watched is a flag of Build: tests can break an instruction of the PTX, and ask which were executed.
const Watched = "-DWATCHED"

// Build compiles the libraries into a folder. kernels is the PTX of the kernels, which is what runs
// and the only PTX that the driver loads, or their C source, whose twins run. flags are passed to the compiler.
func Build(folder, kernels string, flags ...string) (f Files, err error) {
	f = FilesIn(folder)
	if isPTX(kernels) {
		if kernels, err = translate(kernels); err != nil {
			return f, err
		}
	}
	for _, name := range []string{"standin.h", "cuda.c", "cublas.c"} {
		text, err := sources.ReadFile("src/" + name)
		if err != nil {
			return f, err
		}
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			return f, err
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "kernels.c"), []byte(kernels), 0o600); err != nil {
		return f, err
	}
	if err := f.compile(append(flags, "-Wl,-soname,libcuda.so.1", "-o", f.CUDA, "cuda.c", "kernels.c", "-lpthread", "-ldl", "-lm")...); err != nil {
		return f, err
	}
	return f, f.BuildCUBLAS(folder, 12)
}

// BuildCUBLAS compiles a cuBLAS of a major version into a folder. It needs a driver of this version.
func (f Files) BuildCUBLAS(folder string, major int) error {
	name := fmt.Sprintf("libcublas.so.%d", major)
	return f.compile(fmt.Sprintf("-DMAJOR=%d", major), "-Wl,-soname,"+name, "-Wl,-rpath,"+f.Folder, "-o", filepath.Join(folder, name), "cublas.c", "-L.", "-l:libcuda.so.1")
}

// compile runs gcc in the folder of the sources.
func (f Files) compile(args ...string) error {
	command := exec.Command("gcc", append([]string{"-shared", "-fPIC", "-O3", "-march=native", "-ffp-contract=off", "-fno-math-errno", "-Wall", "-Wextra", "-Werror"}, args...)...)
	command.Dir = f.Folder
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("cudatest: gcc: %w\n%s", err, out)
	}
	return nil
}
