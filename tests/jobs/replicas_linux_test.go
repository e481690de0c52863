package jobs

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// TestContinuesFromMemory kills each rank with SIGKILL at random moments of a training with
// replicas. The other processes continue, and the result has the bits of an undisturbed
// training.
func TestContinuesFromMemory(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 5))
	for _, np := range []int{3, 2}[:patient.Size(1, 2)] {
		whole, want := undisturbed(t, np, few(t))
		for victim := range patient.Size(1, np) {
			t.Run(fmt.Sprintf("rank %d of %d", victim, np), func(t *testing.T) {
				at := moment{lines: 1 + rng.IntN(int(whole.Steps/20)), pause: time.Duration(rng.IntN(10)) * time.Millisecond, victim: victim}
				o, r, dir := disturbed(t, np, at, append(few(t), "-replicas", "2"))
				samePart(t, "healed", parts(t, dir, r.RunDir, r.Steps), want)
				if r.Healed != 1 {
					t.Errorf("healed %d times, want once\n%s", r.Healed, o.stderr)
				}
				if r.AUC != whole.AUC || r.Samples != whole.Samples || r.TrainLogLoss != whole.TrainLogLoss || r.WorldSize != np {
					t.Errorf("healed %+v, undisturbed %+v", r, whole)
				}
				if n := strings.Count(o.stderr, "was killed by signal 9"); n != 1 || !strings.Contains(o.stderr, fmt.Sprintf("rank %d failed; it is started again", victim)) {
					t.Errorf("%d verdicts:\n%s", n, o.stderr)
				}
			})
		}
	}
}

// TestNoNeededRankIsLeftOut: two replicas or a backup need two ranks, so the last two are replaced
// and not left out, although -min-np allows one.
func TestNoNeededRankIsLeftOut(t *testing.T) {
	t.Parallel()
	for flags, faults := range map[string]string{"-replicas 2": "kill:0@step25,kill:1@step25", "-backup 1": "kill:1@step25"} {
		args := append([]string{"-np", "2", "-restarts", "3", "-min-np", "1", "train", "-chaos", faults, "--json"}, strings.Fields(flags)...)
		o := run(t, t.TempDir(), append(args, short...)...)
		if o.code != 0 {
			t.Fatalf("%s: exit code %d\n%s", flags, o.code, o.stderr)
		}
		if r := parseTrained(t, o); r.WorldSize != 2 {
			t.Errorf("%s: %d ranks at the end, want 2", flags, r.WorldSize)
		}
	}
}

// TestCutLink: if only a link is lost, all ranks keep running and form the group again.
func TestCutLink(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	whole, want := undisturbed(t, 3, few(t))
	r := trainWith(t, dir, three, append([]string{"train", "--json", "-replicas", "2", "-chaos", "cut:1-2@step50"}, few(t)...)...)
	samePart(t, "after the link was cut", parts(t, dir, r.RunDir, r.Steps), want)
	if r.Healed != 1 || r.Samples != whole.Samples {
		t.Errorf("%+v, undisturbed %+v", r, whole)
	}
}

// TestLostAgainAndAgain: the healed rank is lost again, and then its buddy. The training
// survives each loss.
func TestLostAgainAndAgain(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	_, want := undisturbed(t, 3, few(t))
	r := trainWith(t, dir, three, append([]string{"train", "--json", "-replicas", "2", "-chaos", "kill:1@step20,kill:1@step40,kill:2@step41,kill:0@step60"}, few(t)...)...)
	samePart(t, "after four losses", parts(t, dir, r.RunDir, r.Steps), want)
	if r.Healed != 4 {
		t.Errorf("healed %d times, want 4", r.Healed)
	}
}

// TestLostDuringRendezvous kills the replacement of a rank as soon as it runs, before the group
// has formed again. The other ranks keep their shards.
func TestLostDuringRendezvous(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	whole, want := undisturbed(t, 3, short)
	cmd, dir, pids := startWithReplicas(t)
	stayed := map[int]int{0: pids[0], 2: pids[2]}
	for range 2 {
		lost := pids[1]
		kill(t, lost, syscall.SIGKILL)
		eventually(t, "a successor", func() bool {
			pids = ranksOf(cmd.Process.Pid)
			return pids[1] != lost && pids[1] != 0 || len(pids) == 0
		})
		if pids[1] == 0 {
			t.Fatalf("the job ended without a replacement of rank 1:\n%s", cmd.Stderr)
		}
	}
	o := end(t, cmd)
	gone(t, stayed)
	if o.code != 0 || strings.Contains(o.stderr, "ranks start again") {
		t.Fatalf("exit code %d\n%s", o.code, o.stderr)
	}
	r := parseTrained(t, o)
	samePart(t, "healed", parts(t, dir, r.RunDir, r.Steps), want)
	if r.Samples != whole.Samples || r.Healed == 0 {
		t.Errorf("%+v, undisturbed %+v\n%s", r, whole, o.stderr)
	}
}

