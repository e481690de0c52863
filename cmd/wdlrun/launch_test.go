package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/rank"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/train"
	"github.com/wdlrun/wdlrun/internal/train/report"
)

// TestLikeRank0: a rank that prints no result exits with the same code as rank 0.
func TestLikeRank0(t *testing.T) {
	const saved = "runs/r/checkpoints/step-3"
	for _, x := range []struct {
		name   string
		result any
		want   error
	}{
		{"finished", report.Result{Checkpoint: saved}, nil},
		{"stopped", report.Result{Checkpoint: saved, Stopped: true}, exit(stoppedCode)},
		{"not saved at the end", report.Result{LastCheckpoint: saved}, exit(1)},
		{"never saved", report.Result{Stopped: true}, exit(1)},
		{"another command", 3, nil},
	} {
		if err := likeRank0(x.result); err != x.want {
			t.Errorf("%s: %v, want %v", x.name, err, x.want)
		}
	}
}

// TestNothingToResume: -resume auto reports why it starts a new training, and nothing if it
// resumes one.
func TestNothingToResume(t *testing.T) {
	out := t.TempDir()
	opt := train.Options{Out: out}
	if got, want := nothingToResume(resumeAuto, rank.World{}, opt), "-resume auto: there is no run in "+out+": starting a new training"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	run := filepath.Join(out, "20261124-010203")
	fatal.If(t, os.Mkdir(run, 0o700))
	fatal.If(t, os.WriteFile(filepath.Join(run, rundir.FileConfig), []byte("train: {seed: 1}\n"), 0o600))
	if got, want := nothingToResume(resumeAuto, rank.World{}, opt), "-resume auto: the newest run, "+run+", has no checkpoint: starting a new training"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, x := range []struct {
		resume string
		opt    train.Options
	}{{"", opt}, {run, opt}, {resumeAuto, train.Options{Out: out, Resume: run}}, {resumeAuto, train.Options{Out: out, Again: run}}} {
		if got := nothingToResume(x.resume, rank.World{Generation: 1, Launched: true}, x.opt); got != "" {
			t.Errorf("%q, %+v: %q", x.resume, x.opt, got)
		}
	}
}

// TestNextNamesHosts: the proposed commands start on the same hosts.
func TestNextNamesHosts(t *testing.T) {
	result, err := json.Marshal(report.Result{Checkpoint: "x", RunDir: "runs/1"})
	fatal.If(t, err)
	p, line := &program{hosts: " -H a:2,b:2"}, bytes.Buffer{}
	fatal.If(t, trained(p)(&line, 4, false, result))
	for _, want := range []string{"wdlrun -np 4 -H a:2,b:2 eval -resume runs/1 ", "wdlrun -np 4 -H a:2,b:2 predict -resume runs/1 "} {
		if !strings.Contains(line.String(), want) {
			t.Errorf("%q is missing:\n%s", want, &line)
		}
	}
}
