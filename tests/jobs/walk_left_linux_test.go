package jobs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestWalkNamesWhatIsLeft: a walk that ends early names the partitions that are left, and a later one a
// training that it does not continue, as -plan does. A partition without rows, or without any that data.where
// selects, is not missing, and train.gate compares on the one after it.
func TestWalkNamesWhatIsLeft(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	clicksOf(t, dir, 1, 2, 4)
	write(t, dir, "ctr.yaml", walkConfig)
	empty := filepath.Join(dir, "clicks/dt=2026-11-03")
	fatal.If(t, os.MkdirAll(empty, 0o755))
	write(t, empty, "part.csv", "")
	check := func(o outcome, code int, want ...string) {
		t.Helper()
		for _, line := range want {
			no, line := strings.HasPrefix(line, "!"), strings.TrimPrefix(line, "!")
			if o.code != code || strings.Contains(o.stderr, line) == no {
				t.Errorf("exit code %d; %q in this: %v\n%s%s", o.code, line, no, o.stdout, o.stderr)
			}
		}
	}
	walk := func(more ...string) outcome {
		return run(t, dir, append([]string{"-np", "1", "train", "-config", "ctr.yaml", "-by", "dt"}, more...)...)
	}
	check(walk("-chaos", "kill:0@step10"), 137, "to continue, give the same command: 2 partitions left, from dt=2026-11-02 on", "!missing", "!-resume")
	check(walk("-plan"), 0, "dt=2026-11-02: the training in runs/", "did not become the latest and continues")
	check(walk("-set", "train.batch=16"), 0, "dt=2026-11-02: the training in runs/", "is left: its settings have changed: train.batch: 32 → 16; a new one begins", "dt=2026-11-03 is not trained on: its files are empty")
	check(walk("-again", "2026-11-02", "-set", "train.batch=16", "-chaos", "kill:0@step36"), 137, "1 partition left, from dt=2026-11-02 on")
	check(walk(), 0, "did not become the latest and is left; to continue it: -again 2026-11-02")
	check(walk("-again", "2026-11-02", "-set", "train.batch=16"), 0, "did not become the latest and continues")

	link := filepath.Join(dir, "runs", rundir.Latest)
	fatal.If(t, os.Remove(link))
	fatal.If(t, os.Symlink("gone", link))
	for _, args := range [][]string{{"eval", "-resume", "latest", "-data", "clicks/dt=2026-11-04/part.csv"}, {"train", "-config", "ctr.yaml", "-by", "dt"}, {"trace", "latest"}, {"report", "latest"}} {
		check(run(t, dir, args...), 1, "runs/latest: the link leads to gone")
	}

	write(t, empty, "part.csv", "clicked,item,user\n") // a header
	clicksOf(t, dir, 5)
	gated := []string{"-out", "gated", "-set", "train.gate.metric=logloss", "-set", "train.gate.tolerance=1", "-set", "train.gate.data=next"}
	o := walk(gated...)
	check(o, 0, "dt=2026-11-03 is not trained on", "dt=2026-11-05 waits")
	l, err := rundir.ReadDays(rundir.Real(filepath.Join(dir, "gated", rundir.Latest)))
	fatal.If(t, err)
	if n := len(l.Days); n != 3 || l.Days[n-1].Day != "2026-11-04" {
		t.Errorf("the ledger with a partition without rows: %+v", l.Days)
	}
	gated[1] = "selected"
	check(walk(append(gated, "-set", "data.where=dt != '2026-11-04'")...), 0, "dt=2026-11-04 is not trained on", "dt=2026-11-05 waits")
	gated[1] = "gated"
	check(walk(append(gated, "-from", "gated/"+l.Days[1].Run)...), 0, "!did not become the latest") // back a day: that training had ended
	check(run(t, dir, "init", "-data", "clicks", "-label", "clicked", "-out", "new.yaml"), 0, "on one folder dt=… after the other, each from the model before it: add -by dt")
}
