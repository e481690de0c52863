package command

import (
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/train/report"
)

// TestLatestThatDidNotMove: a training whose link latest could not be moved is an error, with the command
// that moves it; so a command after it does not use the model of before.
func TestLatestThatDidNotMove(t *testing.T) {
	r := report.Result{Checkpoint: "runs/b/checkpoints/step-000000001", RunDir: "runs/b"}
	if err := Unfinished("wdlrun", r); err != nil {
		t.Error(err)
	}
	r.NotLatest = "rename: no space left on device"
	if err := Unfinished("wdlrun", r); err == nil || !strings.Contains(err.Error(), "no space left on device") || !strings.HasSuffix(err.Error(), "ln -sfn b runs/latest") {
		t.Error(err)
	}
}
