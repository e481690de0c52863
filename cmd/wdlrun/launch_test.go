package main

import (
	"testing"

	"github.com/wdlrun/wdlrun/internal/wdl/report"
)

// TestLikeRank0 holds the exit code of a rank that prints nothing to that of rank 0.
func TestLikeRank0(t *testing.T) {
	const saved = "runs/r/checkpoints/step-3"
	for _, x := range []struct {
		name   string
		result any
		want   error
	}{
		{"finished", report.Result{Checkpoint: saved}, nil},
		{"stopped", report.Result{Checkpoint: saved, Stopped: true}, exit(stoppedCode)},
		{"not saved at the end", report.Result{LastCheckpoint: saved}, exit(1)},
		{"never saved", report.Result{Stopped: true}, exit(1)},
		{"another command", 3, nil},
	} {
		if err := likeRank0(2, x.result); err != x.want {
			t.Errorf("%s: %v, want %v", x.name, err, x.want)
		}
	}
}
