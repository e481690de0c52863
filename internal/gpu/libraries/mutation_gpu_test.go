//go:build gpu

package libraries

import (
	"testing"

	"github.com/wdlrun/wdlrun/internal/gpu/cudatest"
)

// TestMutationsAreCaught breaks the choice and runs the tests that find it.
func TestMutationsAreCaught(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the package again for each mutation")
	}
	for _, k := range []struct{ name, file, from, to, test string }{
		{"a library for a later driver is accepted", "libraries.go", "l.CUDA/1000 <= cuda/1000 ||", "l.CUDA/1000 <= cuda ||", "TestPairsOfDriverAndLibrary"},
		{"an old cuBLAS is tried first", "libraries.go", "for major := newest; major >= oldest; major--", "for major := oldest; major <= newest; major++", "TestPairsOfDriverAndLibrary"},
		{"the CUDA of NCCL is not read", "compiled.go", "1000*major + 10*minor", "major - major + minor - minor", "TestPairsOfDriverAndLibrary"},
		{"a damaged file counts as missing", "probe_gpu.go", "probed{fault: err.Error()}", "probed{fault: err.Error(), missing: true}", "TestTable"},
	} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			cudatest.Mutant(t, k.file, k.from, k.to, k.test)
		})
	}
}
