package online

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestApart: a part that does not read what the part before it writes is named with the remedy.
func TestApart(t *testing.T) {
	for _, x := range []struct {
		train, dir string
		follow     bool
		models     []string
		want       []string
	}{
		{"samples", "models/ctr", true, []string{"ctr=models/ctr"}, nil},
		{"samples/*.jsonl", "models/ctr", true, []string{"other=x", "ctr=./models/ctr/"}, nil},
		{"samples", "models/ctr", true, nil, nil}, // other flags name the models
		{"shown", "models/ctr", true, []string{"ctr=models/ctr"}, []string{"the training reads shown: make data.train the folder of join.out"}},
		{"samples", "models/ctr", false, []string{"ctr=models/ctr"}, []string{"set data.follow: {on: true}"}},
		{"samples", "models/a", true, []string{"ctr=models/b", "x=c"}, []string{"the training publishes to models/a, and the server reads models/b, c: make train.export.dir the folder of serve.model"}},
		{"samples", "", true, []string{"ctr=models/b"}, []string{"the server reads models/b: make it train.export.dir"}},
		{"shown", "models/a", false, []string{"ctr=models/b"}, []string{"data.train", "data.follow", "train.export.dir"}},
	} {
		c := &config.Config{}
		c.Data.Train, c.Data.Follow.On, c.Train.Export.Dir = []string{x.train}, x.follow, x.dir
		got := apart("", c, "samples", x.models)
		if !slices.EqualFunc(got, x.want, func(line, part string) bool { return strings.Contains(line, part) }) {
			t.Errorf("%+v: %q", x, got)
		}
	}
}

// TestVerdictSince: the error of a training is the first line of its last verdict, not of one of an earlier process.
func TestVerdictSince(t *testing.T) {
	run, began := t.TempDir(), time.Now().Add(-time.Minute)
	for name, age := range map[string]time.Duration{"failure-1": 2 * time.Minute, "failure-2": 30 * time.Second, "failure-2-2": 20 * time.Second, "failure-3": time.Hour} {
		path := filepath.Join(run, name, "verdict.txt")
		fatal.If(t, os.Mkdir(filepath.Dir(path), 0o700))
		fatal.If(t, os.WriteFile(path, []byte(name+" was killed by signal 9\n  rank 1: lost\n"), 0o600))
		fatal.If(t, os.Chtimes(path, time.Time{}, time.Now().Add(-age)))
	}
	for _, x := range []struct {
		run   string
		began time.Time
		want  string
	}{{run, began, "failure-2-2 was killed by signal 9"}, {run, time.Now(), ""}, {"", began, ""}, {filepath.Join(run, "none"), began, ""}} {
		if got := verdictSince(x.run, x.began); got != x.want {
			t.Errorf("%q since %v: %q, want %q", x.run, x.began, got, x.want)
		}
	}
}

// TestPageWithoutPort: a port in use is named with the key that chooses another.
func TestPageWithoutPort(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	defer ln.Close()
	_, err = servePage(t.Context(), ln.Addr().String(), &strings.Builder{}, nil)
	if err == nil || !strings.Contains(err.Error(), "give another port, such as web: 127.0.0.1:0") {
		t.Error(err)
	}
}

// TestUnpublished: the line about the last model is found in the log of a training.
func TestUnpublished(t *testing.T) {
	const line = "train.export.guard: the last model, of step 252, was not published: the log-loss of 20 samples is 2.09"
	for log, want := range map[string]string{
		"[0] wdlrun: " + line + "\nstep 252\n":                  line,
		"wdlrun: train.export.guard: the rate\nwdlrun: ended\n": "",
		"wdlrun: " + line: line,
		line:              "",
		"":                "",
	} {
		if got := unpublished([]byte(log)); got != want {
			t.Errorf("%q: %q, want %q", log, got, want)
		}
	}
}

// TestLogsHaveALimit: a log that is too long is emptied, and its part continues to write to it.
func TestLogsHaveALimit(t *testing.T) {
	x := &part{log: filepath.Join(t.TempDir(), "train.log")}
	said := &strings.Builder{}
	o := &online{p: &command.Program{Stderr: said}, parts: []*part{x, {log: x.log + ".none"}}}
	log, err := os.OpenFile(x.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	fatal.If(t, err)
	defer log.Close()
	write := func(text string) {
		_, err := log.WriteString(text)
		fatal.If(t, err)
	}
	long := strings.Repeat("a line\n", longestLog/7)
	write(long)
	o.limitLogs()
	write("one more\n")
	o.limitLogs() // is long enough only now
	write("after\n")
	for path, want := range map[string]string{x.log: "after\n", x.log + ".1": long + "one more\n"} {
		if b, err := os.ReadFile(path); err != nil || string(b) != want {
			t.Errorf("%s has %d bytes, want %d: %v", path, len(b), len(want), err)
		}
	}
	if said.Len() > 0 {
		t.Error(said)
	}
}

// TestLastState: the state that is kept has what a part writes while it ends.
func TestLastState(t *testing.T) {
	dir := t.TempDir()
	metrics := filepath.Join(dir, rundir.FileMetrics)
	script := `trap 'echo "{\"event\":\"train\",\"step\":7,\"samples\":70}" > ` + metrics + `; exit 0' TERM; echo > ` + filepath.Join(dir, "ready") + `; while :; do sleep 0.02; done`
	p := &command.Program{Stderr: io.Discard}
	o := &online{p: p, self: "/bin/sh", watch: &loopWatch{dir: dir, metrics: metrics}}
	o.parts = []*part{{Name: "train", args: []string{"-c", script}, log: filepath.Join(dir, "train.log"), done: make(chan struct{})}}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for {
			if _, err := os.Stat(filepath.Join(dir, "ready")); err == nil || t.Context().Err() != nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	fatal.If(t, o.run(ctx))
	b, err := os.ReadFile(filepath.Join(dir, "status.json"))
	fatal.If(t, err)
	var s loopStatus
	fatal.If(t, json.Unmarshal(b, &s))
	if s.Loop.Step != 7 || s.Loop.Trained != 70 || s.Parts[0].State != "ended" {
		t.Errorf("the last state: %s", b)
	}
}
