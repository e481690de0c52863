package train

import (
	"context"
	"fmt"
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
	"github.com/wdlrun/wdlrun/internal/train/traintest"
	"github.com/wdlrun/wdlrun/trace"
)

// nextDay returns the configuration of two days of data, and the setting that names the files of
// some days. On day 2, other users click.
func nextDay(t testing.TB) (c *config.Config, days func(names ...string) string) {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("testdata", "nextday"))
	fatal.If(t, err)
	c, err = config.Load(filepath.Join(dir, "c.yaml"))
	fatal.If(t, err)
	c.Data.Train = []string{filepath.Join(dir, "day1.csv")}
	return c, func(names ...string) string {
		for i, name := range names {
			names[i] = fmt.Sprintf("%q", filepath.Join(dir, name))
		}
		return "data.train=[" + strings.Join(names, ", ") + "]"
	}
}

// refused runs a job that must fail, and returns its error.
func refused(t testing.TB, size int, opt Options) (fault error) {
	t.Helper()
	opt.Out = t.TempDir()
	traintest.OnRanks(t, size, func(comm *collective.Comm) error {
		_, err := NewJob(comm, trace.New(100), opt).Run(context.Background())
		if comm.Rank() == 0 {
			fault = err
		}
		return nil
	})
	if fault == nil {
		t.Error("no error")
		return fmt.Errorf("none")
	}
	return fault
}

// TestNextDay: a training that resumes on the data of another day does not compare it with the
// best evaluation of the day before. It trains as many epochs as a new training, with the rates
// of one, and its result is the best model of the new day.
func TestNextDay(t *testing.T) {
	c, days := nextDay(t)
	for name, sets := range map[string][]string{
		"early stop": {"train.early_stop.metric=auc"},
		"plateau":    {"train.schedule.kind=plateau", "train.schedule.patience=1", "train.early_stop.patience=6"},
		"cosine":     {"train.schedule.kind=cosine"},
		"inside":     {"train.eval_steps=10", "train.early_stop.patience=1"}, // ends inside an epoch
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := runJob(t, 2, Options{Config: c, Set: sets})
			opt := Options{Resume: first.RunDir, Set: []string{days("day2.csv"), strings.Replace(days("day2.csv"), "train", "test", 1), "train.early_stop.patience=0"}}
			said := listen(&opt)
			second := runJob(t, 2, opt)
			if *second.TestAUC < .82 {
				t.Errorf("AUC of day 2: %.4f", *second.TestAUC)
			}
			if !second.TrainNewer || first.TrainNewer {
				t.Error("the result does not have that the vocabulary is older than the data")
			}
			if n := second.NewSamples / 20; n < 500 || n > 599 || second.NewSamples%20 != 0 {
				t.Errorf("%d samples in 20 epochs of about 540", second.NewSamples)
			}
			line := "the training data has changed since the checkpoint of step " + fmt.Sprint(first.Steps) + ": epochs, "
			if all := said(); strings.Count(strings.Join(all, "\n"), "has changed since the checkpoint of step") != 1 || !slices.ContainsFunc(all, func(l string) bool {
				return strings.HasPrefix(l, line) && strings.HasSuffix(l, "a value that is not in the vocabulary of u is treated as unknown (train -from gives new values rows of their own)")
			}) {
				t.Errorf("said %q", all)
			}
			if r := rateAfter(t, second.RunDir, first.Steps); math.Abs(r-1) > .01 {
				t.Errorf("the learning rate begins at %v of its full value", r)
			}
			if _, err := checkpoint.Open(checkpoint.Dir(filepath.Join(second.RunDir, checkpoint.Folder), second.Steps)); err != nil {
				t.Error(err)
			}
		})
	}
}

