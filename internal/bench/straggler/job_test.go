package straggler

import (
	"encoding/json"
	"flag"
	"fmt"
	"testing"

	"github.com/wdlrun/wdlrun/internal/model/slots"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/train/chaos"
)

// faults returns the injectors of a text.
func faults(t *testing.T, text string, size int) func(int) *chaos.Injector {
	s, err := chaos.Parse(text)
	fatal.If(t, err)
	plan := s.Plan(1, size)
	return func(r int) *chaos.Injector { return chaos.NewInjector(plan, r) }
}

var (
	cluster = flag.Bool("cluster", false, "TestCluster: the trainer's steps on 8, 32 and 64 ranks (minutes)")
	virtual = flag.Int("np", 0, "TestVirtual: `RANKS` of a job in virtual time, with -backup, -speculate, -stalls and -chaos")
	backup  = flag.Int("backup", 0, "TestVirtual: microbatches that may be late")
	repeat  = flag.Bool("speculate", false, "TestVirtual: idle ranks repeat late slots")
	stalls  = flag.Float64("stalls", 0, "TestVirtual: share of microbatches that stall, for 4 steps on average")
	chaotic = flag.String("chaos", "", "TestVirtual: slow and stop faults")
	seed    = flag.Uint64("seed", 1, "TestVirtual: `SEED` of the stalls")
	length  = flag.Int64("steps", 150, "TestVirtual, TestCluster: steps that are measured")
)

func drop(b int) step.Tolerance { return step.Tolerance{Mode: slots.Drop, Backup: b} }

var speculate = step.Tolerance{Mode: slots.Speculate}

// ratios prints throughputs relative to one of them, as design/0003 quotes them.
type ratios struct {
	t    *testing.T
	base measured
}

func (r *ratios) line(name string, m measured) float64 {
	x := m.SamplesPerSecond / r.base.SamplesPerSecond
	r.t.Logf("| %s | %.0f | %.2f |", name, m.SamplesPerSecond, x)
	return x
}

// TestJob: the trainer's own steps in virtual time, with and without a slow rank.
func TestJob(t *testing.T) {
	steps := int64(150) // in fewer the first ones, which know no usual time yet, weigh too much
	healthy := simulated(t, 8, job{steps: steps, tolerance: drop(1)})
	r := ratios{t, healthy}
	r.line("8 ranks, N = 7 of 8", healthy)
	if x := r.line("the same, one 5× slower", simulated(t, 8, job{steps: steps, tolerance: drop(1), faults: faults(t, "slow:5x@5", 8)})); x < 0.95 {
		t.Errorf("one slow rank leaves %.3f of the throughput, want 0.95", x)
	}
}

// TestCluster prints what design/0003 quotes of the modes, by number of ranks:
//
//	go test ./internal/bench/straggler -run TestCluster/32 -cluster -v
func TestCluster(t *testing.T) {
	if !*cluster {
		t.Skip("minutes; -cluster")
	}
	t.Run("8", func(t *testing.T) {
		slow := faults(t, "slow:5x@5", 8)
		wait := simulated(t, 8, job{steps: *length})
		r := ratios{t, wait}
		r.line("8 ranks, wait", wait)
		r.line("the same, one 5× slower", simulated(t, 8, job{steps: *length, faults: slow}))
		r.line("8 ranks, speculate, one 5× slower", simulated(t, 8, job{steps: *length, tolerance: speculate, faults: slow}))
	})
	for _, c := range []struct {
		n, b  int
		least float64 // what is reached, not what was hoped for; see design/0003
	}{{32, 3, 1.4}, {64, 5, 2}} {
		t.Run(fmt.Sprint(c.n), func(t *testing.T) {
			stalls := job{steps: *length, stallShare: 0.01, seed: 1}
			plain := simulated(t, c.n, stalls)
			r := ratios{t, plain}
			r.line(fmt.Sprintf("%d ranks, stalls, wait", c.n), plain)
			stalls.tolerance = drop(c.b)
			if x := r.line(fmt.Sprintf("the same, b = %d", c.b), simulated(t, c.n, stalls)); x < c.least {
				t.Errorf("%.2f× of wait, want %.2f×", x, c.least)
			}
			stalls.tolerance = speculate
			r.line("the same, speculate", simulated(t, c.n, stalls))
			stalls.tolerance, stalls.stallShare = step.Tolerance{}, 0
			r.line(fmt.Sprintf("%d ranks, no stalls, wait", c.n), simulated(t, c.n, stalls))
		})
	}
}

// TestVirtual prints the measurement of any job as JSON:
//
//	go test ./internal/bench/straggler -run TestVirtual -v -np 32 -backup 3 -stalls .01
func TestVirtual(t *testing.T) {
	if *virtual == 0 {
		t.Skip("-np RANKS")
	}
	j := job{steps: *length, stallShare: *stalls, seed: *seed}
	if *backup > 0 {
		j.tolerance = drop(*backup)
	} else if *repeat {
		j.tolerance = speculate
	}
	if *chaotic != "" {
		j.faults = faults(t, *chaotic, *virtual)
	}
	b, err := json.Marshal(simulated(t, *virtual, j))
	fatal.If(t, err)
	t.Logf("%s", b)
}
