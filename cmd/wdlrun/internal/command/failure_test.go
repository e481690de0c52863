package command

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/runs"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/launcher"
	"github.com/wdlrun/wdlrun/nccl"
	"github.com/wdlrun/wdlrun/rank"
)

func TestSaid(t *testing.T) {
	many := []int{0, 1, 2, 3, 4, 5, 6, 7, 8}
	for _, x := range []struct {
		stacks, traces []int
		want           string
	}{
		{nil, nil, "only the verdict, because no rank reported"},
		{[]int{2}, []int{2}, "stacks and traces of rank 2"},
		{[]int{2, 0}, []int{0, 2}, "stacks and traces of ranks 0, 2"},
		{[]int{0, 2}, nil, "stacks, and no traces, of ranks 0, 2"},
		{nil, []int{1}, "traces, and no stacks, of rank 1"},
		{many, many[1:], "stacks of 9 ranks, traces of ranks 1, 2, 3, 4, 5, 6, 7, 8"},
	} {
		if got := describeKept(x.stacks, x.traces); got != x.want {
			t.Errorf("stacks of %v, traces of %v: %q, want %q", x.stacks, x.traces, got, x.want)
		}
	}
}

// TestPlainErrorsLeaveTheVerdict: reports are kept of failures other than plain errors;
// ranks send a trace only then. A run with a plain error has failed too, for its reason.
func TestPlainErrorsLeaveTheVerdict(t *testing.T) {
	stacks := []launcher.Report{{Rank: 0, About: aboutStacks}, {Rank: 1, About: aboutStacks}, {Rank: 0, About: AboutTrace}, {Rank: 1, About: nccl.AboutCalls}, {Rank: 1, About: "../calls"}}
	for _, x := range []struct {
		kind rank.Kind
		rank int
		want string
	}{
		{rank.Killed, 1, "stacks of ranks 0, 1, traces of rank 0"}, {rank.Failed, 0, "stacks of ranks 0, 1, traces of rank 0"}, {rank.Failed, 1, ""},
	} {
		dir := t.TempDir()
		out := launcher.Outcome{Verdict: &rank.Verdict{Kind: x.kind, Rank: x.rank}, Status: rank.Status{RunDir: dir}, Reports: stacks}
		got := keepFailure(out, t.Output())
		left, err := os.ReadDir(dir)
		if err != nil || !strings.HasPrefix(got, x.want) || (got == "") != (x.want == "") || len(left) != 1 {
			t.Fatalf("rank %d %s: %q and %v, want %q", x.rank, x.kind, got, left, x.want)
		}
		files, err := filepath.Glob(filepath.Join(dir, left[0].Name(), "*"))
		if err != nil || x.want == "" && (len(files) != 1 || filepath.Base(files[0]) != runs.FileVerdict) {
			t.Errorf("%q, %v", files, err)
		}
		fatal.If(t, os.WriteFile(filepath.Join(dir, rundir.FileConfig), []byte("train: {seed: 1}\n"), 0o600))
		if r, err := runs.Read(dir); err != nil || r.State != runs.Failed || r.Failure != out.Verdict.String() {
			t.Errorf("%+v, %v; want the failure %q", r, err, out.Verdict)
		}
		if x.want != "" && (len(files) != 5 || filepath.Base(files[2]) != "rank-0001.calls") {
			t.Errorf("%q", files)
		}
	}
}

// TestResultsOfWhatEndedOtherwise: the JSON result of a failed job contains exit code and
// error, once.
func TestResultsOfWhatEndedOtherwise(t *testing.T) {
	stopped := `{"steps":5,"exit_code":130,"error":"ended by a signal: interrupt"}`
	for _, x := range []struct{ result, want string }{
		{`{"steps":5}`, `{"steps":5,"error":"full","exit_code":1}`},
		{stopped, stopped},
		{`[{"op":"pull"}]`, `[{"op":"pull"}]`},
		{`null`, `null`},
		{`{}`, `{}`},
	} {
		if got := string(WithCode([]byte(x.result), 1, "full")); got != x.want {
			t.Errorf("%s becomes %s, want %s", x.result, got, x.want)
		}
	}
}

