package train

import (
	"bytes"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/internal/train/traintest"
	"github.com/wdlrun/wdlrun/trace"
)

// listen collects the lines that a job prints.
func listen(opt *Options) (said func() []string) {
	lines := make(chan string, 1000)
	opt.Say = func(line string) { lines <- line }
	return func() (all []string) {
		for len(lines) > 0 {
			all = append(all, <-lines)
		}
		return all
	}
}

// TestResumeReportsItsShare: a resumed job reports where it resumes, and its own steps and samples
// in addition to those of the whole training.
func TestResumeReportsItsShare(t *testing.T) {
	everyday(t)
	t.Parallel()
	whole := runJob(t, 2, Options{Config: traintest.ClicksConfig(t, traintest.Clicks(t, 1500), "", "")})
	opt := Options{Resume: checkpoint.Dir(filepath.Join(whole.RunDir, checkpoint.Folder), 40)}
	said := listen(&opt)
	res := runJob(t, 2, opt)
	for _, x := range []struct {
		report.Result
		since int64
	}{{whole, 0}, {res, 40}} {
		r := x.Result
		if r.Since != x.since || r.Steps != whole.Steps || r.Samples != whole.Samples {
			t.Errorf("since %d: %+v", x.since, r)
		}
		if speed := float64(r.NewSamples) / r.TrainSeconds; math.Abs(speed/r.SamplesPerSecond-1) > 1e-9 || r.TrainSeconds > r.Seconds {
			t.Errorf("%d samples in %v of %v s do not give %v samples/s", r.NewSamples, r.TrainSeconds, r.Seconds, r.SamplesPerSecond)
		}
	}
	rows := whole.Samples / 3
	steps := (rows + 63) / 64
	if done := (40/steps)*rows + 40%steps*64; whole.NewSamples != whole.Samples || res.NewSamples != whole.Samples-done {
		t.Errorf("%d and %d new samples, of %d; %d were trained on before", whole.NewSamples, res.NewSamples, whole.Samples, done)
	}
	if all := said(); !slices.ContainsFunc(all, func(l string) bool {
		return strings.HasPrefix(l, "training resumes after step 40, in epoch 3 of 3 behind row ")
	}) {
		t.Errorf("said %q", all)
	}
}

// TestResumeOfAnEndedRun: an ended run that its launcher starts again keeps its result and
// timeline. They are replaced as soon as there is more to train.
func TestResumeOfAnEndedRun(t *testing.T) {
	everyday(t)
	t.Parallel()
	whole := runJob(t, 2, Options{Config: traintest.ClicksConfig(t, traintest.Clicks(t, 1500), "", "")})
	names := []string{rundir.FileConfig, rundir.FileResult, "trace-0000.json", "trace-0001.json"}
	files := func() (all []byte) {
		for _, n := range names {
			all = append(all, read(t, filepath.Join(whole.RunDir, n))...)
		}
		return all
	}
	was := files()
	opt := Options{Resume: whole.RunDir, Auto: true}
	said := listen(&opt)
	res := runJob(t, 2, opt)
	if res.Steps != whole.Steps || res.Since != whole.Steps || res.NewSamples != 0 || res.TrainSeconds != 0 || res.SamplesPerSecond != 0 {
		t.Errorf("no work was left: %+v", res)
	}
	if !bytes.Equal(was, files()) {
		t.Errorf("a job without work has changed %v", names)
	}
	for _, line := range said() {
		if strings.Contains(line, "training resumes") {
			t.Errorf("no work was left, but the line is %q", line)
		}
	}
	opt.Set = []string{"train.epochs=4"}
	if res = runJob(t, 2, opt); res.NewSamples != whole.Samples/3 || bytes.Equal(was, files()) {
		t.Errorf("one more epoch: %+v", res)
	}
}

