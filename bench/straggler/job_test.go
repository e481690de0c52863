package straggler

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wdlrun/wdlrun/rank/commit"
	"github.com/wdlrun/wdlrun/wdl"
)

func simulated(t *testing.T, ranks int, job Job) (m Measured) {
	t.Helper()
	job.Compute = 10 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		var err error
		if m, err = Simulate(ranks, job); err != nil {
			t.Fatal(err)
		}
	})
	return m
}

// TestJob holds the throughput of the trainer's own steps in virtual time, with
// slow ranks beside without.
func TestJob(t *testing.T) {
	drop := func(b int) wdl.Tolerance { return wdl.Tolerance{Mode: commit.Drop, Backup: b} }
	var out strings.Builder
	line := func(name string, m, base Measured) float64 {
		x := m.SamplesPerSecond / base.SamplesPerSecond
		fmt.Fprintf(&out, "%-40s %9.0f samples/s %5.2f×  %4d late\n", name, m.SamplesPerSecond, x, m.LateSlots)
		return x
	}
	slow := faults(t, "slow:5x@5", 8)
	const steps = 100
	healthy := simulated(t, 8, Job{Steps: steps, Tolerance: drop(1)})
	wait := simulated(t, 8, Job{Steps: steps})
	line("8 ranks, wait", wait, healthy)
	line("8 ranks, b 1", healthy, healthy)
	line("8 ranks, wait, one 5× slower", simulated(t, 8, Job{Steps: steps, Faults: slow}), healthy)
	if x := line("8 ranks, b 1, one 5× slower", simulated(t, 8, Job{Steps: steps, Tolerance: drop(1), Faults: slow}), healthy); x < 0.95 {
		t.Errorf("one slow rank leaves %.3f of the throughput, want 0.95", x)
	}
	line("8 ranks, speculate, one 5× slower", simulated(t, 8, Job{Steps: steps, Tolerance: wdl.Tolerance{Mode: commit.Speculate}, Faults: slow}), healthy)
	ranks := []struct{ n, b int }{{32, 3}, {64, 4}}
	if testing.Short() {
		ranks = nil
	}
	for _, c := range ranks {
		stalls := Job{Steps: 150, StallShare: 0.01, Seed: 1}
		plain := simulated(t, c.n, stalls)
		line(fmt.Sprintf("%d ranks, stalls, wait", c.n), plain, plain)
		stalls.Tolerance = drop(c.b)
		line(fmt.Sprintf("%d ranks, stalls, b %d", c.n, c.b), simulated(t, c.n, stalls), plain)
		stalls.Tolerance = wdl.Tolerance{Mode: commit.Speculate}
		line(fmt.Sprintf("%d ranks, stalls, speculate", c.n), simulated(t, c.n, stalls), plain)
	}
	t.Log("\n" + out.String())
}
