// Package jobs tests the command as a user runs it, and jobs of real processes whose ranks are
// killed, stopped and cut off.
package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/bench"
	"github.com/wdlrun/wdlrun/internal/data/adult"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/golden"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// wdlrun builds the command once per run of the tests, in the environment of the tests, and
// returns its path. (.ci/run builds without cgo, as the README promises.) The go command caches
// the result of `go run`, so it links only after a change.
var wdlrun = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "wdlrun-tests-")
	if err != nil {
		return "", err
	}
	built = dir
	bin := filepath.Join(dir, "wdlrun")
	cmd := exec.Command("go", "run", "-exec=cp", "../../cmd/wdlrun", bin)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go run: %w\n%s", err, out)
	}
	return bin, nil
})

// built is the folder of the command, or "" before the first test needs it.
var built string

func TestMain(m *testing.M) {
	if os.Getenv(joiner) != "" {
		if err := joined(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if signal.Ignored(os.Interrupt) { // as for a background job of a shell; the commands would inherit it
		signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	}
	// Tests wait for processes more than they compute. The flag, if given, is read later.
	if err := flag.Set("test.parallel", fmt.Sprint(max(4, runtime.GOMAXPROCS(0)))); err != nil {
		panic(err)
	}
	code := patient.InMemory(m).Run()
	if built != "" {
		os.RemoveAll(built)
	}
	os.Exit(code)
}

// patience limits the time of every run of the command. The longest run takes a few seconds on
// an idle machine and a hundred times as long on a busy one, because ranks that synchronise
// thousands of times wait for a time slice each time.
const patience = 3 * patient.Longest

// outcome is the output and the exit code of a run of the command.
type outcome struct {
	stdout, stderr string
	code           int
}

// command prepares a run of wdlrun in dir.
func command(t testing.TB, dir string, args ...string) *exec.Cmd {
	t.Helper()
	bin, err := wdlrun()
	fatal.If(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = new(bytes.Buffer), new(bytes.Buffer)
	return cmd
}

// end waits for the end of a command that was started.
func end(t testing.TB, cmd *exec.Cmd) outcome {
	t.Helper()
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return outcome{cmd.Stdout.(*bytes.Buffer).String(), cmd.Stderr.(*bytes.Buffer).String(), cmd.ProcessState.ExitCode()}
}

// eventually waits until a condition is true.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timed out waiting for %s", what)
		}
	}
}

// run runs wdlrun and waits for its end.
func run(t testing.TB, dir string, args ...string) outcome {
	t.Helper()
	return runWith(t, dir, "", args...)
}

// runWith runs wdlrun with one additional variable in its environment.
func runWith(t testing.TB, dir, variable string, args ...string) outcome {
	t.Helper()
	cmd := command(t, dir, args...)
	if variable != "" {
		cmd.Env = append(os.Environ(), variable)
	}
	fatal.If(t, cmd.Start())
	return end(t, cmd)
}

// trained is the JSON line of `wdlrun train --json`.
type trained struct {
	WorldSize    int     `json:"world_size"`
	Steps        int64   `json:"steps"`
	Samples      int64   `json:"samples"`
	Seconds      float64 `json:"seconds"`
	TrainLogLoss float64 `json:"train_logloss"`
	AUC          float64 `json:"test_auc"`
	LogLoss      float64 `json:"test_logloss"`
	Accuracy     float64 `json:"test_accuracy"`
	RunDir       string  `json:"run_dir"`
	Stopped      bool    `json:"stopped"`
	Healed       int     `json:"healed"`
}

// train runs a training that must succeed.
func train(t testing.TB, dir string, np int, args ...string) (r trained) {
	t.Helper()
	o := run(t, dir, append([]string{"-np", fmt.Sprint(np), "train", "--json"}, args...)...)
	if o.code != 0 {
		t.Fatalf("train: exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	return parseTrained(t, o)
}

func parseTrained(t testing.TB, o outcome) (r trained) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(o.stdout), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &r); err != nil {
		t.Fatalf("last line of standard output: %v\n%s", err, o.stdout)
	}
	return r
}

// TestDefaultTraining runs the README's first command on 1, 2 and 4 ranks and compares the
// metrics with the reference values of the data set.
func TestDefaultTraining(t *testing.T) {
	t.Parallel()
	var all []trained
	for _, np := range []int{1, 2, 4}[:patient.Size(2, 3)] {
		r := train(t, t.TempDir(), np)
		t.Logf("%d ranks: AUC %.4f, log-loss %.4f, accuracy %.4f", np, r.AUC, r.LogLoss, r.Accuracy)
		if r.WorldSize != np || r.Samples%32561 != 0 || r.Samples == 0 {
			t.Errorf("%d ranks: %d samples on %d ranks, want 32561 samples", np, r.Samples, r.WorldSize)
		}
		if r.AUC < 0.925 || r.LogLoss > 0.283 || r.Accuracy < 0.868 {
			t.Errorf("%d ranks: AUC %.4f, log-loss %.4f, accuracy %.4f; at least .925, at most .283, at least .868 are expected", np, r.AUC, r.LogLoss, r.Accuracy)
		}
		all = append(all, r)
	}
	for _, r := range all[1:] {
		if d := r.AUC - all[0].AUC; d > 0.0015 || d < -0.0015 {
			t.Errorf("AUC %.5f on %d ranks, %.5f on one", r.AUC, r.WorldSize, all[0].AUC)
		}
	}
}

