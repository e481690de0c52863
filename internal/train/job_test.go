package train

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
	"github.com/wdlrun/wdlrun/internal/train/chaos"
	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/internal/train/traintest"
	"github.com/wdlrun/wdlrun/trace"
)

// runJob runs a job on size goroutines and returns the result of rank 0.
func runJob(t testing.TB, size int, opt Options) (res report.Result) {
	t.Helper()
	if opt.Warn == nil {
		opt.Warn = func(line string) { t.Log(line) }
	}
	if opt.Out == "" {
		opt.Out = t.TempDir()
	}
	traintest.OnRanks(t, size, func(comm *collective.Comm) error {
		r, err := NewJob(comm, trace.New(100), opt).Run(context.Background())
		if comm.Rank() == 0 {
			res = r
		}
		return err
	})
	if t.Failed() {
		t.FailNow()
	}
	return res
}

// recipes are settings that keep state between steps.
var recipes = map[string][2]string{
	"plain":    {"", ""},
	"regular":  {", batch_norm: true, dropout: 0.3", ", clip_norm: 0.5, l2: {deep: 0.01, wide: 0.01, dense: 0.001, mode: dense}"},
	"lazy":     {", pooling: mean", ", l2: {deep: 0.01, wide: 0.01}, optimizer: {deep: {kind: rowwise_adagrad}, wide: {kind: ftrl, l1: 0.01}, dense: {kind: adagrad}}"},
	"schedule": {", activation: tanh, pooling: sqrtn", ", schedule: {kind: plateau}, early_stop: {patience: 5, metric: logloss}"},
	"rows": {"", "}\ntables: [{name: site_x_age, admit: {after: 2, counters: 65536}, evict: {age: 4, max_rows: 200, half_life: 7}, values: bfloat16}," +
		"{name: tags, evict: {age: 9}, wire: {rows: bfloat16, gradients: bfloat16}}, {name: site, tier: {dir: " + os.TempDir() + ", memory: 1}}] #"},
	"cosine": {", deep: true", ", schedule: {kind: cosine, warmup: 10}, optimizer: {deep: {kind: sgd, learning_rate: 0.05}}"},
}

// TestResumeGivesTheSameBits resumes from a checkpoint inside an epoch and compares the bytes
// with the checkpoints of the uninterrupted training.
func TestResumeGivesTheSameBits(t *testing.T) {
	path := traintest.Clicks(t, 1500)
	for name, r := range recipes {
		t.Run(name, func(t *testing.T) {
			if name != "regular" && name != "rows" {
				everyday(t)
			}
			t.Parallel()
			const size = 2
			whole := runJob(t, size, Options{Config: traintest.ClicksConfig(t, path, r[0], r[1])})
			middle := checkpoint.Dir(filepath.Join(whole.RunDir, checkpoint.Folder), 40)
			if name == "rows" && whole.Tables[3].Evicted == 0 {
				t.Errorf("no row was evicted, so the test proves little: %+v", whole.Tables)
			}
			again := runJob(t, size, Options{Resume: middle})
			if *again.TestAUC != *whole.TestAUC || again.TrainLogLoss != whole.TrainLogLoss || again.Samples != whole.Samples {
				t.Errorf("resumed %+v, uninterrupted %+v", again, whole)
			}
			for rank := range size {
				part := fmt.Sprintf("rank-%04d-of-%04d.wck", rank, size)
				a := read(t, filepath.Join(checkpoint.Dir(filepath.Join(whole.RunDir, checkpoint.Folder), whole.Steps), part))
				b := read(t, filepath.Join(checkpoint.Dir(filepath.Join(again.RunDir, checkpoint.Folder), whole.Steps), part))
				if !slices.Equal(a, b) {
					t.Errorf("%s differs", part)
				}
			}
		})
	}
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	fatal.If(t, err)
	return b
}