// startWithReplicas starts a training of three ranks with replicas and waits for its first
// checkpoint.
func startWithReplicas(t *testing.T) (cmd *exec.Cmd, dir string, pids map[int]int) {
	t.Helper()
	dir = t.TempDir()
	cmd = command(t, dir, append([]string{"-np", "3", "-oversubscribe", "train", "-replicas", "2", "--json"}, short...)...)
	fatal.If(t, cmd.Start())
	pids = waitRanks(t, cmd.Process.Pid, 3)
	waitCheckpoint(t, dir)
	return cmd, dir, pids
}

// TestBothCopiesLost kills a rank and its buddy at once. All ranks, remaining and new, return to
// the last checkpoint. The result has the bits of an undisturbed training.
func TestBothCopiesLost(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	_, want := undisturbed(t, 3, short)
	cmd, dir, pids := startWithReplicas(t)
	kill(t, pids[2], syscall.SIGKILL)
	kill(t, pids[0], syscall.SIGKILL)
	o := end(t, cmd)
	gone(t, pids)
	if o.code != 0 || !strings.Contains(o.stderr, "both copies of some shards are lost with ranks 0, 2: all ranks resume") {
		t.Fatalf("exit code %d\n%s", o.code, o.stderr)
	}
	r := parseTrained(t, o)
	samePart(t, "restored", parts(t, dir, r.RunDir, r.Steps), want)
	if runs, _ := filepath.Glob(filepath.Join(dir, "runs", "2*")); len(runs) != 1 {
		t.Errorf("run directories %v", runs)
	}
}

// TestStoppedRankIsReplaced: a stopped rank is killed after the timeout. The others resume from
// memory.
func TestStoppedRankIsReplaced(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	whole, want := undisturbed(t, 3, short)
	cmd, dir, pids := startWithReplicas(t)
	kill(t, pids[1], syscall.SIGSTOP)
	eventually(t, "the end of the rank that stands still", func() bool { return !alive(pids[1]) })
	kill(t, pids[1], syscall.SIGCONT) // the process has ended
	o := end(t, cmd)
	gone(t, pids)
	if o.code != 0 || !strings.Contains(o.stderr, "silent") || !strings.Contains(o.stderr, "rank 1 failed; it is started again") {
		t.Fatalf("exit code %d\n%s", o.code, o.stderr)
	}
	r := parseTrained(t, o)
	samePart(t, "healed", parts(t, dir, r.RunDir, r.Steps), want)
	if r.Healed != 1 || r.Samples != whole.Samples {
		t.Errorf("%+v, undisturbed %+v", r, whole)
	}
}

// TestTwoStoppedRanks: of two stopped ranks, one is killed and the other is resumed, so that the
// group can form again.
func TestTwoStoppedRanks(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	_, want := undisturbed(t, 3, short)
	cmd, dir, pids := startWithReplicas(t)
	kill(t, pids[1], syscall.SIGSTOP)
	kill(t, pids[2], syscall.SIGSTOP)
	o := end(t, cmd)
	gone(t, pids)
	if o.code != 0 || !strings.Contains(o.stderr, "silent") || strings.Contains(o.stderr, "did not join") || strings.Contains(o.stderr, "ranks start again") {
		t.Fatalf("exit code %d\n%s", o.code, o.stderr)
	}
	r := parseTrained(t, o)
	samePart(t, "healed", parts(t, dir, r.RunDir, r.Steps), want)
}

