package wdl

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/chaos"
	"github.com/wdlrun/wdlrun/internal/patient"
	"github.com/wdlrun/wdlrun/internal/wdl/slots"
	"github.com/wdlrun/wdlrun/internal/wdl/step"
	"github.com/wdlrun/wdlrun/trace"
)

// windows lets a watch look at n windows of a second and ten steps each, in which
// ranks do what by says, and returns all lines.
func windows(w *watch, n int, by func(rank int) effort, ranks int) (lines []string) {
	for range n {
		all := make([]effort, ranks)
		for r := range all {
			all[r] = by(r)
			all[r].batches = 10 * time.Second
		}
		lines = append(lines, w.look(time.Second, 10, all)...)
	}
	return lines
}

const ms = time.Millisecond

// TestSlowRanksAreNamed with the cause: what they read, compute, or are not let to.
func TestSlowRanksAreNamed(t *testing.T) {
	for _, c := range []struct {
		name string
		slow effort
		want string
	}{
		{"input", effort{input: 310 * ms, compute: 200 * ms, cpu: 200 * ms}, "rank 2 on host c is 3.1× slower in input than the median of the ranks"},
		{"compute", effort{input: 100 * ms, compute: 500 * ms, cpu: 480 * ms}, "rank 2 on host c is 2.5× slower in compute than the median of the ranks"},
		{"host", effort{input: 100 * ms, compute: 500 * ms, cpu: 200 * ms}, "rank 2 on host c is 2.5× slower in compute than the median of the ranks: its host does not let it compute"},
	} {
		for _, ranks := range []int{3, 8} {
			w := newWatch(ranks, []string{"a", "b", "c", "d", "e", "f", "g", "h"}[:ranks])
			by := func(rank int) effort {
				if rank == 2 {
					return c.slow
				}
				return effort{input: 100 * ms, compute: 200 * ms, cpu: 200 * ms}
			}
			if lines := windows(w, slowStreak-1, by, ranks); len(lines) > 0 || len(w.report()) > 0 {
				t.Errorf("%s: too early: %q", c.name, lines)
			}
			if lines := windows(w, 11-slowStreak, by, ranks); !slices.Equal(lines, []string{c.want}) {
				t.Errorf("%s: %q, want once %q", c.name, lines, c.want)
			}
			windows(w, 10, func(int) effort { return effort{compute: 200 * ms, cpu: 200 * ms} }, ranks)
			if r := w.report(); len(r) != 1 || r[0].Rank != 2 || r[0].Host != "c" || r[0].Cause != c.name || r[0].Share != 0.5 || r[0].Factor < 2.49 {
				t.Errorf("%s: %+v", c.name, r)
			}
		}
	}
}

// TestNobodyIsNamedForNoise: two ranks that disturb each other at random, steps of
// microseconds, a rank without microbatches.
func TestNobodyIsNamedForNoise(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	noisy := func(int) effort {
		x := time.Duration(100+rng.IntN(150)) * ms
		return effort{input: time.Duration(rng.IntN(40)) * ms, compute: x, cpu: x}
	}
	tiny := func(rank int) effort {
		return effort{input: ms, compute: time.Duration(1+8*rank) * ms, cpu: ms}
	}
	for name, lines := range map[string][]string{"noise": windows(newWatch(2, nil), 200, noisy, 2), "tiny": windows(newWatch(2, nil), 200, tiny, 2)} {
		if len(lines) > 0 {
			t.Errorf("%s: %s", name, strings.Join(lines, "; "))
		}
	}
	w := newWatch(3, nil)
	for range 10 {
		if lines := w.look(time.Second, 10, []effort{{compute: ms, batches: 10 * time.Second, cpu: ms}, {compute: time.Second, cpu: ms}, {}}); len(lines) > 0 {
			t.Errorf("a rank that ended nothing: %q", lines)
		}
	}
}

// TestARankTooSlowForAWindow is named too: what it ends in some windows tells, and
// those in which it ends nothing tell nothing.
func TestARankTooSlowForAWindow(t *testing.T) {
	w := newWatch(3, nil)
	var lines []string
	for i := range 3 * slowStreak {
		x := effort{compute: 200 * ms, cpu: 200 * ms, batches: 10 * time.Second}
		slow := effort{input: ms}
		if i%3 == 0 {
			slow = effort{compute: 2400 * ms, cpu: 2400 * ms, batches: time.Second}
		}
		lines = append(lines, w.look(time.Second, 10, []effort{x, x, slow})...)
	}
	if want := []string{"rank 2 is 120.0× slower in compute than the median of the ranks"}; !slices.Equal(lines, want) {
		t.Errorf("%q, want %q", lines, want)
	}
}

// TestASlowRankIsToldOf while a job runs, whether its steps wait or not. On a machine
// that is busy with other work its host may be the cause, and rightly.
// Steps take microseconds: a slower rank than 100 times would not be worth a word.
func TestASlowRankIsToldOf(t *testing.T) {
	path := clicks(t, 4000)
	for name, how := range map[string]step.Tolerance{"wait": {}, "drop": {Mode: slots.Drop, Backup: 1}} {
		t.Run(name, func(t *testing.T) {
			if name != "drop" {
				everyday(t)
			}
			t.Parallel()
			slow, err := chaos.Parse("slow:600x@1")
			if err != nil {
				t.Fatal(err)
			}
			told := make([]string, 1)
			ctx, cancel := context.WithTimeout(t.Context(), patient.Longest)
			defer cancel()
			onRanks(t, 3, func(comm *collective.Comm) error {
				var j *Job
				j = NewJob(comm, trace.New(0), Options{
					Config: clicksConfig(t, path, "", ""), Set: []string{"train.epochs=1000000", "train.checkpoint.every_steps=100000"}, Out: t.TempDir(),
					Tolerance: how, Chaos: slow, Hosts: []string{"a", "b", "c"},
					Say: func(line string) {
						if strings.HasPrefix(line, "rank 1 ") && strings.Contains(line, "slower") {
							told[0] = line
							j.RequestStop()
						}
					},
				})
				res, err := j.Run(ctx)
				if err == nil && !slices.ContainsFunc(res.SlowRanks, func(s SlowRank) bool { return s.Rank == 1 && s.Cause != "input" }) {
					t.Errorf("%+v", res.SlowRanks)
				}
				return err
			})
			if !strings.HasPrefix(told[0], "rank 1 on host b is ") || !strings.Contains(told[0], "× slower in compute than the median of the ranks") {
				t.Errorf("told %q", told[0])
			}
		})
	}
}
