package jobs

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// TestTraceNamesASlowRank: if one rank computes much more slowly than the others, wdlrun trace
// names it and its phase compute for nearly every step. The test does not run in parallel,
// because other jobs would also delay the other ranks.
func TestTraceNamesASlowRank(t *testing.T) {
	patient.Try(t, time.Second, func(time.Duration) error { // on a busy machine any rank may be late
		dir := t.TempDir()
		r := trainWith(t, dir, three, "train", "--json", "-chaos", "slow:40x@1", "-set", "train.global_batch=1024", "-set", "train.scaling=none", "-set", "train.epochs=1")
		o := run(t, dir, "trace", "-json", "-out", "all.json.gz", r.RunDir)
		if o.code != 0 {
			t.Fatalf("exit code %d\n%s", o.code, o.stderr)
		}
		var a struct {
			Steps int64
			Late  []struct {
				Rank   int
				Share  float64
				Causes []struct {
					Phase string
					Share float64
				}
			}
			Faults []string
		}
		if err := json.Unmarshal([]byte(o.stdout), &a); err != nil {
			t.Fatalf("%v\n%s", err, o.stdout)
		}
		if a.Steps != r.Steps || len(a.Faults) > 0 || len(a.Late) == 0 {
			t.Fatalf("%d of %d steps, late %v, faults %q", a.Steps, r.Steps, a.Late, a.Faults)
		}
		merged(t, filepath.Join(dir, "all.json.gz"), 3)
		worst := a.Late[0]
		if worst.Rank != 1 || worst.Share < 0.95 || worst.Causes[0].Phase != "compute" || worst.Causes[0].Share < 0.95 {
			return fmt.Errorf("%.1f %% of the steps waited for rank %d: %v; want rank 1, in phase compute", 100*worst.Share, worst.Rank, worst.Causes)
		}
		o = run(t, dir, "trace", r.RunDir)
		if want := " steps waited for rank 1 on host "; o.code != 0 || !strings.Contains(o.stdout, want) {
			t.Errorf("exit code %d, no %q in\n%s%s", o.code, want, o.stdout, o.stderr)
		}
		return nil
	})
}

// merged checks that a file is a trace that contains a process for each rank.
func merged(t *testing.T, path string, ranks int) {
	t.Helper()
	f, err := os.Open(path)
	fatal.If(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	fatal.If(t, err)
	var events []struct {
		Ph, Name string
		Pid, Tid int
		Args     struct{ Bytes, Rows, Batches int }
	}
	fatal.If(t, json.NewDecoder(z).Decode(&events))
	pids, found := map[int]bool{}, map[string]bool{}
	for _, e := range events {
		if e.Ph == "X" {
			pids[e.Pid] = true
		}
		found["bytes and rows of pull"] = found["bytes and rows of pull"] || e.Name == "pull" && e.Args.Bytes > 0 && e.Args.Rows > 0
		found["bytes of push"] = found["bytes of push"] || e.Name == "push" && e.Args.Bytes > 0
		found["batches of the reader"] = found["batches of the reader"] || e.Tid == 4 && e.Args.Batches > 0
		found["a checkpoint"] = found["a checkpoint"] || e.Tid == 5 && e.Name == "write"
	}
	for what, has := range found {
		if !has {
			t.Errorf("%s does not contain %s", path, what)
		}
	}
	if len(pids) != ranks {
		t.Errorf("spans of processes %v, want %d ranks", pids, ranks)
	}
}

// TestTraceOfNothing: the error names the missing argument or file.
func TestTraceOfNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct{ path, says string }{
		{"none", "no such file or directory"},
		{".", "has no trace-*.json"},
	} {
		if o := run(t, dir, "trace", c.path); o.code != 1 || !strings.Contains(o.stderr, c.says) {
			t.Errorf("trace %s: exit code %d, no %q in\n%s", c.path, o.code, c.says, o.stderr)
		}
	}
}

// TestTimelinesOnRequest: SIGUSR2 writes the timelines of the steps in -trace while the training
// continues.
func TestTimelinesOnRequest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := command(t, dir, "-np", "2", "train", "-set", "train.epochs=100000", "-trace", "steps=10-20")
	fatal.If(t, cmd.Start())
	files := func() int {
		found, _ := filepath.Glob(filepath.Join(dir, "runs", "2*", "trace-*.json"))
		return len(found)
	}
	eventually(t, "metrics of step 40", func() bool {
		found, _ := filepath.Glob(filepath.Join(dir, "runs", "2*", "metrics.jsonl"))
		if len(found) == 0 {
			return false
		}
		b, _ := os.ReadFile(found[0])
		return strings.Contains(string(b), `"step":40,`)
	})
	if files() != 0 {
		t.Error("timelines were written before the request")
	}
	cmd.Process.Signal(syscall.SIGUSR2)
	eventually(t, "two timelines", func() bool { return files() == 2 })
	found, _ := filepath.Glob(filepath.Join(dir, "runs", "2*"))
	o := run(t, dir, "trace", found[0])
	if o.code != 0 || !strings.Contains(o.stdout, "steps 10 to 20: ") {
		t.Errorf("exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	cmd.Process.Signal(syscall.SIGTERM)
	if o := end(t, cmd); !strings.Contains(o.stderr, "are written; next: wdlrun trace runs/") {
		t.Errorf("the message about the timelines is missing:\n%s", o.stderr)
	}
}

// TestTimelinesOfAFailure: after a loss, the remaining ranks write the timelines of their last
// steps.
func TestTimelinesOfAFailure(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	if o := run(t, dir, "-np", "3", "train", "-chaos", "kill:1@step50", "-set", "train.epochs=2"); o.code == 0 {
		t.Fatalf("no rank was killed\n%s", o.stderr)
	}
	found, _ := filepath.Glob(filepath.Join(dir, "runs", "2*"))
	var a struct {
		First int64 `json:"first_step"`
		Last  int64 `json:"last_step"`
	}
	o := run(t, dir, "trace", "-json", found[0])
	if err := json.Unmarshal([]byte(o.stdout), &a); err != nil {
		t.Fatalf("%v\n%s%s", err, o.stdout, o.stderr)
	}
	if files, _ := filepath.Glob(filepath.Join(found[0], "trace-*.json")); len(files) != 2 || a.First != 1 || a.Last < 49 {
		t.Errorf("%d timelines, of steps %d to %d; want 2, from step 1 to at least 49\n%s", len(files), a.First, a.Last, o.stdout)
	}
}

// TestNoTimelines: with -trace off no timeline is written. Invalid values are rejected.
func TestNoTimelines(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	o := run(t, dir, append([]string{"train", "-trace", "off"}, few(t)...)...)
	if files, _ := filepath.Glob(filepath.Join(dir, "runs", "2*", "trace-*.json")); o.code != 0 || len(files) > 0 || strings.Contains(o.stdout, "trace-") {
		t.Errorf("exit code %d, %q\n%s%s", o.code, files, o.stdout, o.stderr)
	}
	for _, bad := range []string{"maybe", "steps=5", "steps=20-10", "steps=0-9"} {
		if o := run(t, dir, "train", "-trace", bad); o.code != 1 || !strings.Contains(o.stderr, "such as steps=100-200") {
			t.Errorf("-trace %s: exit code %d\n%s", bad, o.code, o.stderr)
		}
	}
}