// TestPurpose: a verdict caused by an injected fault names it, and no other verdict names
// an earlier fault.
func TestPurpose(t *testing.T) {
	run := t.TempDir()
	has := func(lines string) {
		fatal.If(t, os.WriteFile(filepath.Join(run, "chaos.log"), []byte("ranks 3\n"+lines), 0o600))
	}
	p := &Program{chaos: true}
	of := func(k rank.Kind, r int) string {
		return p.injectedFault(launcher.Outcome{Verdict: &rank.Verdict{Kind: k, Rank: r}, Status: rank.Status{RunDir: run}})
	}
	for _, x := range []struct {
		log  string
		kind rank.Kind
		rank int
		want string
	}{
		{"", rank.Killed, 1, ""},
		{"0 kill:1@step7\n", rank.Killed, 1, "kill:1@step7"},
		{"0 kill:1@step7\n", rank.Killed, 1, ""}, // this time it was another cause
		{"0 kill:1@step7\n2 kill:2@step9\n", rank.Killed, 1, ""},
		{"0 kill:1@step7\n2 kill:2@step9\n1 stop:1s@0@step10\n3 cut:0-1@step11\n", rank.Blamed, 1, "cut:0-1@step11"},
	} {
		has(x.log)
		if got := of(x.kind, x.rank); got != x.want {
			t.Errorf("rank %d %s, list %q: %q, want %q", x.rank, x.kind, x.log, got, x.want)
		}
	}
	p = &Program{} // a list of an earlier job
	if got := of(rank.Killed, 1); got != "" {
		t.Errorf("without faults on purpose: %q", got)
	}
}

// TestFailuresOfOneSecond: each failure has a separate folder.
func TestFailuresOfOneSecond(t *testing.T) {
	run, now := t.TempDir(), time.Date(2026, 11, 21, 10, 15, 0, 0, time.Local)
	for _, want := range []string{"failure-20261121-101500", "failure-20261121-101500-2", "failure-20261121-101500-3"} {
		dir, err := failureFolder(run, now)
		if err != nil || dir.Name() != filepath.Join(run, want) {
			t.Fatalf("%v, %v; want %s", dir, err, want)
		}
		dir.Close()
	}
	if dir, err := failureFolder(filepath.Join(run, "on other hosts"), now); err != nil || dir.Name() != filepath.Join(run, "on other hosts", "failure-20261121-101500") {
		t.Errorf("of a run directory that is not here: %v, %v", dir, err)
	}
	fatal.If(t, os.WriteFile(filepath.Join(run, "file"), nil, 0o600))
	if _, err := failureFolder(filepath.Join(run, "file"), now); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("of a file: %v", err)
	}
}

// TestAFailureFolderIsNoLink: a link with the name of the folder is passed over.
func TestAFailureFolderIsNoLink(t *testing.T) {
	run, away, now := t.TempDir(), t.TempDir(), time.Date(2026, 11, 21, 10, 15, 0, 0, time.Local)
	fatal.If(t, os.Symlink(away, filepath.Join(run, "failure-20261121-101500")))
	dir, err := failureFolder(run, now)
	fatal.If(t, err)
	defer dir.Close()
	fatal.If(t, dir.WriteFile("verdict.txt", []byte("killed"), 0o644))
	if b, err := os.ReadFile(filepath.Join(run, "failure-20261121-101500-2", "verdict.txt")); err != nil || string(b) != "killed" {
		t.Errorf("%q, %v", b, err)
	}
	if all, _ := os.ReadDir(away); len(all) > 0 {
		t.Errorf("written through the link: %v", all)
	}
}

// TestADivergedTrainingIsNotResumed: no command is proposed that resumes from the checkpoints of a
// diverged training.
func TestADivergedTrainingIsNotResumed(t *testing.T) {
	for cause, want := range map[string]bool{"the disk is full": true, "step 101: " + report.Diverges + ": the loss was 0.1": false} {
		var b bytes.Buffer
		p := &Program{Stderr: &b}
		p.printNext(&rank.Verdict{Kind: rank.Exited, Cause: cause}, "wdlrun", t.TempDir())
		if (b.Len() > 0) != want {
			t.Errorf("%s: %s", cause, &b)
		}
	}
}
