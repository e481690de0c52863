//go:build gpu

package cuda_test

import (
	"testing"

	"github.com/wdlrun/wdlrun/internal/gpu/cudatest"
)

// TestMutationsAreCaught breaks the C code in the ways in which such bindings are broken, and
// runs the tests that find it.
func TestMutationsAreCaught(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the package again for each mutation")
	}
	for name, x := range map[string]struct{ from, to, test string }{
		"no context is set":              {"#define WITHIN(c) TRY(cuCtxSetCurrent(c))", "#define WITHIN(c) (void)(c)", "TestCallsSetTheContext"},
		"a status is ignored":            {"	return cuEventRecord(e, s);", "	return cuEventRecord(e, s), 0;", "TestErrorsNameTheCall"},
		"a status of cuBLAS":             {"cause && cause != not_ready ? cause : code + cublas_status;", "cause && cause != not_ready ? cause : 0;", "TestErrorsNameTheCall"},
		"the driver is not asked":        {"	int cause = cuStreamQuery(s);", "	int cause = 0;", "TestFaultsOfKernels"},
		"products ignore their stream":   {"	int code = cublasSetStream_v2(b, s);", "	int code = 0;", "TestMultiply"},
		"a stream does not wait":         {"	return cuStreamWaitEvent(s, e, 0);", "	return 0;", "TestErrorsNameTheCall"},
		"the driver's status is dropped": {"	BLAS(cublasCreate_v2(b));", "	cublasCreate_v2(b);", "TestLibrariesThatAreMissing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cudatest.Mutant(t, "cuda.c", x.from, x.to, x.test)
		})
	}
}