// rateAfter returns the factor of the learning rate in the first line of metrics.jsonl after a
// step.
func rateAfter(t testing.TB, runDir string, step int64) float64 {
	t.Helper()
	for line := range strings.Lines(string(read(t, filepath.Join(runDir, rundir.FileMetrics)))) {
		var at int64
		var rate float64
		if i := strings.Index(line, `"step":`); i >= 0 && strings.Contains(line, `"event":"train"`) {
			fmt.Sscanf(line[i:], `"step":%d`, &at)
		}
		if i := strings.Index(line, `"rate":`); i >= 0 && at > step {
			fmt.Sscanf(line[i:], `"rate":%g`, &rate)
			return rate
		}
	}
	t.Errorf("no line after step %d", step)
	return 0
}

// TestNothingToTrain: a request that takes no step is an error with the remedy. A complete training
// that its launcher starts again is none, and a run without its result is completed.
func TestNothingToTrain(t *testing.T) {
	c, days := nextDay(t)
	ended := runJob(t, 2, Options{Config: c, Set: []string{"train.epochs=2", "train.early_stop.patience=5"}})
	stopped := runJob(t, 2, Options{Config: c, Set: []string{"train.early_stop.min_delta=1", "train.early_stop.patience=1"}})
	for _, x := range []struct {
		name string
		opt  Options
		want []string
	}{
		{"epochs", Options{Resume: ended.RunDir}, []string{"nothing to train: " + ended.RunDir + " is complete at step ", "it has trained 2 epochs of this data, and train.epochs is 2; to train more: -set train.epochs=N with N above 2"}},
		{"auto, changed", Options{Resume: ended.RunDir, Auto: true, Set: []string{"train.clip_norm=3"}}, []string{"-set train.epochs=N with N above 2"}},
		{"stopped", Options{Resume: stopped.RunDir, Set: []string{"train.epochs=50"}}, []string{"early stopping ended it after 1 evaluation without improvement; to train more: -set train.early_stop.patience=N with N above 1"}},
		{"renamed", Options{Resume: ended.RunDir, Set: []string{days("../nextday/day1.csv")}}, []string{"nothing to train"}},
		{"picked", Options{Resume: checkpoint.Dir(filepath.Join(ended.RunDir, checkpoint.Folder), ended.Steps)}, []string{"nothing to train"}},
	} {
		err := refused(t, 2, x.opt)
		for _, want := range x.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", x.name, err, want)
			}
		}
	}
	for _, opt := range []Options{{Resume: ended.RunDir, Auto: true}, {Again: ended.RunDir}, {Resume: stopped.RunDir, Auto: true}} {
		if res := runJob(t, 2, opt); res.NewSamples != 0 || res.Steps == 0 {
			t.Errorf("restarted: %+v", res)
		}
	}
	fatal.If(t, os.Remove(filepath.Join(ended.RunDir, rundir.FileResult)))
	if res := runJob(t, 2, Options{Resume: ended.RunDir}); res.NewSamples != 0 || *res.ValidAUC != *ended.ValidAUC {
		t.Errorf("without a result: %+v", res)
	}
	if len(read(t, filepath.Join(ended.RunDir, rundir.FileResult))) == 0 {
		t.Error("the result is not there")
	}
}

// TestOrderOfFiles: the same files in another order, or elsewhere, are the same data, so epochs
// continue. Evaluations start again if the order determines which records are held out.
func TestOrderOfFiles(t *testing.T) {
	c, days := nextDay(t)
	_, there := nextDay(t)
	first := runJob(t, 2, Options{Config: c, Set: []string{days("day1.csv", "day2.csv"), "train.epochs=3", "train.early_stop.patience=9"}})
	for _, x := range []struct {
		files, line string
		best        bool // the evaluations of the checkpoint still count
	}{
		{there("day2.csv", "day1.csv"), "so other records are held out, and some of them have been trained on", false},
		{there("../nextday/day1.csv", "day2.csv"), "", true},
	} {
		dir := filepath.Join(t.TempDir(), "copy")
		fatal.If(t, os.CopyFS(dir, os.DirFS(first.RunDir)))
		opt := Options{Resume: dir, Set: []string{x.files, "train.epochs=4", "train.early_stop.min_delta=1"}}
		said := listen(&opt)
		res := runJob(t, 2, opt)
		if more := res.NewSamples - first.Samples/3; x.best && more != 0 || more < -5 || more > 5 || (res.BestEpoch < 4) != x.best {
			t.Errorf("%s: %d new samples, best epoch %d", x.files, res.NewSamples, res.BestEpoch)
		}
		if all := strings.Join(said(), "\n"); !strings.Contains(all, x.line) || x.best && strings.Contains(all, "order") {
			t.Errorf("said %s", all)
		}
	}
}

