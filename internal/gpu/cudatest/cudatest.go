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
// TestMain of packages whose tests use them.
func Main(kernels string, run func(Files) int) int {
	folder, err := os.MkdirTemp("", "cudatest-")
	defer os.RemoveAll(folder)
	if err == nil {
		var f Files
		if f, err = Build(folder, kernels); err == nil {
			return run(f)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// Build compiles the libraries into a folder. kernels is the source of the kernels, whose twins run.
func Build(folder, kernels string) (f Files, err error) {
	f = FilesIn(folder)
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
	flags := []string{"-shared", "-fPIC", "-O3", "-march=native", "-ffp-contract=off", "-fno-math-errno", "-Wall", "-Wextra", "-Werror"}
	for _, args := range [][]string{
		{"-Wl,-soname,libcuda.so.1", "-o", f.CUDA, "cuda.c", "kernels.c", "-lpthread", "-ldl", "-lm"},
		{"-Wl,-soname,libcublas.so.12", "-Wl,-rpath,$ORIGIN", "-o", f.CUBLAS, "cublas.c", "-L.", "-l:libcuda.so.1"},
	} {
		command := exec.Command("gcc", append(flags, args...)...)
		command.Dir = folder
		if out, err := command.CombinedOutput(); err != nil {
			return f, fmt.Errorf("cudatest: gcc: %w\n%s", err, out)
		}
	}
	return f, nil
}