// TestLossesLeaveNothingBehind kills a rank six times. The launcher and the remaining ranks have
// no more descriptors, shared windows and goroutines than before. They are counted between a pause of rank 0
// and the next loss.
func TestLossesLeaveNothingBehind(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	const losses = 6
	var faults []string
	for i := range losses + 1 {
		faults = append(faults, fmt.Sprintf("stop:1s@0@step%d,kill:1@step%d", 25+30*i, 40+30*i))
	}
	last := faults[losses]
	faults[losses], _, _ = strings.Cut(last, ",")
	cmd := command(t, dir, append([]string{"-np", "3", "-oversubscribe", "-restarts", "9", "train", "--json", "-replicas", "2", "-chaos", strings.Join(faults, ",")}, short...)...)
	fatal.If(t, cmd.Start())
	pids := waitRanks(t, cmd.Process.Pid, 3)
	watched := []int{cmd.Process.Pid, pids[0], pids[2]}
	held := make([][3][2]int, losses+1) // from each pause on: minimum of descriptors and windows
	ended, looked := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(looked)
		for {
			select {
			case <-ended:
				return
			case <-time.After(10 * time.Millisecond):
			}
			n, lost := injected(dir)
			var now [3][2]int
			for i, pid := range watched {
				now[i][0], now[i][1], _ = holds(pid)
			}
			if _, after := injected(dir); n != lost+1 || after != lost { // the ranks have begun to lose each other
				continue
			}
			for i := range now {
				was := &held[n-1][i]
				if was[0] == 0 {
					*was = now[i]
				}
				was[0], was[1] = min(was[0], now[i][0]), min(was[1], now[i][1])
			}
		}
	}()
	o := end(t, cmd)
	close(ended)
	<-looked
	r := parseTrained(t, o)
	if o.code != 0 || r.Healed != losses {
		t.Fatalf("exit code %d, healed %d times\n%s", o.code, r.Healed, o.stderr)
	}
	for i, who := range []string{"the launcher", "rank 0", "rank 2"} {
		early, late := held[1][i], held[losses-1][i] // the first group has no earlier one, and the last ends
		const few = 2                                // temporary descriptors; one leaked at each loss makes 4
		if early[0] == 0 || late[0] == 0 || i > 0 && early[1] == 0 || late[0] > early[0]+few || late[1] > early[1] {
			t.Errorf("%s has %v descriptors and windows, at first %v; by pause %v", who, late, early, held)
		}
	}
	for _, stayed := range []int{0, 2} {
		checkGoroutines(t, stayed, dumps(t, filepath.Join(dir, r.RunDir), stayed))
	}
	gone(t, pids)
}

// injected counts the pauses and the losses that have begun.
func injected(dir string) (pauses, losses int) {
	found, _ := filepath.Glob(filepath.Join(dir, "runs", "2*", "chaos.log"))
	for _, path := range found {
		b, _ := os.ReadFile(path)
		pauses, losses = strings.Count(string(b), " stop:"), strings.Count(string(b), " kill:")
	}
	return pauses, losses
}

// dumps reads the stacks that a rank wrote at each loss, in order, and counts its goroutines by
// the function that created them.
func dumps(t *testing.T, runDir string, rank int) (all []map[string]int) {
	t.Helper()
	folders, err := filepath.Glob(filepath.Join(runDir, "failure-*"))
	fatal.If(t, err)
	slices.SortFunc(folders, func(a, b string) int { // the suffix "-2" marks a second folder of the same second
		return cmp.Or(cmp.Compare(filepath.Base(a)[:len("failure-20060102-150405")], filepath.Base(b)[:len("failure-20060102-150405")]), cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
	for _, folder := range folders {
		b, err := os.ReadFile(filepath.Join(folder, fmt.Sprintf("rank-%04d.stacks", rank)))
		if err != nil {
			continue // the rank was too slow to answer
		}
		by := map[string]int{}
		for line := range strings.Lines(string(b)) {
			if who, ok := strings.CutPrefix(line, "created by "); ok {
				who, _, _ = strings.Cut(who, " in goroutine ")
				by[who]++
			}
		}
		all = append(all, by)
	}
	return all
}

// checkGoroutines fails the test if each loss leaves one more goroutine of a kind.
func checkGoroutines(t *testing.T, rank int, dumps []map[string]int) {
	t.Helper()
	const enough = 5
	if len(dumps) < enough {
		t.Logf("rank %d reported its goroutines only at %d losses", rank, len(dumps))
		return
	}
	for who := range dumps[len(dumps)-1] {
		var counts []int
		for _, d := range dumps {
			counts = append(counts, d[who])
		}
		if first, last := counts[0], counts[len(counts)-1]; slices.IsSorted(counts) && last-first >= len(counts)-2 {
			t.Errorf("rank %d has more goroutines of %s at each loss: %v", rank, who, counts)
		}
	}
}

// holds counts the open files and the mapped memory files of a process.
func holds(pid int) (files, windows int, err error) {
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return 0, 0, err
	}
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	return len(fds), strings.Count(string(maps), "/memfd:"), err
}
