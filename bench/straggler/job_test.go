package straggler

import (
	"flag"
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

var cluster = flag.Bool("cluster", false, "TestJob: all cases, up to 64 ranks (minutes)")

// TestJob: the trainer's own steps in virtual time, with a slow rank beside
// without. It prints what design/0003 quotes.
func TestJob(t *testing.T) {
	drop := func(b int) wdl.Tolerance { return wdl.Tolerance{Mode: commit.Drop, Backup: b} }
	var out strings.Builder
	line := func(name string, m, base Measured) float64 {
		x := m.SamplesPerSecond / base.SamplesPerSecond
		fmt.Fprintf(&out, "| %s | %.0f | %.2f |\n", name, m.SamplesPerSecond, x)
		return x
	}
	slow, speculate := faults(t, "slow:5x@5", 8), wdl.Tolerance{Mode: commit.Speculate}
	steps := int64(150) // in fewer the first ones, which know no usual time yet, weigh too much
	healthy := simulated(t, 8, Job{Steps: steps, Tolerance: drop(1)})
	line("8 ranks, N = 7 of 8", healthy, healthy)
	if x := line("the same, one 5× slower", simulated(t, 8, Job{Steps: steps, Tolerance: drop(1), Faults: slow}), healthy); x < 0.95 {
		t.Errorf("one slow rank leaves %.3f of the throughput, want 0.95", x)
	}
	if *cluster {
		wait := simulated(t, 8, Job{Steps: steps})
		line("8 ranks, wait", wait, wait)
		line("the same, one 5× slower", simulated(t, 8, Job{Steps: steps, Faults: slow}), wait)
		line("8 ranks, speculate, one 5× slower", simulated(t, 8, Job{Steps: steps, Tolerance: speculate, Faults: slow}), wait)
		for _, c := range []struct{ n, b int }{{32, 3}, {64, 4}} {
			stalls := Job{Steps: steps, StallShare: 0.01, Seed: 1}
			plain := simulated(t, c.n, stalls)
			line(fmt.Sprintf("%d ranks, stalls, wait", c.n), plain, plain)
			stalls.Tolerance = drop(c.b)
			line(fmt.Sprintf("the same, b = %d", c.b), simulated(t, c.n, stalls), plain)
			stalls.Tolerance = speculate
			line("the same, speculate", simulated(t, c.n, stalls), plain)
			stalls.Tolerance, stalls.StallShare = wdl.Tolerance{}, 0
			line(fmt.Sprintf("%d ranks, no stalls, wait", c.n), simulated(t, c.n, stalls), plain)
		}
	}
	t.Log("\n" + out.String())
}