// short are the flags of a training that takes a second.
var short = []string{"-set", "train.epochs=2", "-set", "train.checkpoint.every_steps=20", "-set", "model.hidden=[32]"}

// fewRows writes the first rows of the built-in data set once per run of the tests and returns
// flags that train on them.
var fewRows = sync.OnceValues(func() ([]string, error) {
	bin, err := wdlrun()
	if err != nil {
		return nil, err
	}
	var flags []string
	for _, x := range []struct {
		set, name string
		rows      int
	}{{"data.train", adult.Train, 8192}, {"data.test", adult.Test, 4096}} {
		all, err := adult.Open(x.name)
		if err != nil {
			return nil, err
		}
		path, some := filepath.Join(filepath.Dir(bin), x.name), bytes.SplitAfterN(all, []byte("\n"), x.rows+1)[:x.rows] // a line of Test is a comment
		if err := os.WriteFile(path, bytes.Join(some, nil), 0o644); err != nil {
			return nil, err
		}
		flags = append(flags, "-set", fmt.Sprintf("%s=[%q]", x.set, path))
	}
	return append(flags, "-set", "train.global_batch=64"), nil
})

// few returns the flags of a short training on a quarter of the rows with a quarter of the
// batch. It has as many steps, lines of metrics and checkpoints, in two thirds of the time.
func few(t testing.TB) []string {
	t.Helper()
	flags, err := fewRows()
	fatal.If(t, err)
	return append(flags[:len(flags):len(flags)], short...)
}

// calm contains the undisturbed trainings by their flags.
var calm sync.Map // of *calmRun

type calmRun struct {
	once sync.Once
	trained
	parts map[string]string
}

// undisturbed returns the result of a training on np ranks without faults, and the parts of its
// last checkpoint. All tests share it, because it always has the same bits: see
// TestSameSeedSameBits.
func undisturbed(t testing.TB, np int, flags []string) (r trained, last map[string]string) {
	t.Helper()
	kept, _ := calm.LoadOrStore(fmt.Sprint(np, flags), new(calmRun))
	c := kept.(*calmRun)
	c.once.Do(func() {
		dir := t.TempDir()
		c.trained = train(t, dir, np, flags...)
		c.parts = parts(t, dir, c.RunDir, c.Steps)
	})
	if c.parts == nil {
		t.Fatal("the undisturbed training failed in another test")
	}
	return c.trained, c.parts
}

// parts returns the part files of a checkpoint by name.
func parts(t testing.TB, dir, runDir string, step int64) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, runDir, "checkpoints", fmt.Sprintf("step-%09d", step), "*.wck"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no checkpoint of step %d in %s (%v)", step, runDir, err)
	}
	all := map[string]string{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		fatal.If(t, err)
		all[filepath.Base(f)] = string(b)
	}
	return all
}

func samePart(t testing.TB, what string, got, want map[string]string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d parts, want %d", what, len(got), len(want))
	}
	for name, b := range want {
		if got[name] != b {
			t.Errorf("%s: %s differs", what, name)
		}
	}
}

// TestSameSeedSameBits: a second training with the same seed writes the same checkpoint. Another
// seed gives another result.
func TestSameSeedSameBits(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	a, want := undisturbed(t, 2, few(t))
	b := train(t, dir, 2, few(t)...)
	samePart(t, "second run", parts(t, dir, b.RunDir, b.Steps), want)
	c := train(t, dir, 2, append([]string{"-set", "train.seed=2"}, few(t)...)...)
	if c.AUC == a.AUC && c.TrainLogLoss == a.TrainLogLoss {
		t.Error("another seed gives the same result")
	}
}

// TestResumeOnOtherRanks resumes a training of 2 ranks from the middle, on 1 and on 3 ranks.
func TestResumeOnOtherRanks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	whole := train(t, dir, 2, few(t)...)
	half := filepath.Join(dir, whole.RunDir, "checkpoints", "step-000000240")
	for _, np := range []int{1, 3} {
		out := fmt.Sprintf("runs-of-%d", np)
		r := train(t, dir, np, "-resume", half, "-out", out)
		if filepath.Dir(r.RunDir) != out {
			t.Errorf("training from a named checkpoint continues in %s, want a new run directory in %s", r.RunDir, out)
		}
		if r.Samples != whole.Samples || r.Steps != whole.Steps {
			t.Errorf("%d ranks: %d samples in %d steps, want %d in %d", np, r.Samples, r.Steps, whole.Samples, whole.Steps)
		}
		if d := r.AUC - whole.AUC; d > 0.0015 || d < -0.0015 {
			t.Errorf("%d ranks: AUC %.5f, uninterrupted on 2 ranks %.5f", np, r.AUC, whole.AUC)
		}
	}
}

