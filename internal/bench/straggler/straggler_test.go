package straggler

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/chaos"
	"github.com/wdlrun/wdlrun/internal/commit"
	"github.com/wdlrun/wdlrun/internal/golden"
)

// faults returns the injectors of a text.
func faults(t *testing.T, text string, size int) func(int) Faults {
	s, err := chaos.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	plan := s.Plan(1, size)
	return func(r int) Faults { return chaos.NewInjector(plan, r) }
}

func run(t *testing.T, c Config) Result {
	t.Helper()
	r, err := Run(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestThroughput holds the figures of virtual time, which no machine can blur:
// the throughput of jobs with slow ranks beside jobs without.
func TestThroughput(t *testing.T) {
	var out strings.Builder
	line := func(name string, r, base Result) float64 {
		share := r.SamplesPerSecond / base.SamplesPerSecond
		fmt.Fprintf(&out, "%-46s %9.0f samples/s  %5.2f×  %5d late  b %d\n", name, r.SamplesPerSecond, share, r.LateSlots, r.Backup)
		return share
	}
	at := func(c Config) Config { c.Steps = 600; return c }
	slow := faults(t, "slow:5x@5", 8)
	base := run(t, at(Config{Ranks: 8}))
	// N = 7 of 8 is the most that 8 healthy ranks commit with one backup.
	healthy := run(t, at(Config{Ranks: 8, Mode: commit.Drop, Backup: 1}))
	line("8 ranks, wait", base, base)
	line("8 ranks, wait, one 5x slower", run(t, at(Config{Ranks: 8, Faults: slow})), base)
	line("8 ranks, backup 1", healthy, base)
	if s := line("8 ranks, backup 1, one 5x slower (of the above)", run(t, at(Config{Ranks: 8, Mode: commit.Drop, Backup: 1, Faults: slow})), healthy); s < 0.95 {
		t.Errorf("backup 1 keeps %.3f of the throughput of healthy ranks, want 0.95", s)
	}
	// What dropping can win is bounded by the share (P−b)/P of a step without
	// stalls: the factor that is reached is held, whatever was hoped for.
	for _, c := range []struct {
		ranks, backup int
		least         float64
	}{{32, 3, 1.75}, {64, 4, 2}} {
		ideal := run(t, at(Config{Ranks: c.ranks}))
		stalls := at(Config{Ranks: c.ranks, StallShare: 0.01, Seed: 1})
		wait := run(t, stalls)
		line(fmt.Sprintf("%d ranks, wait", c.ranks), ideal, wait)
		line(fmt.Sprintf("%d ranks, stalls, wait", c.ranks), wait, wait)
		stalls.Mode, stalls.Backup = commit.Drop, c.backup
		if s := line(fmt.Sprintf("%d ranks, stalls, backup %d", c.ranks, c.backup), run(t, stalls), wait); s < c.least {
			t.Errorf("%d ranks with stalls are %.2f× faster with backups, want %.2f×", c.ranks, s, c.least)
		}
		stalls.Auto, stalls.Backup = true, 0
		line(fmt.Sprintf("%d ranks, stalls, backup auto from 0", c.ranks), run(t, stalls), wait)
	}
	golden.Check(t, "throughput.txt", out.String())
}

// TestCompare: the lines of a comparison are the jobs they name.
func TestCompare(t *testing.T) {
	c := Config{Ranks: 8, Steps: 100, Faults: faults(t, "slow:5x@5", 8)}
	lines, err := Compare(c)
	if err != nil {
		t.Fatal(err)
	}
	dropping := c
	dropping.Mode, dropping.Backup = commit.Drop, 1
	want := []Result{run(t, Config{Ranks: 8, Steps: 100}), run(t, c), run(t, dropping)}
	for i, w := range want {
		if l := lines[i]; l.SamplesPerSecond != w.SamplesPerSecond || l.LateSlots != w.LateSlots || l.Share != w.SamplesPerSecond/want[0].SamplesPerSecond {
			t.Errorf("%+v, want %+v", l, w)
		}
	}
	if len(lines) != 4 || lines[3].Name != "speculate" || lines[3].Share <= lines[1].Share {
		t.Errorf("%+v", lines)
	}
	if _, err := Compare(Config{Ranks: 1}); err == nil {
		t.Error("one rank is compared")
	}
}

// TestSpeculateDoesNotDependOnTiming: whoever is slow, the commit sets are the same.
func TestSpeculateDoesNotDependOnTiming(t *testing.T) {
	want := uint64(0)
	for seed := range uint64(4) {
		c := Config{Ranks: 8, Slots: 6, Mode: commit.Speculate, Steps: 60, Seed: seed, StallShare: 0.05}
		if seed == 0 {
			c.StallShare = 0
		}
		r := run(t, c)
		if seed == 0 {
			want = r.Digest
		}
		if r.Digest != want || r.CommittedSamples != 60*6*1024 {
			t.Errorf("seed %d: digest %x of %d samples, want %x", seed, r.Digest, r.CommittedSamples, want)
		}
	}
}

// TestStepTime: without stragglers a step takes what the cost model says.
func TestStepTime(t *testing.T) {
	k := DefaultCosts()
	r := run(t, Config{Ranks: 4, Steps: 100})
	got := time.Duration(r.Seconds / 100 * float64(time.Second))
	if want := k.step(); got < want-want/200 || got > want+want/200 {
		t.Errorf("a step takes %v, the model says %v", got, want)
	}
}

func TestConfigFaults(t *testing.T) {
	for _, c := range []Config{{}, {Ranks: 9999}, {Ranks: 2, Backup: 1}, {Ranks: 2, Mode: commit.Drop, Backup: 2},
		{Ranks: 2, StallShare: 2}, {Ranks: 2, Costs: Costs{Compute: -1}}, {Ranks: 2, Steps: -1}} {
		if _, err := Run(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}
