package command

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/train/report"
)

// Unfinished returns why a training with a result is not finished. launcher is the
// beginning of the command that resumes it.
func Unfinished(launcher string, r report.Result) error {
	switch {
	case r.LastCheckpoint != "":
		return Afterwards(fmt.Errorf("the trained model could not be saved (see above), %s is the last one: free some space and resume from it: %s train -resume %s",
			filepath.Base(r.LastCheckpoint), launcher, QuotedPath(r.RunDir)))
	case r.Checkpoint == "":
		return Afterwards(errors.New("the trained model could not be saved (see above): free some space there or choose another place with -out, and train again"))
	case r.Stopped:
		return Exit(StoppedCode)
	case r.NotLatest != "":
		return Afterwards(fmt.Errorf("the model is saved, but the link %s could not be moved to it and leads to an earlier run or none: %s; free some space, and: ln -sfn %s %s",
			rundir.Latest, r.NotLatest, QuotedPath(filepath.Base(r.RunDir)), QuotedPath(filepath.Join(filepath.Dir(r.RunDir), rundir.Latest))))
	case r.Gate.Closed():
		return Exit(GateCode)
	}
	return nil
}

// GateCode is the exit code of a training whose model train.gate rejects.
const GateCode = 3

// Gated describes the comparison of a model with the one before it.
func Gated(r report.Result) string {
	if g := r.Gate; g.Closed() {
		return fmt.Sprintf("rejected by train.gate: %s; the run is kept, and latest is not moved", g.Rejected)
	}
	return fmt.Sprintf("accepted by train.gate: no worse than %s", r.Gate.From)
}

// StoppedCode is the exit code of a training stopped by a signal to a rank: 128 + SIGTERM,
// so that other launchers do not count the rank as finished.
const StoppedCode = 143
