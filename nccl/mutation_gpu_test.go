//go:build gpu

package nccl

import (
	"testing"

	"github.com/wdlrun/wdlrun/internal/gpu/cudatest"
)

// TestMutationsAreCaught breaks the binding in the ways in which such bindings are broken, and runs
// the tests that find it.
func TestMutationsAreCaught(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the package again for each mutation")
	}
	for _, k := range []struct{ name, file, from, to, test string }{
		{"no context is set", "native.c",
			"	int rc = c->lib->set_context(c->context);\n", "	int rc = 0;\n", "TestGroup"},
		{"a group stays open after an error", "native.c",
			"	int end = c->lib->group_end();\n	return rc ?", "	int end = rc ? rc : c->lib->group_end();\n	return rc ?", "TestErrorsAreThoseOfTheirCall"},
		{"the error is read after another call", "native.c",
			"		rc = told(c->lib, c->comm, rc == NATIVE_IN_PROGRESS ? NATIVE_SUCCESS : rc, c->error);\n	}\n	int end = c->lib->group_end();\n",
			"	}\n	int end = c->lib->group_end();\n	told(c->lib, c->comm, rc, c->error);\n", "TestErrorsAreThoseOfTheirCall"},
		{"the state of the communicator is not asked for", "native.c",
			"rc ? rc : told(c->lib, c->comm, state, c->error)", "rc", "TestWaitFindsLateErrors"},
		{"calls block", "native.c",
			".blocking = 0,", ".blocking = 1,", "TestGroup"},
		{"a field that was padding is not set", "native.c",
			", .trafficClass = NATIVE_UNDEFINED", "", "TestGroup"},
		{"a launch in progress counts as done", "comm.go",
			"	if rc == success {\n		return nil\n	}\n	rc, err := c.waitDone(context.Background()", "	if rc == success || rc == inProgress {\n		return nil\n	}\n	rc, err := c.waitDone(context.Background()", "TestLaunchesInProgress"},
		{"launches share their thread", "comm.go",
			"	runtime.LockOSThread() // until", "	// until", "TestLaunchesInProgress"},
		{"the memory of a part that is given up is freed", "comm.go",
			"		n.drop()\n		return nil, err\n", "		n.free()\n		return nil, err\n", "TestSplitGivesUp"},
		{"initialisation shares its thread", "library.go",
			"		runtime.LockOSThread()\n		err := f()\n", "		err := f()\n", "TestThreadsOfCalls"},
		{"the thread of a failed initialisation is used again", "library.go",
			"	done := make(chan error, 1)\n	go func() {\n		runtime", "	done := make(chan error, 1)\n	func() {\n		runtime", "TestThreadsOfCalls"},
	} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			cudatest.Mutant(t, k.file, k.from, k.to, k.test)
		})
	}
}
