package jobs

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// TestRuns: runs lists trainings with the settings in which they differ, sorts and filters them,
// and ignores damaged run directories. report compares them.
func TestRuns(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	for _, seed := range []string{"train.seed=1", "train.seed=2"} {
		if o := run(t, dir, append([]string{"train", "-set", seed, "-note", "with " + seed, "-tag", "all," + seed[6:]}, few(t)...)...); o.code != 0 {
			t.Fatalf("exit code %d\n%s", o.code, o.stderr)
		}
	}
	fatal.If(t, os.MkdirAll(filepath.Join(dir, "runs", "foreign"), 0o755))
	fatal.If(t, os.WriteFile(filepath.Join(dir, "runs", "foreign", "metrics.jsonl"), []byte("\x1b[31mred\n"), 0o644))
	o := run(t, dir, "runs", "-sort", "auc")
	if o.code != 0 || !strings.Contains(o.stdout, "with train.seed=2") || !strings.Contains(o.stdout, "unreadable") || strings.Contains(o.stdout, "\x1b") {
		t.Errorf("exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	var all struct {
		Found int
		Runs  []struct {
			State    string
			Note     string
			Metrics  map[string]float64
			Settings map[string]string
		}
	}
	o = run(t, dir, "runs", "-where", "state=finished auc>0.5", "-sort", "logloss", "-json")
	if err := json.Unmarshal([]byte(o.stdout), &all); err != nil {
		t.Fatalf("%v\n%s%s", err, o.stdout, o.stderr)
	}
	if all.Found != 3 || len(all.Runs) != 2 || all.Runs[0].Metrics["logloss"] > all.Runs[1].Metrics["logloss"] || len(all.Runs[0].Settings) != 1 {
		t.Errorf("runs of 2 finished trainings and a damaged one: %+v", all)
	}
	o = run(t, dir, "runs", "-where", "tags=seed=2", "-json")
	if err := json.Unmarshal([]byte(o.stdout), &all); err != nil || len(all.Runs) != 1 || all.Runs[0].Note != "with train.seed=2" {
		t.Errorf("runs with a tag: %v\n%s%s", err, o.stdout, o.stderr)
	}
	o = run(t, dir, "runs", "-csv")
	if rows, err := csv.NewReader(strings.NewReader(o.stdout)).ReadAll(); err != nil || len(rows) != 4 {
		t.Errorf("runs -csv: %d rows, want 4: %v\n%s", len(rows), err, o.stdout)
	}
	made, err := filepath.Glob(filepath.Join(dir, "runs", "2*"))
	fatal.If(t, err)
	for _, name := range []string{"latest", filepath.Base(made[0])} {
		for _, args := range [][]string{{"trace", name}, {"report", name}, {"ckpt", "show", name}, {"runs", "diff", made[0], name}} {
			if o := run(t, dir, args...); o.code != 0 {
				t.Errorf("%q: exit code %d\n%s", args, o.code, o.stderr)
			}
		}
	}
	for want, args := range map[string][]string{"report: stat nosuch": {"report", "nosuch"}, "from: checkpoint: ": {"train", "-from", "runs/nosuch"}} {
		if o := run(t, dir, args...); o.code != 1 || !strings.HasPrefix(o.stderr, "wdlrun: "+want) {
			t.Errorf("%q: exit code %d\n%s", args, o.code, o.stderr)
		}
	}
	reportsOfRuns(t, dir, made)
	if o = run(t, dir, append(append([]string{"train"}, few(t)...), "-set", "data.test=[\"builtin:adult.test\"]")...); o.code != 0 {
		t.Fatalf("exit code %d\n%s", o.code, o.stderr)
	}
	if o = run(t, dir, "runs", "-sort", "auc"); !strings.Contains(o.stdout, "note: metrics of test (2) are not comparable with test (1): other data\n") || strings.Index(o.stdout, "test (2)") < strings.LastIndex(o.stdout, "  test (1)  ") {
		t.Errorf("runs on other test data:\n%s", o.stdout)
	}
	if o = run(t, dir, "runs", "-where", "ac>1"); o.code != 1 || !strings.Contains(o.stderr, "did you mean auc?") {
		t.Errorf("exit code %d\n%s", o.code, o.stderr)
	}
}

// reportsOfRuns writes the report of runs, over another one, but over no other file.
func reportsOfRuns(t *testing.T, dir string, made []string) {
	t.Helper()
	o := run(t, dir, append([]string{"report", "-out", "all.html"}, made...)...)
	page, err := os.ReadFile(filepath.Join(dir, "all.html"))
	if o.code != 0 || err != nil || !bytes.Contains(page, []byte(" is the best by AUC of the test data")) || !bytes.Contains(page, []byte("train.seed")) {
		t.Errorf("report: exit code %d, %v\n%s%s", o.code, err, o.stdout, o.stderr)
	}
	fatal.If(t, os.WriteFile(filepath.Join(dir, "mine.html"), []byte("{}"), 0o644))
	for out, code := range map[string]int{"mine.html": 1, "all.html": 0} {
		if o = run(t, dir, "report", "-out", out, "runs"); o.code != code || (code == 1) != strings.Contains(o.stderr, out+" exists and is no report of wdlrun") ||
			!strings.Contains(o.stderr, "runs is a folder of runs: the report is about ") {
			t.Errorf("report -out %s: exit code %d\n%s%s", out, o.code, o.stdout, o.stderr)
		}
	}
}