// TestMoreRanksThanRows: five ranks train on three rows, and each row counts once per epoch.
func TestMoreRanksThanRows(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "three.csv", "y,a\n1,x\n0,y\n1,x\n")
	write(t, dir, "c.yaml", "data: {train: [three.csv], test: [three.csv], header: true}\nlabel: {field: y}\nfeatures: [{field: a, encode: hash}]\n")
	r := train(t, dir, 5, "-config", "c.yaml", "-set", "train.epochs=3", "-set", "train.global_batch=2")
	if r.Samples != 9 {
		t.Errorf("%d samples in 3 epochs of 3 rows", r.Samples)
	}
}

func write(t testing.TB, dir, name, text string) {
	t.Helper()
	fatal.If(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
}

// TestConfigDocument compares docs/config.md with the output of the command.
func TestConfigDocument(t *testing.T) {
	t.Parallel()
	const head = "# Configuration\n\nWhat `wdlrun help config` prints; a test keeps the two equal (`go test ./tests/jobs -run ConfigDocument -rewrite`).\n\n"
	golden.Check(t, "../../../docs/config.md", head+"```\n"+run(t, t.TempDir(), "help", "config").stdout+"```\n")
}

// TestTransportsGiveTheSameBits: shared memory and sockets sum in the same order.
func TestTransportsGiveTheSameBits(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	for _, np := range []int{2, 3} {
		var want map[string]string
		for _, transport := range []string{"tcp", "shm"} {
			o := run(t, dir, append([]string{"-transport", transport, "-np", fmt.Sprint(np), "train", "--json"}, few(t)...)...)
			if o.code != 0 {
				t.Fatalf("%s: exit code %d\n%s", transport, o.code, o.stderr)
			}
			r := parseTrained(t, o)
			got := parts(t, dir, r.RunDir, r.Steps)
			if want != nil {
				samePart(t, fmt.Sprintf("%d ranks over %s", np, transport), got, want)
			}
			want = got
		}
	}
}

// TestBench: bench prints a JSON object for each operation, form and size.
func TestBench(t *testing.T) {
	t.Parallel()
	o := run(t, t.TempDir(), "-np", "2", "bench", "allreduce", "barrier", "-sizes", "8,4k", "-time", "5ms", "-json")
	if o.code != 0 {
		t.Fatalf("exit code %d\n%s", o.code, o.stderr)
	}
	count := map[string]int{}
	for line := range strings.Lines(o.stdout) {
		var l struct {
			Op    string
			NP    int
			Bytes int
			US    float64 `json:"median_us"`
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil || l.NP != 2 || l.US <= 0 {
			t.Fatalf("%v in %q", err, line)
		}
		count[l.Op]++
	}
	if count["allreduce"] != 2 || count["allreduce_use"] != 2 || count["barrier"] != 1 {
		t.Errorf("lines %v in\n%s", count, o.stdout)
	}
}

// TestBenchTurns: with -turns, bench reads each measurement from a line of a file, and reports
// invalid lines.
func TestBenchTurns(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "turns")
	for _, x := range []struct{ turns, lines, err string }{
		{fmt.Sprintf("%-32s%-32s%-32s", "allreduce_use 4096", "barrier 0", "end"), "allreduce_use 4096\nbarrier 0\n", ""},
		{fmt.Sprintf("%-32s", "alltoallv 64"), "alltoallv 64\n", ""},
		{fmt.Sprintf("%-32s", "allreduce 8192"), "", `turn "allreduce 8192", want an operation and at most 4096 bytes`},
		{"allreduce 64\nend\n", "", "add spaces until each has 32"},
	} {
		fatal.If(t, os.WriteFile(file, []byte(x.turns), 0o600))
		o := run(t, dir, "-np", "2", "bench", "-sizes", "4k", "-time", "2ms", "-json", "-turns", file)
		if x.err != "" {
			if o.code == 0 || !strings.Contains(o.stderr, x.err) {
				t.Errorf("%q: exit code %d, want %q\n%s%s", x.turns, o.code, x.err, o.stdout, o.stderr)
			}
			continue
		}
		got := ""
		for line := range strings.Lines(o.stdout) {
			var l bench.Line
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				t.Fatalf("%v in %q", err, line)
			}
			got += fmt.Sprintln(l.Op, l.Bytes)
		}
		if o.code != 0 || got != x.lines {
			t.Errorf("%q: exit code %d, lines\n%s\n%s%s", x.turns, o.code, got, o.stdout, o.stderr)
		}
	}
}