// TestWorldSizesAgree: other world sizes train on the same samples in the same steps, so only
// the rounding of sums differs.
func TestWorldSizesAgree(t *testing.T) {
	path := traintest.Clicks(t, 1500)
	for name, r := range recipes {
		t.Run(name, func(t *testing.T) {
			if name != "rows" {
				everyday(t)
				patient.Long(t)
			}
			t.Parallel()
			one := runJob(t, 1, Options{Config: traintest.ClicksConfig(t, path, r[0], r[1])})
			for _, size := range []int{2, 5} {
				many := runJob(t, size, Options{Config: traintest.ClicksConfig(t, path, r[0], r[1])})
				if d := math.Abs(*many.TestAUC - *one.TestAUC); d > 0.0015 {
					t.Errorf("%d ranks: AUC %.5f, on one rank %.5f", size, *many.TestAUC, *one.TestAUC)
				}
				if d := math.Abs(many.TrainLogLoss - one.TrainLogLoss); d > 1e-3 {
					t.Errorf("%d ranks: training log-loss %.5f, on one rank %.5f", size, many.TrainLogLoss, one.TrainLogLoss)
				}
				if many.Samples != one.Samples || many.Steps != one.Steps {
					t.Errorf("%d ranks: %d samples in %d steps, on one rank %d in %d", size, many.Samples, many.Steps, one.Samples, one.Steps)
				}
			}
		})
	}
}

// lines returns the lines of an event in metrics.jsonl.
func lines(t testing.TB, runDir, event string) (all []report.Line) {
	t.Helper()
	f, err := os.Open(filepath.Join(runDir, rundir.FileMetrics))
	fatal.If(t, err)
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var l report.Line
		fatal.If(t, json.Unmarshal(s.Bytes(), &l))
		if l.Event == event {
			all = append(all, l)
		}
	}
	return all
}

// TestEarlyStop: training ends after two evaluations without improvement, and the result is that
// of the best epoch.
func TestEarlyStop(t *testing.T) {
	everyday(t)
	t.Parallel()
	c := traintest.ClicksConfig(t, traintest.Clicks(t, 600), "", ", early_stop: {patience: 2, metric: logloss}, optimizer: {deep: {kind: adam, learning_rate: 0.05}, dense: {kind: adam, learning_rate: 0.05}}")
	fatal.If(t, config.Set(c, "train.epochs", "50"))
	opt := Options{Config: c}
	said := listen(&opt)
	res := runJob(t, 2, opt)
	valid := lines(t, res.RunDir, "valid")
	best := slices.MinFunc(valid, func(a, b report.Line) int {
		if a.LogLoss < b.LogLoss {
			return -1
		}
		return 1
	})
	if len(valid) == 50 || len(valid) != int(best.Epoch)+2 {
		t.Fatalf("%d epochs, the best was epoch %d, and the patience is 2", len(valid), best.Epoch)
	}
	if line := fmt.Sprintf("epoch %d of 50: train log-loss %.4f", best.Epoch, res.TrainLogLoss); !strings.Contains(strings.Join(said(), "\n"), line) {
		t.Errorf("no line %q in %q", line, said())
	}
	if res.EarlyStopped != 2 {
		t.Errorf("ended after %d evaluations without a better one", res.EarlyStopped)
	}
	if want := checkpoint.Dir(filepath.Join(res.RunDir, checkpoint.Folder), best.Step); res.Checkpoint != want || res.BestEpoch != int(best.Epoch) {
		t.Errorf("the result is of %s, epoch %d; the best is %s, epoch %d", res.Checkpoint, res.BestEpoch, want, best.Epoch)
	}
}

// TestOneClassIsJudgedByLogLoss: validation data of one class has no AUC, so early stopping uses
// the log-loss.
func TestOneClassIsJudgedByLogLoss(t *testing.T) {
	c := traintest.ClicksConfig(t, traintest.Clicks(t, 300), "", ", early_stop: {patience: 2, metric: auc}")
	only := filepath.Join(t.TempDir(), "only.csv")
	fatal.If(t, os.WriteFile(only, []byte("click,site,tags,age\n"+strings.Repeat("1,site3,t1,30\n", 30)), 0o644))
	most := filepath.Join(t.TempDir(), "most.csv")
	fatal.If(t, os.WriteFile(most, []byte("click,site,tags,age\n0,site4,t2,31\n"+strings.Repeat("1,site3,t1,30\n", 30)), 0o644))
	c.Data.Train, c.Data.Test, c.Data.Valid, c.Data.ValidFraction = []string{most}, nil, []string{only}, 0
	fatal.If(t, config.Set(c, "train.epochs", "5"))
	none := c.Clone()
	none.Data.Valid, none.Data.ValidFraction = nil, 1e-9
	var lines []string
	if res := runJob(t, 1, Options{Config: none, Say: func(line string) { lines = append(lines, line) }}); res.BestEpoch != 0 || res.EarlyStopped != 0 || !strings.Contains(lines[1], "no validation: data.valid_fraction, 1e-09, holds out none of 31 rows") || strings.Count(fmt.Sprint(lines), "no validation") != 1 {
		t.Errorf("without a row of validation data the best epoch is %d: %s", res.BestEpoch, lines)
	}
	var said []string
	res := runJob(t, 1, Options{Config: c, Say: func(line string) { said = append(said, line) }})
	if res.BestEpoch != 5 || res.EarlyStopped != 0 {
		t.Errorf("the best epoch is %d of 5, ended after %d without a better one", res.BestEpoch, res.EarlyStopped)
	}
	if all := strings.Join(said, "\n"); strings.Count(all, "AUC undefined (no negative samples), log-loss ") != 5 || !strings.Contains(all, ", which early stopping uses since there is no AUC") {
		t.Errorf("printed: %s", all)
	}
}

