package tests

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestRestart kills ranks with -9 at random moments of a training that may be
// started again: it must go on by itself, in the same run directory, to the bits
// of the training that nobody disturbed.
func TestRestart(t *testing.T) {
	const np = 3
	dir := t.TempDir()
	whole := train(t, dir, np, short...)
	want := parts(t, dir, whole.RunDir, whole.Steps)
	rng := rand.New(rand.NewPCG(7, 7))
	for victim := range np {
		t.Run(fmt.Sprint("rank ", victim), func(t *testing.T) {
			at := moment{lines: 1 + rng.IntN(int(whole.Steps/20)), pause: time.Duration(rng.IntN(10)) * time.Millisecond, victim: victim}
			o, r, dir := disturbed(t, np, at, "-restarts", "3")
			samePart(t, "restarted", parts(t, dir, r.RunDir, r.Steps), want)
			if r.AUC != whole.AUC || r.Samples != whole.Samples || r.WorldSize != np {
				t.Errorf("restarted %+v, undisturbed %+v", r, whole)
			}
			if n := strings.Count(o.stderr, "was killed by signal 9"); n != 1 || !strings.Contains(o.stderr, fmt.Sprintf("wdlrun: rank %d ", victim)) {
				t.Errorf("%d verdicts:\n%s", n, o.stderr)
			}
		})
	}
}

// TestRestartSmaller: where -min-np allows, the ranks that are left go on, and
// every sample is still counted once.
func TestRestartSmaller(t *testing.T) {
	o, r, _ := disturbed(t, 3, moment{lines: 1, victim: 0}, "-restarts", "1", "-min-np", "2")
	if r.WorldSize != 2 || r.Samples != 2*32561 || r.AUC < 0.91 {
		t.Errorf("result %+v\n%s", r, o.stderr)
	}
	if !strings.Contains(o.stderr, "rank 0 failed and is left out; 2 ranks restore the last checkpoint") {
		t.Errorf("the rank is not named:\n%s", o.stderr)
	}
}

// disturbed is a training whose rank is killed at a moment; it must end well.
func disturbed(t *testing.T, np int, at moment, flags ...string) (o outcome, r trained, dir string) {
	t.Helper()
	dir = t.TempDir()
	args := append(append([]string{"-np", fmt.Sprint(np)}, flags...), append([]string{"train", "--json"}, short...)...)
	cmd := command(t, dir, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pids := waitRanks(t, cmd.Process.Pid, np)
	at.wait(dir, nil)
	kill(t, pids[at.victim], syscall.SIGKILL)
	o = end(t, cmd)
	gone(t, pids)
	if o.code != 0 {
		t.Fatalf("exit code %d\n%s", o.code, o.stderr)
	}
	if runs, _ := filepath.Glob(filepath.Join(dir, "runs", "*")); len(runs) != 1 {
		t.Errorf("run directories %v", runs)
	}
	return o, parseTrained(t, o), dir
}