// TestOtherEvaluations: early stopping does not compare evaluations of other data or by another
// metric. The epochs of the training continue.
func TestOtherEvaluations(t *testing.T) {
	c, days := nextDay(t)
	valid := func(name string) string { return strings.Replace(days(name), "train", "valid", 1) }
	set := []string{"data.valid_fraction=0", valid("day1.csv"), "train.epochs=4", "train.early_stop.patience=9"}
	first := runJob(t, 2, Options{Config: c, Set: set})
	for _, x := range []struct {
		set  string
		best bool
		line string
	}{
		{valid("day2.csv"), false, "the validation data has changed since the checkpoint of step "},
		{"train.early_stop.metric=auc", false, "train.early_stop.metric has changed since the checkpoint of step "},
		{valid("../nextday/day1.csv"), true, ""},
	} {
		dir := filepath.Join(t.TempDir(), "copy")
		fatal.If(t, os.CopyFS(dir, os.DirFS(first.RunDir)))
		opt := Options{Resume: dir, Set: []string{x.set, "train.epochs=5", "train.early_stop.min_delta=1"}}
		said := listen(&opt)
		res := runJob(t, 1, opt)
		if res.NewSamples*4 != first.Samples || (res.BestEpoch < 5) != x.best {
			t.Errorf("%s: %d new samples, best epoch %d", x.set, res.NewSamples, res.BestEpoch)
		}
		if all := strings.Join(said(), "\n"); !strings.Contains(all, x.line) || x.best && strings.Contains(all, "start again") {
			t.Errorf("said %s", all)
		}
	}
}

// TestEarlierCursor: a checkpoint of a version that did not record the identity of data resumes.
// With the same data, its state is kept; with other data it starts again.
func TestEarlierCursor(t *testing.T) {
	_, days := nextDay(t)
	for _, x := range []struct {
		day string
		set string
		min int64 // new samples
		max int64
	}{
		{"day1.csv", "train.early_stop.patience=3", 500, 599},
		{"day2.csv", "train.early_stop.patience=30", 20 * 500, 20 * 599},
	} {
		dir := filepath.Join(t.TempDir(), "run")
		fatal.If(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "nextday", "earlier"))))
		res := runJob(t, 2, Options{Resume: dir, Set: []string{days(x.day), x.set}})
		if res.NewSamples < x.min || res.NewSamples > x.max {
			t.Errorf("%s: %d new samples, want %d to %d", x.day, res.NewSamples, x.min, x.max)
		}
	}
}

// TestRestartWithOtherData: a job that restarts after a failure on changed files, for example
// without a lost host's, continues its epochs.
func TestRestartWithOtherData(t *testing.T) {
	c, days := nextDay(t)
	first := runJob(t, 2, Options{Config: c, Set: []string{"train.epochs=2", "train.early_stop.patience=9"}})
	opt := Options{Config: c, Again: first.RunDir, Set: []string{days("day2.csv"), "train.epochs=3", "train.early_stop.patience=9"}}
	said := listen(&opt)
	if res := runJob(t, 2, opt); res.NewSamples < 500 || res.NewSamples > 599 || res.BestEpoch != 3 {
		t.Errorf("%d new samples, best epoch %d, want one epoch and 3", res.NewSamples, res.BestEpoch)
	}
	if all := strings.Join(said(), "\n"); !strings.Contains(all, "and the job is the same: early stopping, ") {
		t.Error(all)
	}
}