// TestStop: a request on any rank stops all ranks at the same step, with a checkpoint that is
// reported.
func TestStop(t *testing.T) {
	said := make(chan string, 100)
	opt := Options{Config: traintest.ClicksConfig(t, traintest.Clicks(t, 1500), "", ""), Out: t.TempDir(), Say: func(line string) { said <- line }}
	traintest.OnRanks(t, 3, func(comm *collective.Comm) error {
		j := NewJob(comm, trace.New(10), opt)
		if comm.Rank() == 1 {
			j.RequestStop()
		}
		res, err := j.Run(context.Background())
		if err == nil && (!res.Stopped || res.Steps != 1) {
			err = fmt.Errorf("stopped %v after %d steps", res.Stopped, res.Steps)
		}
		if err == nil {
			_, err = checkpoint.Open(checkpoint.Dir(filepath.Join(res.RunDir, checkpoint.Folder), 1))
		}
		return err
	})
	close(said)
	confirmed := 0
	for line := range said {
		if strings.HasPrefix(line, "checkpoint of step 1 is written: ") {
			confirmed++
		}
	}
	if confirmed != 1 {
		t.Errorf("the checkpoint is reported %d times", confirmed)
	}
}

// TestBestEpochTravels: a training that resumes in a new run directory, from a checkpoint
// after the best epoch, still restores the best epoch. If that checkpoint is missing, it
// warns and keeps the last epoch.
func TestBestEpochTravels(t *testing.T) {
	everyday(t)
	t.Parallel()
	c := traintest.ClicksConfig(t, traintest.Clicks(t, 600), "", ", early_stop: {patience: 2, metric: logloss}, optimizer: {deep: {kind: adam, learning_rate: 0.05}, dense: {kind: adam, learning_rate: 0.05}}")
	fatal.If(t, config.Set(c, "train.epochs", "50"))
	whole := runJob(t, 2, Options{Config: c})
	root := filepath.Join(whole.RunDir, checkpoint.Folder)
	valid := lines(t, whole.RunDir, "valid")
	after := valid[len(valid)-2].Step // one epoch after the best
	again := runJob(t, 2, Options{Resume: checkpoint.Dir(root, after)})
	if *again.TestLogLoss != *whole.TestLogLoss || again.BestEpoch != whole.BestEpoch || again.RunDir == whole.RunDir {
		t.Errorf("continued %+v, uninterrupted %+v", again, whole)
	}
	if _, err := checkpoint.Open(again.Checkpoint); err != nil || filepath.Dir(again.Checkpoint) != filepath.Join(again.RunDir, checkpoint.Folder) {
		t.Errorf("the model is said to be in %s: %v", again.Checkpoint, err)
	}
	best := checkpoint.Dir(root, valid[whole.BestEpoch-1].Step)
	fatal.If(t, os.RemoveAll(best))
	var warned []string
	traintest.OnRanks(t, 2, func(comm *collective.Comm) error {
		res, err := NewJob(comm, trace.New(0), Options{Resume: checkpoint.Dir(root, after), Out: t.TempDir(), Warn: func(line string) { warned = append(warned, line) }}).Run(context.Background())
		if err == nil && (res.BestEpoch != 0 || res.Checkpoint == "") {
			err = fmt.Errorf("result %+v", res)
		}
		return err
	})
	if !strings.Contains(strings.Join(warned, "\n"), "best epoch") {
		t.Errorf("the user is not told: %q", warned)
	}
}

