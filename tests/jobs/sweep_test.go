package jobs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// TestSweep: a failed trial is listed, and best.yaml is a configuration that can be trained. The
// trials share one scan of the data. A resumed sweep repeats only failed trials whose
// configuration has changed.
func TestSweep(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	space := "train.optimizer.dense.learning_rate: [0.001, 1.0e+30]\nmodel.kind: [dcn_v2]\n"
	fatal.If(t, os.WriteFile(filepath.Join(dir, "space.yaml"), []byte(space), 0o644))
	args := append([]string{"sweep", "-space", "space.yaml", "-method", "grid", "-parallel", "2", "-np", "1", "-set", "data.valid_fraction=0.2", "-json"}, few(t)...)
	var got struct {
		Dir      string
		Finished bool
		Sweep    struct {
			Best   int
			Trials []struct {
				Outcomes []struct {
					Run, Error  string
					Valid, Test map[string]float64
				}
			}
		}
	}
	o := run(t, dir, args...)
	if err := json.Unmarshal([]byte(o.stdout), &got); o.code != 0 || err != nil {
		t.Fatalf("exit code %d, %v\n%s", o.code, err, o.stderr)
	}
	s := got.Sweep
	if !got.Finished || s.Best != 1 || len(s.Trials) != 2 || s.Trials[0].Outcomes[0].Valid["auc"] < .5 || s.Trials[0].Outcomes[0].Test["auc"] < .5 || !strings.Contains(s.Trials[1].Outcomes[0].Error, "NaN") {
		t.Errorf("sweep -json: %+v\n%s", got, o.stderr)
	}
	if !strings.Contains(o.stderr, "\nin trials, model.kind=dcn_v2 removes crosses (3 entries)\n") {
		t.Errorf("removed crosses are not reported:\n%s", o.stderr)
	}
	if found, err := filepath.Glob(filepath.Join(dir, got.Dir, "surveys", "*")); err != nil || len(found) != 1 {
		t.Errorf("surveys %v, %v", found, err)
	}
	best, err := os.ReadFile(filepath.Join(dir, got.Dir, "best.yaml"))
	if err != nil || !strings.Contains(string(best), "learning_rate: 0.001") || !strings.HasPrefix(string(best), "# trial 1 is the best by auc of the validation data") {
		t.Errorf("best.yaml: %v\n%s", err, best)
	}
	page, err := os.ReadFile(filepath.Join(dir, got.Dir, "report.html"))
	if err != nil || !strings.Contains(string(page), "trial 2 failed") || !strings.Contains(string(page), "train.optimizer.dense.learning_rate") {
		t.Errorf("report.html: %v\n%.2000s", err, page)
	}
	o = run(t, dir, "sweep", "-resume", got.Dir)
	if o.code != 0 || strings.Contains(o.stderr, "epoch") || !strings.Contains(o.stderr, "\nfailed trainings to repeat: 1\ntrial 2 failed: ") || !strings.Contains(o.stdout, "test data: auc 0.") {
		t.Errorf("a failed trial: exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	state := filepath.Join(dir, got.Dir, "sweep.json")
	text, err := os.ReadFile(state)
	fatal.If(t, err)
	write(t, dir, filepath.Join(got.Dir, "sweep.json"), strings.Replace(string(text), "1.0e+30", "0.002", 1)) // the cause is removed
	o = run(t, dir, "sweep", "-resume", got.Dir)
	if o.code != 0 || strings.Contains(o.stderr, "trial 1") || !strings.Contains(o.stderr, "\ntrial 2, ") {
		t.Errorf("a repeated trial: exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	o = run(t, dir, "sweep", "-resume", got.Dir)
	if o.code != 0 || strings.Contains(o.stderr, "trial 1") || strings.Contains(o.stderr, "trial 2") || !strings.Contains(o.stdout, "test data: auc 0.") {
		t.Errorf("a finished sweep: exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
}

// TestAnInterruptedSweep: each running trial writes a checkpoint, and the sweep prints the
// command that resumes it.
func TestAnInterruptedSweep(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	fatal.If(t, os.WriteFile(filepath.Join(dir, "space.yaml"), []byte("train.l2.deep: {log: [1e-6, 1e-3]}\n"), 0o644))
	cmd := command(t, dir, "sweep", "-space", "space.yaml", "-trials", "2", "-parallel", "2", "-set", "data.valid_fraction=0.2", "-set", "train.epochs=100000")
	var said strings.Builder
	cmd.Stderr = &said
	fatal.If(t, cmd.Start())
	found := func(pattern string) int {
		all, err := filepath.Glob(filepath.Join(dir, "sweeps", "*", pattern))
		fatal.If(t, err)
		return len(all)
	}
	eventually(t, "two trainings", func() bool { return found("trial-000*/metrics.jsonl") == 2 })
	fatal.If(t, cmd.Process.Signal(syscall.SIGINT))
	cmd.Wait()
	if n := found("trial-000*/checkpoints/step-*"); n < 2 || cmd.ProcessState.ExitCode() != 130 || !strings.Contains(said.String(), "; to continue: /") || !strings.Contains(said.String(), "/wdlrun sweep -resume sweeps/") || !strings.HasSuffix(said.String(), " -parallel 2\n") {
		t.Errorf("%d checkpoints, exit code %d\n%s", n, cmd.ProcessState.ExitCode(), &said)
	}
}

// TestASweepWithoutAFinishedTrial: a sweep without a finished trial fails with the cause of the
// first failure, even if another rank fails too.
func TestASweepWithoutAFinishedTrial(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "space.yaml", "train.optimizer.dense.learning_rate: [1.0e+30, 1.0e+31]\n")
	args := append([]string{"sweep", "-space", "space.yaml", "-trials", "3", "-np", "2", "-set", "data.valid_fraction=0.2"}, few(t)...)
	o := run(t, dir, append(args, "-set", strings.Replace(few(t)[1], "data.train", "data.test", 1))...)
	if !strings.HasPrefix(o.stderr, "wdlrun: data.train and data.test both have the file ") {
		t.Errorf("test data that the trials train on is not reported:\n%s", o.stderr)
	}
	if o.code != 1 || !strings.Contains(o.stderr, ": 2 trials\nthe space has no more combinations for -trials 3\n") {
		t.Errorf("exit code %d\n%s", o.code, o.stderr)
	}
	lines := strings.Split(strings.TrimSpace(o.stderr), "\n")
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "wdlrun: sweep: no trial has finished: trial 1: rank ") || !strings.Contains(last, "the loss is NaN") {
		t.Errorf("the last line is %q", last)
	}
}
