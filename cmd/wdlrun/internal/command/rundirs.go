package command

import (
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"
	"github.com/wdlrun/wdlrun/internal/runs"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
)

// ResumeAuto is the value of -resume that selects the newest run.
const ResumeAuto = "auto"

// RunOf returns the run directory or checkpoint in a flag.
func RunOf(c *cli.Context, flag, out string) string { return RunAt(PathOf(c, flag), out) }

// RunAt returns the run directory or checkpoint that a user names. The word latest means the run that
// finished last in the folder out, a name without a folder a run in out, and a folder of runs the one
// that finished last in it.
func RunAt(path, out string) string {
	if _, err := os.Lstat(path); err != nil && path != "" && filepath.Base(path) == path {
		if in := filepath.Join(out, path); path == rundir.Latest || runs.IsRun(in) {
			path = in
		}
	}
	if path != "" && !runs.IsRun(path) {
		if run := rundir.LatestOf(path); run != "" { // a folder of runs
			return run
		}
	}
	return rundir.Real(path)
}

// RunsFolder is the folder in which train makes run directories by default.
const RunsFolder = "runs"
