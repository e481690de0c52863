//go:build gpu

package nccl

import (
	"testing"

	"github.com/wdlrun/wdlrun/internal/gpu/cudatest"
)

// TestMutationsAreCaught breaks the C code in the ways in which such bindings are broken,
// and runs the tests that find it.
func TestMutationsAreCaught(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the package again for each mutation")
	}
	for _, k := range []struct{ name, from, to, test string }{
		{"no context is set",
			"	int rc = c->lib->set_context(c->context);\n", "	int rc = 0;\n", "TestGroup"},
		{"a group stays open after an error",
			"	int end = c->lib->group_end();\n	return rc ?", "	int end = rc ? rc : c->lib->group_end();\n	return rc ?", "TestErrorsAreThoseOfTheirCall"},
		{"the error is read after another call",
			"		rc = told(c->lib, c->comm, rc == NATIVE_IN_PROGRESS ? NATIVE_SUCCESS : rc, c->error);\n	}\n	int end = c->lib->group_end();\n",
			"	}\n	int end = c->lib->group_end();\n	told(c->lib, c->comm, rc, c->error);\n", "TestErrorsAreThoseOfTheirCall"},
		{"the state of the communicator is not asked for",
			"rc ? rc : told(c->lib, c->comm, state, c->error)", "rc", "TestWaitFindsLateErrors"},
		{"calls block",
			".blocking = 0,", ".blocking = 1,", "TestGroup"},
	} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			cudatest.Mutant(t, "native.c", k.from, k.to, k.test)
		})
	}
}
