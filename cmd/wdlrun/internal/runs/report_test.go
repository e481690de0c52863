package runs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestTheRunOfAFolderIsNamed: a report about a folder of runs names the run that it takes, and one about a run
// names nothing.
func TestTheRunOfAFolderIsNamed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs")
	for _, name := range []string{"a", "b"} {
		fatal.If(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
		fatal.If(t, os.WriteFile(filepath.Join(dir, name, rundir.FileConfig), nil, 0o644))
	}
	fatal.If(t, os.Symlink("a", filepath.Join(dir, rundir.Latest)))
	for path, want := range map[string]string{
		dir: "wdlrun: " + dir + " is a folder of runs: the report is about " + filepath.Join(dir, "a") +
			", which finished last; for all of them: wdlrun report " + dir + "/*\n",
		filepath.Join(dir, "b"):           "",
		filepath.Join(dir, rundir.Latest): "",
		filepath.Join(dir, "nowhere"):     "",
	} {
		var b strings.Builder
		nameLatest(&b, []string{path})
		if b.String() != want {
			t.Errorf("%s: %q, want %q", path, &b, want)
		}
	}
}
