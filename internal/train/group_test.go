package train

import (
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
)

func single() *collective.Comm { return collective.New(mem.New(1, 2)[0]) }

// everyday skips a test in short runs.
func everyday(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("skipped with -short")
	}
}