// TestTheLastCheckpointGetsASecondChance: if the disk is full only once, nothing is lost and
// the best epoch remains the best.
func TestTheLastCheckpointGetsASecondChance(t *testing.T) {
	opt := Options{Config: traintest.ClicksConfig(t, traintest.Clicks(t, 600), "", ", early_stop: {patience: 2, metric: logloss}")}
	whole := runJob(t, 2, opt)
	if whole.BestEpoch != 3 {
		t.Fatalf("epoch %d is the best, so the test is void", whole.BestEpoch)
	}
	var err error
	if opt.Chaos, err = chaos.Parse(fmt.Sprintf("diskfull@1@step%d", whole.Steps)); err != nil {
		t.Fatal(err)
	}
	got := runJob(t, 2, opt)
	if got.BestEpoch != whole.BestEpoch || *got.TestLogLoss != *whole.TestLogLoss || got.LastCheckpoint != "" || got.Checkpoints != whole.Checkpoints {
		t.Errorf("%+v\nwhere the disk is never full %+v", got, whole)
	}
	sameContents(t, open(t, got.Checkpoint), open(t, whole.Checkpoint))
}

func TestAdvice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "clicks.csv")
	fatal.If(t, os.WriteFile(path, []byte("click,site,tags,age\n"+strings.Repeat("1,a,t1,30\n0,b,t1,31\n0,a,t1,31\n1,b,t1,30\n", 25)), 0o644))
	var warned []string
	opt := Options{Config: traintest.ClicksConfig(t, path, "", tablesAs("{name: site, evict: {max_rows: 1024}}, {name: age, evict: {max_rows: 1023}}", ", schedule: {kind: linear, warmup: 5000}")), Out: t.TempDir(), Warn: func(line string) { warned = append(warned, line) }}
	traintest.OnRanks(t, 1, func(comm *collective.Comm) error {
		res, err := NewJob(comm, trace.New(0), opt).Run(context.Background())
		if !slices.Equal(res.Warnings, warned) {
			t.Errorf("the result has the warnings %q, want %q", res.Warnings, warned)
		}
		return err
	})
	all := strings.Join(warned, "\n")
	for _, want := range []string{`fields that may reveal the label: "age" (as the only feature it has an AUC of 1.0000); remove those`, "warmup is 5000", "tables[1].evict.max_rows: 1023 counts as 1024 for table age",
		`features[1] (tags): all values of field tags are "t1", so the feature carries no information`,
		"the AUC of the test data is 1.0000", "data.train and data.test both have the file ", "10 of 20 validation rows have the label 1, fewer than 50"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in %q", want, warned)
		}
	}
	if len(warned) != 7 { // the validation data has too few samples for a word about its AUC
		t.Errorf("warnings: %q", warned)
	}
}

// TestOneClassIsAnError: training data of one class has nothing to learn.
func TestOneClassIsAnError(t *testing.T) {
	for label, want := range map[string]string{"1": "all 40 training rows have the label 1, by field click: label.positive is ", "0": "none of the 40 training rows has the label 1, by field click: "} {
		path := filepath.Join(t.TempDir(), "same.csv")
		fatal.If(t, os.WriteFile(path, []byte("click,site,tags,age\n"+strings.Repeat(label+",a,t1,30\n", 50)), 0o644))
		opt := Options{Config: traintest.ClicksConfig(t, path, "", ""), Out: t.TempDir(), Warn: func(string) {}}
		traintest.OnRanks(t, 2, func(comm *collective.Comm) error {
			if _, err := NewJob(comm, trace.New(0), opt).Run(context.Background()); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("label %s: %v, want %q", label, err, want)
			}
			return nil
		})
	}
}

// TestOneClassBeforeTheHeldOut: training data of one class is an error, even if the held-out
// records have the other class.
func TestOneClassBeforeTheHeldOut(t *testing.T) {
	for first, want := range map[string]string{"1": "all 90 training rows have the label 1", "0": "none of the 90 training rows has the label 1"} {
		var text strings.Builder
		text.WriteString("click,site,tags,age\n")
		for i := range 100 {
			label := first
			if i >= 90 {
				label = map[string]string{"0": "1", "1": "0"}[first]
			}
			fmt.Fprintf(&text, "%s,a,t1,%d\n", label, i)
		}
		path := filepath.Join(t.TempDir(), "late.csv")
		fatal.If(t, os.WriteFile(path, []byte(text.String()), 0o644))
		c := traintest.ClicksConfig(t, path, "", "")
		c.Data.ValidFraction, c.Data.ValidTime = 0.1, "age"
		traintest.OnRanks(t, 2, func(comm *collective.Comm) error {
			_, err := NewJob(comm, trace.New(0), Options{Config: c, Out: t.TempDir(), Warn: func(string) {}}).Run(context.Background())
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("first %s: %v, want %q", first, err, want)
			}
			return nil
		})
	}
}

