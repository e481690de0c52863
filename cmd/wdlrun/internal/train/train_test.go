package train

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/train"
	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/rank"
)

// TestNothingToResume: -resume auto reports why it starts a new training, and nothing if it
// resumes one.
func TestNothingToResume(t *testing.T) {
	out := t.TempDir()
	opt := train.Options{Out: out}
	if got, want := nothingToResume(command.ResumeAuto, rank.World{}, opt), "-resume auto: there is no run in "+out+": starting a new training"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	run := filepath.Join(out, "20261124-010203")
	fatal.If(t, os.Mkdir(run, 0o700))
	fatal.If(t, os.WriteFile(filepath.Join(run, rundir.FileConfig), []byte("train: {seed: 1}\n"), 0o600))
	if got, want := nothingToResume(command.ResumeAuto, rank.World{}, opt), "-resume auto: the newest run, "+run+", has no checkpoint: starting a new training"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, x := range []struct {
		resume string
		opt    train.Options
	}{{"", opt}, {run, opt}, {command.ResumeAuto, train.Options{Out: out, Resume: run}}, {command.ResumeAuto, train.Options{Out: out, Again: run}}} {
		if got := nothingToResume(x.resume, rank.World{Generation: 1, Launched: true}, x.opt); got != "" {
			t.Errorf("%q, %+v: %q", x.resume, x.opt, got)
		}
	}
}

// TestPlainErrors: ranks send a trace after errors other than plain ones.
func TestPlainErrors(t *testing.T) {
	for err, want := range map[error]bool{
		&record.Fault{File: "a.csv", Line: 3}: true, errors.New("the loss is not a finite number"): true,
		fmt.Errorf("step 3: %w", &collective.MismatchError{}): false, fmt.Errorf("step 3: %w", &collective.LostError{}): false, &collective.AbortError{}: false,
	} {
		if plain(err) != want {
			t.Errorf("%v is reported with all details: %v", err, !want)
		}
	}
}

// TestResultsOfUnfinishedTrainings: the JSON result of a training that is not finished contains exit
// code and error.
func TestResultsOfUnfinishedTrainings(t *testing.T) {
	for np, r := range map[int]report.Result{1: {Stopped: true, Checkpoint: "x"}, 2: {}, 3: {LastCheckpoint: "x"}} {
		b, err := json.Marshal(r)
		fatal.If(t, err)
		var line bytes.Buffer
		var got struct {
			Code  int `json:"exit_code"`
			Error string
		}
		err = trained(&command.Program{})(&line, np, true, b)
		if json.Unmarshal(line.Bytes(), &got); err == nil || got.Code == 0 || got.Error == "" {
			t.Errorf("%v: %s", err, &line)
		}
	}
}

// TestStepsOfTwoTrainings: the output divides the steps of a run with train.refit, and the model before it has the
// number of its checkpoint.
func TestStepsOfTwoTrainings(t *testing.T) {
	var b bytes.Buffer
	r := report.Result{Steps: 651, Samples: 73000, Began: 584, Since: 584, NewSamples: 16500, WorldSize: 1}
	printTraining(&b, r)
	if strings.Contains(b.String(), "train.refit") {
		t.Errorf("a run with one training:\n%s", &b)
	}
	r.Refit = &report.Refit{Epochs: 2, Rows: 3300, FirstRows: 3000, FirstSteps: 41}
	b.Reset()
	printTraining(&b, r)
	for _, want := range []string{
		"trained 16500 samples in 67 steps, after the 584 steps of the model that it began with: ",
		"steps  the first training took 41, and the second, of which the model is, 26 (train.refit): the numbers count both; train -from this run counts on from the 610 steps of its model\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("without %q:\n%s", want, &b)
		}
	}
}

// TestNextBeginsWithTheLauncher: the proposed commands start on the same hosts.
func TestNextBeginsWithTheLauncher(t *testing.T) {
	line := bytes.Buffer{}
	printRunDir(&line, "wdlrun -np 4 -H a:2,b:2", report.Result{Checkpoint: "x", RunDir: "runs/1"})
	for _, want := range []string{"wdlrun -np 4 -H a:2,b:2 eval -resume runs/1 ", "wdlrun -np 4 -H a:2,b:2 predict -resume runs/1 "} {
		if !strings.Contains(line.String(), want) {
			t.Errorf("%q is missing:\n%s", want, &line)
		}
	}
}

// TestTheNewestRunIsNoLink: the newest run is a run directory, also if the link latest comes
// behind it by name.
func TestTheNewestRunIsNoLink(t *testing.T) {
	out := t.TempDir()
	for _, name := range []string{"20261121-020000", "20261122-020000"} {
		fatal.If(t, os.Mkdir(filepath.Join(out, name), 0o755))
		fatal.If(t, os.WriteFile(filepath.Join(out, name, rundir.FileConfig), nil, 0o644))
	}
	fatal.If(t, rundir.MarkLatest(filepath.Join(out, "20261121-020000")))
	if dir, _ := newestRun(out); filepath.Base(dir) != "20261122-020000" {
		t.Errorf("the newest run is %s", dir)
	}
}