// TestMorePatience: a training that early stopping has ended continues only with a larger
// patience.
func TestMorePatience(t *testing.T) {
	patient.Long(t)
	everyday(t)
	t.Parallel()
	whole := runJob(t, 2, Options{Config: traintest.ClicksConfig(t, traintest.Clicks(t, 600), "",
		", early_stop: {patience: 2, metric: logloss}, optimizer: {deep: {kind: adam, learning_rate: 0.05}, dense: {kind: adam, learning_rate: 0.05}}"),
		Set: []string{"train.epochs=50"}})
	if whole.EarlyStopped != 2 {
		t.Fatalf("%+v", whole)
	}
	if err := refused(t, 2, Options{Resume: whole.RunDir, Set: []string{"train.epochs=60"}}); !strings.Contains(err.Error(), "patience=N with N above 2") {
		t.Errorf("with the same patience: %v", err)
	}
	if res := runJob(t, 2, Options{Resume: whole.RunDir, Set: []string{"train.early_stop.patience=3"}}); res.Steps <= whole.Steps {
		t.Errorf("with more patience: %+v", res)
	}
}

// TestStreamHasNoPlan: a stream has no plan, so its summary has no comparison.
func TestStreamHasNoPlan(t *testing.T) {
	everyday(t)
	t.Parallel()
	dir, _ := days(t)
	res := runJob(t, 2, Options{Config: streamConfig(t, dir, ", files: 2", "")})
	if line := res.Differs(); strings.Contains(line, "planned") || !strings.Contains(line, "sent in steps") {
		t.Error(line)
	}
	res = runJob(t, 2, Options{Config: traintest.ClicksConfig(t, traintest.Clicks(t, 300), "", "")})
	if line := res.Differs(); !strings.HasPrefix(line, "planned ") {
		t.Error(line)
	}
	opt := Options{Config: streamConfig(t, dir, ", files: 2", "")}
	middle := runJob(t, 2, opt)
	for step, want := range map[int64]string{2: "after step 2, in span 1 behind row 32 of 57", 4: "after step 4, behind span 1"} {
		opt := Options{Resume: checkpoint.Dir(filepath.Join(middle.RunDir, checkpoint.Folder), step)}
		said := listen(&opt)
		runJob(t, 1, opt)
		if all := said(); !slices.Contains(all, "training resumes "+want) {
			t.Errorf("line %q, want %q", all, want)
		}
	}
}

// TestPlaceInUse: a run directory that is in use is reported before ranks start, even without
// a checkpoint.
func TestPlaceInUse(t *testing.T) {
	dir := t.TempDir()
	unlock, err := rundir.Lock(dir)
	fatal.If(t, err)
	if err := rundir.CheckPlace("", dir); err == nil || !strings.Contains(err.Error(), "is in use by another training") {
		t.Errorf("while it is in use: %v", err)
	}
	unlock()
	if err := rundir.CheckPlace("", dir); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestTimesAreThisJobs: the times of a job do not include an earlier job of the process with the
// same recorder.
func TestTimesAreThisJobs(t *testing.T) {
	patient.Long(t)
	rec := trace.New(0)
	rec.Enter(trace.Compute)
	time.Sleep(500 * time.Millisecond)
	rec.Enter(trace.Wait)
	j := NewJob(single(), rec, Options{Config: traintest.ClicksConfig(t, traintest.Clicks(t, 100), "", ""), Out: t.TempDir(), Warn: func(line string) { t.Log(line) }})
	res, err := j.Run(t.Context())
	fatal.If(t, err)
	if res.TrainSeconds <= 0 || res.TrainSeconds > res.Seconds+.001 {
		t.Errorf("%v s in steps, of %v s in all", res.TrainSeconds, res.Seconds)
	}
}

// TestResumeNamesAnotherStep: with train.batch, a training that resumes on other ranks says that its steps have another
// number of samples.
func TestResumeNamesAnotherStep(t *testing.T) {
	t.Parallel()
	for _, want := range []string{"a step has 32 samples on 1 rank, and had 64 on 2, because train.batch counts those of a rank; to keep it: -set train.global_batch=64", ""} {
		c := traintest.ClicksConfig(t, traintest.Clicks(t, 300), "", "")
		c.Train.GlobalBatch, c.Train.Batch = 0, 32
		if want == "" {
			c.Train.GlobalBatch, c.Train.Batch = 64, 0
		}
		old := runJob(t, 2, Options{Config: c})
		var said []string
		runJob(t, 1, Options{Resume: old.RunDir, Set: []string{fmt.Sprintf("train.epochs=%d", c.Train.Epochs+1)}, Say: func(line string) { said = append(said, line) }})
		all := strings.Join(said, "\n")
		if want != "" && !strings.Contains(all, want) || want == "" && strings.Contains(all, "a step has") {
			t.Errorf("no %q in, or too much: %s", want, all)
		}
	}
}