// TestBadRecordsAreReported: records that are left out are reported, with the place of the first.
func TestBadRecordsAreReported(t *testing.T) {
	path := filepath.Join(t.TempDir(), "some.csv")
	fatal.If(t, os.WriteFile(path, []byte("click,site,tags,age\n"+strings.Repeat("1,a,t1,30\n0,b,t2,31\n", 50)+"1,a,t1,old\n"), 0o644))
	c := traintest.ClicksConfig(t, path, "", "")
	c.Data.MaxBad = 1
	var warned []string
	opt := Options{Config: c, Out: t.TempDir(), Warn: func(line string) { warned = append(warned, line) }}
	traintest.OnRanks(t, 1, func(comm *collective.Comm) error {
		r, err := NewJob(comm, trace.New(0), opt).Run(context.Background())
		if err == nil && r.Input.Bad != 2 { // the test data is the same file
			t.Errorf("the result has %d bad records", r.Input.Bad)
		}
		return err
	})
	all := strings.Join(warned, "\n")
	if !strings.Contains(all, "cannot be used: 1") || !strings.Contains(all, ".csv:102:") {
		t.Errorf("warnings: %q", warned)
	}
}

// TestResumeNamesItsPathOnce: the error of a failed resume contains the path once, and advice
// if there is no checkpoint.
func TestResumeNamesItsPathOnce(t *testing.T) {
	dir := t.TempDir()
	step := checkpoint.Dir(filepath.Join(dir, checkpoint.Folder), 7)
	empty := filepath.Join(step, "empty")
	fatal.If(t, os.MkdirAll(empty, 0o777))
	file := filepath.Join(dir, "ctr.yaml")
	fatal.If(t, os.WriteFile(file, nil, 0o666))
	above := t.TempDir()
	for _, run := range []string{"20261121-101500", "20261122-101500"} {
		fatal.If(t, os.MkdirAll(filepath.Join(above, run, checkpoint.Folder), 0o777))
	}
	saved := checkpoint.Dir(filepath.Join(above, "20261121-101500", checkpoint.Folder), 3)
	fatal.If(t, os.MkdirAll(saved, 0o777))
	const advice = "; give the run directory of a training that has saved, or one of its checkpoints"
	for path, want := range map[string]string{
		filepath.Join(dir, "nowhere"): ": there is no such directory" + advice,
		empty:                         " is neither a run directory (it has no checkpoints) nor a checkpoint (no MANIFEST.json), and contains none (no step-…)" + advice,
		step:                          ": it has no MANIFEST.json: it was never committed, or is incomplete: no such file or directory (give the directory above it to use the newest undamaged one)",
		above: " is neither a run directory (it has no checkpoints) nor a checkpoint (no MANIFEST.json), and contains none (no step-…)" +
			"; give one of the run directories in it, of which 20261121-101500 is the newest that has saved",
		file:                                 " is a file, neither a run directory nor a checkpoint" + advice,
		filepath.Join(dir, "step-000000009"): ": it is not there: never committed, or pruned since",
	} {
		err := Check(t.Context(), Options{Resume: path}, 2)
		if err == nil || !strings.HasPrefix(err.Error(), "resume: checkpoint: ") || !strings.HasSuffix(err.Error(), path+want) || strings.Count(err.Error(), path) != 1 {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestResumeOfAnUnsavedRun: a run directory without a checkpoint contains the configuration with
// which to start again.
func TestResumeOfAnUnsavedRun(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, rundir.FileConfig)
	fatal.If(t, os.WriteFile(config, nil, 0o666))
	want := "resume: " + dir + " has no checkpoint: its training ended before the first; start it again with -config " + config
	for range 2 {
		if err := Check(t.Context(), Options{Resume: dir}, 2); !errors.Is(err, fs.ErrNotExist) || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		fatal.If(t, os.MkdirAll(filepath.Join(dir, checkpoint.Folder), 0o777)) // as left by a training that is killed while it saves
	}
}

// TestDamageIsFoundBeforeRanksStart: damage of the only possible checkpoint is reported with
// the message of Verify.
func TestDamageIsFoundBeforeRanksStart(t *testing.T) {
	whole := runJob(t, 2, Options{Config: traintest.ClicksConfig(t, traintest.Clicks(t, 300), "", "")})
	damage := func(dir string) string {
		files, err := filepath.Glob(filepath.Join(dir, "*.wck"))
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		f, err := os.OpenFile(files[0], os.O_RDWR, 0)
		fatal.If(t, err)
		defer f.Close()
		was := make([]byte, 1)
		if _, err := f.ReadAt(was, 5000); err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte{^was[0]}, 5000); err != nil {
			t.Fatal(err)
		}
		c, err := checkpoint.Open(dir)
		fatal.If(t, err)
		return c.Verify(t.Context()).Error()
	}
	fault := damage(whole.Checkpoint)
	if err := Check(t.Context(), Options{Resume: whole.Checkpoint}, 2); err == nil || !strings.Contains(err.Error(), fault) {
		t.Errorf("%v, want %s", err, fault)
	}
	c, err := OpenConfig(t.Context(), Options{Resume: whole.Checkpoint})
	if err == nil || !strings.Contains(err.Error(), fault) {
		t.Errorf("%v, %v, want %s", c, err, fault)
	}
	if _, err := OpenConfig(t.Context(), Options{Resume: whole.RunDir}); err != nil { // an earlier one is intact
		t.Error(err)
	}
	for read, first := range map[bool]bool{false: true, true: false} { // read once per start: first of all, or in a launcher
		err := failed(t, 2, Options{Resume: whole.Checkpoint, Read: read, Out: t.TempDir()})
		if err == nil || !strings.Contains(err.Error(), "checksum") || strings.Contains(err.Error(), "resume: ") != first {
			t.Errorf("read before: %v: %v", read, err)
		}
	}
}

// TestResumeKeepsItsSettings: changes of the meaning of parameters or of the order of samples
// are rejected, all at once. The duration and the speed of training may change.
func TestResumeKeepsItsSettings(t *testing.T) {
	whole := runJob(t, 1, Options{Config: traintest.ClicksConfig(t, traintest.Clicks(t, 300), "", "")})
	err := Check(t.Context(), Options{Resume: whole.RunDir, Set: []string{"train.seed=9", "model.hidden=[16]", "train.shuffle=false", "train.epochs=9"}}, 2)
	if err == nil {
		t.Fatal("another seed and model were accepted")
	}
	for _, want := range []string{"train.seed: ", "model.hidden: ", "train.shuffle: "} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in: %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "train.epochs") {
		t.Errorf("more epochs are rejected: %v", err)
	}
	var said []string // only by rank 0
	tell := func(line string) { said = append(said, line) }
	more := runJob(t, 2, Options{Resume: whole.RunDir, Say: tell, Set: []string{"train.epochs=4", "train.optimizer.deep.learning_rate=0.01", "train.global_batch=50", "data.max_bad=7"}})
	if first := said[0]; !strings.HasPrefix(first, "the configuration has changed since the checkpoint: data.max_bad: 0 → 7; train.epochs: 3 → 4; train.global_batch: 64 → 50; ") ||
		!strings.Contains(first, "deep.learning_rate: ") || strings.Count(first, "→") != 4 {
		t.Errorf("printed: %s", first)
	}
	if more.Samples != whole.Samples/3*4 || more.RunDir != whole.RunDir {
		t.Errorf("continued to %d samples in %s; %d before in %s", more.Samples, more.RunDir, whole.Samples, whole.RunDir)
	}
}

// TestLostTimeline: a timeline that some rank could not write is not listed.
func TestLostTimeline(t *testing.T) {
	opt := Options{Config: traintest.ClicksConfig(t, traintest.Clicks(t, 300), "", "")}
	whole := runJob(t, 2, opt)
	taken := filepath.Join(whole.RunDir, "trace-0001.json")
	fatal.If(t, os.Remove(taken))
	fatal.If(t, os.MkdirAll(filepath.Join(taken, "not empty"), 0o755))
	got := runJob(t, 2, Options{Resume: whole.RunDir, Set: []string{"train.epochs=4"}})
	if len(whole.Lost) > 0 || !slices.Equal(got.Lost, []string{rundir.FileTraces}) {
		t.Errorf("lost: %q, before %q; want %q", got.Lost, whole.Lost, rundir.FileTraces)
	}
}
