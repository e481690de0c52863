package jobs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
	"github.com/wdlrun/wdlrun/rank"
)

// TestRestart kills ranks with SIGKILL at random moments of a training with -restarts. The job
// resumes by itself in the same run directory and ends with the bits of an undisturbed training.
func TestRestart(t *testing.T) {
	t.Parallel()
	const np = 3
	whole, want := undisturbed(t, np, few(t))
	rng := rand.New(rand.NewPCG(7, 7))
	for victim := range patient.Size(1, np) {
		t.Run(fmt.Sprint("rank ", victim), func(t *testing.T) {
			at := moment{lines: 1 + rng.IntN(int(whole.Steps/20)), pause: time.Duration(rng.IntN(10)) * time.Millisecond, victim: victim}
			o, r, dir := disturbed(t, np, at, few(t), "-restarts", "3")
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

// TestRestartSmaller: with -min-np the remaining ranks continue, and every sample counts exactly
// once.
func TestRestartSmaller(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	o, r, _ := disturbed(t, 3, moment{lines: 1, victim: 0}, short, "-restarts", "1", "-min-np", "2")
	if r.WorldSize != 2 || r.Samples != 2*32561 || r.AUC < 0.91 {
		t.Errorf("result %+v\n%s", r, o.stderr)
	}
	if !strings.Contains(o.stderr, "rank 0 failed and is left out; 2 ranks start again") {
		t.Errorf("the error does not name the lost rank:\n%s", o.stderr)
	}
}

// TestRestartWithFewerSlots: a training that cannot run on three of its four ranks continues on two, or on all four
// if two are not allowed. Either has the bits of an undisturbed training.
func TestRestartWithFewerSlots(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	slots := append(few(t), "-set", "train.slots=4", "-set", "train.epochs=2")
	calm := train(t, dir, 1, append(slots, "-out", "calm")...)
	for least, size := range map[string]int{"2": 2, "3": 4} {
		o := run(t, dir, append([]string{"-np", "4", "-oversubscribe", "-restarts", "1", "-min-np", least, "train", "--json", "-chaos", "kill:3@step10"}, slots...)...)
		if o.code != 0 || strings.Count(o.stderr, fmt.Sprintf("the job cannot run with 3 ranks; %d start again in ", size)) != 1 {
			t.Fatalf("-min-np %s: exit code %d\n%s", least, o.code, o.stderr)
		}
		if r := parseTrained(t, o); r.WorldSize != size || r.AUC != calm.AUC || r.LogLoss != calm.LogLoss {
			t.Errorf("-min-np %s: %+v, undisturbed %+v", least, r, calm)
		}
	}
}

// disturbed runs a training, kills a rank at a moment and requires exit code 0. If the training
// ended before that moment, it runs another one with an earlier moment.
func disturbed(t *testing.T, np int, at moment, job []string, flags ...string) (o outcome, r trained, dir string) {
	t.Helper()
	args := append(append([]string{"-np", fmt.Sprint(np)}, flags...), append([]string{"train", "--json"}, job...)...)
	for missed := true; missed; at.lines, at.pause = at.lines/2, 0 {
		dir = t.TempDir()
		cmd := command(t, dir, args...)
		fatal.If(t, cmd.Start())
		pids := waitRanks(t, cmd.Process.Pid, np)
		o = killAt(t, cmd, pids, at)
		missed = o.code == 0 && !strings.Contains(o.stderr, "killed by signal 9") && at.lines > 0
	}
	if o.code != 0 {
		t.Fatalf("exit code %d\n%s", o.code, o.stderr)
	}
	if runs, _ := filepath.Glob(filepath.Join(dir, "runs", "2*")); len(runs) != 1 {
		t.Errorf("run directories %v", runs)
	}
	return o, parseTrained(t, o), dir
}

// TestInjectedFaultsComeOnce: a restarted job does not repeat an injected fault, even on fewer
// ranks. The fault of an excluded rank is never injected.
func TestInjectedFaultsComeOnce(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	o := run(t, dir, append([]string{"-np", "3", "-restarts", "3", "-min-np", "2", "train", "--json", "-chaos", "kill:0@step45,cut:0-1@step65,kill:2@step90,stop:10ms@1@step70"}, short...)...)
	if o.code != 0 {
		t.Fatalf("exit code %d\n%s", o.code, o.stderr)
	}
	r := parseTrained(t, o)
	if r.WorldSize != 2 || r.Samples != 2*32561 {
		t.Errorf("%d ranks, %d samples; want 2 ranks and 2 epochs", r.WorldSize, r.Samples)
	}
	log, err := os.ReadFile(filepath.Join(dir, r.RunDir, "chaos.log"))
	fatal.If(t, err)
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	slices.Sort(lines[1:])
	want := []string{"ranks 3", "0 kill:0@step45", "1 cut:0-1@step65", "3 stop:10ms@1@step70"}
	if !slices.Equal(lines, want) {
		t.Errorf("chaos.log: %q, want %q", lines, want)
	}
	for _, says := range []string{"from the checkpoint of step ", "is cut by injected fault", "this rank is killed by injected fault 0 (kill:0@step45)", "this fault was injected: kill:0@step45\n", "this fault was injected: cut:0-1@step65\n"} {
		if !strings.Contains(o.stderr, says) {
			t.Errorf("no %q in\n%s", says, o.stderr)
		}
	}
	if strings.Contains(o.stderr, "out of memory") {
		t.Errorf("an injected kill is reported as lack of memory:\n%s", o.stderr)
	}
}

// TestRestartSmallerInsideAnEpoch: if microbatches of an epoch were late, fewer ranks cannot
// continue within the epoch. They restart from the beginning.
func TestRestartSmallerInsideAnEpoch(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	o := run(t, dir, append([]string{"-np", "3", "-oversubscribe", "-restarts", "3", "-min-np", "2", "train", "--json", "-backup", "1", "-chaos", "kill:0@step50,kill:0@step250"}, short...)...)
	if o.code != 0 {
		t.Fatalf("exit code %d\n%s", o.code, o.stderr)
	}
	r := parseTrained(t, o)
	if r.WorldSize != 2 || r.Samples != 2*32561 || r.AUC < 0.91 {
		t.Errorf("%d ranks, %d samples, AUC %.4f; want 2 ranks and 2 epochs", r.WorldSize, r.Samples, r.AUC)
	}
	for _, says := range []string{"is inside an epoch of 384 microbatches, here there are 256", "the training restarts from the beginning"} {
		if !strings.Contains(o.stderr, says) {
			t.Errorf("no %q in\n%s", says, o.stderr)
		}
	}
	var res struct {
		Mode  string  `json:"mode"`
		Batch float64 `json:"effective_batch"`
	}
	if err := json.Unmarshal([]byte(o.stdout), &res); err != nil || res.Mode != "drop" || res.Batch < 100 || res.Batch > 140 {
		t.Errorf("%v %+v; want an effective batch of about 128, because one of two microbatches may be late", err, res)
	}
	yaml, err := os.ReadFile(filepath.Join(dir, r.RunDir, "config.yaml"))
	if err != nil || !strings.Contains(string(yaml), "mode: drop") || !strings.Contains(string(yaml), "backup: 1") {
		t.Errorf("config.yaml: %v\n%s", err, yaml)
	}
	o = run(t, dir, "-np", "2", "train", "-mode", "wait", "-resume", r.RunDir, "-set", "train.epochs=3")
	if want := fmt.Sprintf("the training resumes in mode wait; until step %d it was in mode drop, backup 1", r.Steps); o.code != 0 || !strings.Contains(o.stderr, want) {
		t.Errorf("exit code %d, no %q in\n%s", o.code, want, o.stderr)
	}
}

// TestPermanentErrorEndsTheJob: a permanent error ends the job at once, whatever -restarts is.
// If a check before the start finds the error, such as a missing folder, no rank starts. In the
// last case the disk has enough space for this check only, so the ranks fail.
func TestPermanentErrorEndsTheJob(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	bin, err := wdlrun()
	fatal.If(t, err)
	const tier = `tables=[{name: occupation, tier: {dir: %s, memory: 1}}]`
	for name, x := range map[string]struct {
		limit, set, says string
		started          bool
	}{
		"missing folder":   {"unlimited", fmt.Sprintf(tier, "nowhere"), "cannot create a file in nowhere", false},
		"full disk":        {"0", "train.epochs=1", "choose another place with -out", false},
		"disk nearly full": {"8", fmt.Sprintf(tier, "."), "file too large", true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cmd := exec.Command("sh", "-c", `ulimit -f `+x.limit+`; exec "$0" "$@"`, bin, "-np", "2", "-restarts", "3", "-transport", "tcp", "train", "--json", "-set", x.set)
			cmd.Dir = dir
			cmd.Stdout, cmd.Stderr = new(bytes.Buffer), new(bytes.Buffer)
			fatal.If(t, cmd.Start())
			o := end(t, cmd)
			var said struct {
				Restarts int
				Verdict  rank.Verdict
			}
			err := json.Unmarshal([]byte(o.stdout), &said)
			if !x.started {
				if err != nil || o.code != 1 || said.Verdict.Kind != "" || !strings.Contains(o.stderr, x.says) || strings.Count(o.stderr, "\n") != 1 {
					t.Errorf("exit code %d, %v, %+v; want one line of the launcher\n%s", o.code, err, said, o.stderr)
				}
				return
			}
			if err != nil || o.code == 0 || said.Restarts != 0 || !said.Verdict.Permanent {
				t.Errorf("exit code %d, %v, %+v\n%s", o.code, err, said, o.stderr)
			}
			if !strings.Contains(o.stderr, x.says) || strings.Contains(o.stderr, "start again in") || !strings.Contains(o.stderr, "this error would occur again until its cause is fixed") {
				t.Errorf("the output is\n%s", o.stderr)
			}
		})
	}
}

// TestRankZeroDiesWithItsNewRunDirectory kills rank 0 as soon as it has created its run
// directory, before the launcher knows it. The next generation uses this directory.
func TestRankZeroDiesWithItsNewRunDirectory(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	bin, err := wdlrun()
	fatal.If(t, err)
	const script = `made() { for d in runs/*; do [ -e "$d" ] && return 0; done; return 1; }
epochs=2
if [ $WDLRUN_GENERATION = 0 ]; then
	epochs=1000
	(while ! made && kill -0 $$; do :; done; kill -9 $$) &
fi
exec "$0" train -set train.epochs=$epochs`
	dir := t.TempDir()
	o := run(t, dir, "-np", "1", "-restarts", "2", "sh", "-c", script, bin)
	found, _ := filepath.Glob(filepath.Join(dir, "runs", "2*"))
	if o.code != 0 || !strings.Contains(o.stderr, "SIGKILL") || len(found) != 1 {
		t.Errorf("exit code %d, run directories %q\n%s%s", o.code, found, o.stdout, o.stderr)
	}
}
