package report

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// windows adds n windows of a second and ten steps each to a watch, with the efforts that by
// returns, and returns all messages.
func windows(w *watch, n int, by func(rank int) Effort, ranks int) (lines []string) {
	for range n {
		all := make([]Effort, ranks)
		for r := range all {
			all[r] = by(r)
			all[r].Batches = 10 * time.Second
		}
		lines = append(lines, w.addWindow(time.Second, 10, all)...)
	}
	return lines
}

const ms = time.Millisecond

// TestSlowRanksAreNamed: slow ranks are reported with the cause: input, compute or host.
func TestSlowRanksAreNamed(t *testing.T) {
	for _, c := range []struct {
		name string
		slow Effort
		want string
	}{
		{"input", Effort{Input: 310 * ms, Compute: 200 * ms, CPU: 200 * ms}, "rank 2 on host c is 3.1× slower in input than the median of the ranks"},
		{"compute", Effort{Input: 100 * ms, Compute: 500 * ms, CPU: 480 * ms}, "rank 2 on host c is 2.5× slower in compute than the median of the ranks"},
		{"host", Effort{Input: 100 * ms, Compute: 500 * ms, CPU: 200 * ms}, "rank 2 on host c is 2.5× slower in compute than the median of the ranks: its host does not let it compute"},
	} {
		for _, ranks := range []int{3, 8} {
			w := newWatch(ranks, []string{"a", "b", "c", "d", "e", "f", "g", "h"}[:ranks])
			by := func(rank int) Effort {
				if rank == 2 {
					return c.slow
				}
				return Effort{Input: 100 * ms, Compute: 200 * ms, CPU: 200 * ms}
			}
			if lines := windows(w, slowStreak-1, by, ranks); len(lines) > 0 || len(w.report()) > 0 {
				t.Errorf("%s: too early: %q", c.name, lines)
			}
			if lines := windows(w, 11-slowStreak, by, ranks); !slices.Equal(lines, []string{c.want}) {
				t.Errorf("%s: %q, want once %q", c.name, lines, c.want)
			}
			windows(w, 10, func(int) Effort { return Effort{Compute: 200 * ms, CPU: 200 * ms} }, ranks)
			if r := w.report(); len(r) != 1 || r[0].Rank != 2 || r[0].Host != "c" || r[0].Cause != c.name || r[0].Share != 0.5 || r[0].Factor < 2.49 {
				t.Errorf("%s: %+v", c.name, r)
			}
		}
	}
}

// TestSlowRanksDoNotFlicker: a rank is slow until several windows are below the lower factor, and a
// rank that is always a little slower is probably slow.
func TestSlowRanksDoNotFlicker(t *testing.T) {
	w := newWatch(3, nil)
	step := func(n int, compute time.Duration) string {
		windows(w, n, func(rank int) Effort {
			x := 600 * ms
			if rank == 1 {
				x = compute
			}
			return Effort{Compute: x, CPU: x}
		}, 3)
		switch now := w.now(); {
		case len(now) == 1 && now[0].Rank == 1 && now[0].Probable:
			return fmt.Sprintf("probably %.1f", now[0].Factor)
		case len(now) == 1 && now[0].Rank == 1:
			return fmt.Sprintf("slow %.1f", now[0].Factor)
		case len(now) > 0:
			return fmt.Sprint(now)
		}
		return ""
	}
	for i, c := range []struct {
		windows int
		compute time.Duration
		want    string
	}{
		{slowStreak, 1200 * ms, "slow 2.0"}, {1, 630 * ms, "slow 2.0"}, {50, 780 * ms, "slow 1.3"}, {slowStreak - 1, 630 * ms, "slow 1.3"}, {1, 630 * ms, ""},
		{probableStreak - 1, 780 * ms, ""}, {1, 780 * ms, "probably 1.3"}, {slowStreak - 1, 600 * ms, "probably 1.3"}, {1, 600 * ms, ""},
	} {
		if got := step(c.windows, c.compute); got != c.want {
			t.Errorf("%d: %q, want %q", i, got, c.want)
		}
	}
}

// TestNobodyIsNamedForNoise: no rank is reported if two ranks disturb each other at random,
// if steps take microseconds, or if a rank has no microbatches.
func TestNobodyIsNamedForNoise(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	noisy := func(int) Effort {
		x := time.Duration(100+rng.IntN(150)) * ms
		return Effort{Input: time.Duration(rng.IntN(40)) * ms, Compute: x, CPU: x}
	}
	tiny := func(rank int) Effort {
		return Effort{Input: ms, Compute: time.Duration(1+8*rank) * ms, CPU: ms}
	}
	for name, lines := range map[string][]string{"noise": windows(newWatch(2, nil), 200, noisy, 2), "tiny": windows(newWatch(2, nil), 200, tiny, 2)} {
		if len(lines) > 0 {
			t.Errorf("%s: %s", name, strings.Join(lines, "; "))
		}
	}
	w := newWatch(3, nil)
	for range 10 {
		if lines := w.addWindow(time.Second, 10, []Effort{{Compute: ms, Batches: 10 * time.Second, CPU: ms}, {Compute: time.Second, CPU: ms}, {}}); len(lines) > 0 {
			t.Errorf("a rank that ended nothing: %q", lines)
		}
	}
}

// TestARankTooSlowForAWindow: a rank that completes nothing in some windows is reported by
// the other windows.
func TestARankTooSlowForAWindow(t *testing.T) {
	w := newWatch(3, nil)
	var lines []string
	for i := range 3 * slowStreak {
		x := Effort{Compute: 200 * ms, CPU: 200 * ms, Batches: 10 * time.Second}
		slow := Effort{Input: ms}
		if i%3 == 0 {
			slow = Effort{Compute: 2400 * ms, CPU: 2400 * ms, Batches: time.Second}
		}
		lines = append(lines, w.addWindow(time.Second, 10, []Effort{x, x, slow})...)
	}
	if want := []string{"rank 2 is 120.0× slower in compute than the median of the ranks"}; !slices.Equal(lines, want) {
		t.Errorf("%q, want %q", lines, want)
	}
}
