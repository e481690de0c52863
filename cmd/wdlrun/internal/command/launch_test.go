package command

import (
	"testing"

	"github.com/wdlrun/wdlrun/internal/train/report"
)

// TestLikeRank0: a rank that prints no result exits with the same code as rank 0.
func TestLikeRank0(t *testing.T) {
	const saved = "runs/r/checkpoints/step-3"
	for _, x := range []struct {
		name   string
		result any
		want   error
	}{
		{"finished", report.Result{Checkpoint: saved}, nil},
		{"stopped", report.Result{Checkpoint: saved, Stopped: true}, Exit(StoppedCode)},
		{"not saved at the end", report.Result{LastCheckpoint: saved}, Exit(1)},
		{"never saved", report.Result{Stopped: true}, Exit(1)},
		{"another command", 3, nil},
	} {
		if err := likeRank0(x.result); err != x.want {
			t.Errorf("%s: %v, want %v", x.name, err, x.want)
		}
	}
}

// TestNextNamesHosts: the proposed commands start on the same hosts.
func TestNextNamesHosts(t *testing.T) {
	p := &Program{hosts: " -H a:2,b:2"}
	if got := p.Starts(4); got != "wdlrun -np 4 -H a:2,b:2" {
		t.Error(got)
	}
}
