package jobs

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// three contains the launch flags for three ranks. slowRank contains the flags that make one of
// them compute five times slower.
var (
	three    = []string{"-np", "3", "-oversubscribe"}
	slowRank = []string{"-chaos", "slow:5x@1"}
)

// trainWith runs train or replay with launch flags. The command must succeed.
func trainWith(t *testing.T, dir string, flags []string, program ...string) trained {
	t.Helper()
	o := run(t, dir, append(append([]string{}, flags...), program...)...)
	if o.code != 0 {
		t.Fatalf("%v %v: exit code %d\n%s", flags, program, o.code, o.stderr)
	}
	return parseTrained(t, o)
}

// TestSlowRank: a training that does not wait for a slow rank loses no sample and reaches the
// usual AUC. Its replay without a slow rank gives the same bits.
func TestSlowRank(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	r := trainWith(t, dir, three, append([]string{"train", "--json", "-backup", "1"}, slowRank...)...)
	if r.Samples%32561 != 0 || r.Samples == 0 || r.AUC < 0.925 {
		t.Errorf("%d samples, AUC %.4f; want epochs of 32561 samples and at least .925", r.Samples, r.AUC)
	}
	o := run(t, dir, "-np", "2", "replay", r.RunDir)
	if runs, _ := filepath.Glob(filepath.Join(dir, "runs", "2*")); o.code == 0 || !strings.Contains(o.stderr, "ran on 3 ranks, here are 2: microbatches would be others; use -np 3") || strings.Contains(o.stderr, "rank 0") || len(runs) != 1 {
		t.Errorf("replay on another number of ranks was not rejected: exit code %d, %v:\n%s", o.code, runs, o.stderr)
	}
	again := trainWith(t, dir, three, "replay", "--json", r.RunDir)
	if changed := changedSections(t, dir, again, r); len(changed) > 0 { // the sections may be in other files, because shards move to other ranks by measured load
		t.Errorf("replay: sections differ: %q", changed)
	}
}

// TestSpeculateHasTheBitsOfWait compares the models of the modes speculate and wait, in real
// processes and real time.
func TestSpeculateHasTheBitsOfWait(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	program := append([]string{"train", "--json"}, few(t)...)
	wait := trainWith(t, dir, three, program...)
	r := trainWith(t, dir, three, slices.Concat(program, []string{"-mode", "speculate"}, slowRank)...)
	sameModel(t, dir, r, wait)
}

// TestStalledRankDoesNotStallTheJob: one rank stops computing for longer than the timeout, and
// the job finishes without it.
func TestStalledRankDoesNotStallTheJob(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	patient.Try(t, time.Second, func(timeout time.Duration) error {
		o := run(t, t.TempDir(), "-np", "3", "-oversubscribe", "-timeout", timeout.String(), "train", "-backup", "1", "-chaos", "stop:1h@1@step30", "--json")
		if o.code != 0 {
			return fmt.Errorf("exit code %d\n%s", o.code, o.stderr)
		}
		if r := parseTrained(t, o); r.Samples%32561 != 0 || r.Samples == 0 {
			t.Errorf("%d samples, want epochs of 32561", r.Samples)
		}
		return nil
	})
}

// sameModel requires that the last checkpoints of two trainings are equal, except for the
// configuration, which contains the mode.
func sameModel(t *testing.T, dir string, a, b trained) {
	t.Helper()
	if changed := changedSections(t, dir, a, b); len(changed) > 1 || len(changed) == 1 && changed[0] != "config" {
		t.Errorf("sections differ: %q", changed)
	}
}

// changedSections names the sections in which the last checkpoints of two trainings differ.
func changedSections(t *testing.T, dir string, a, b trained) (names []string) {
	t.Helper()
	last := func(r trained) string {
		return filepath.Join(r.RunDir, "checkpoints", fmt.Sprintf("step-%09d", r.Steps))
	}
	o := run(t, dir, "ckpt", "diff", "--json", last(a), last(b))
	var diff struct {
		Sections int
		Changed  []struct{ Name string }
	}
	if err := json.Unmarshal([]byte(o.stdout), &diff); err != nil {
		t.Fatalf("%v\n%s%s", err, o.stdout, o.stderr)
	}
	if diff.Sections < 100 {
		t.Errorf("only %d sections were compared", diff.Sections)
	}
	for _, c := range diff.Changed {
		names = append(names, c.Name)
	}
	return names
}

// TestRefusedBeforeAnyRankStarts: settings that this number of ranks cannot use are rejected,
// and so are flags of train before another program.
func TestRefusedBeforeAnyRankStarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"-np", "3", "train", "-backup", "3"}, "-backup 3"},
		{[]string{"-np", "2", "train", "-chaos", "kill:2@step1"}, "rank 2"},
		{[]string{"-np", "1", "train", "-chaos", "cut:0-any@step1"}, "has no links"},
		{[]string{"-np", "2", "-backup", "1", "bench", "barrier"}, "bench has no flag -backup"},
	} {
		o := run(t, dir, c.args...)
		if o.code == 0 || !strings.Contains(o.stderr, c.says) || strings.Contains(o.stderr, "phase") {
			t.Errorf("%v: exit code %d\n%s", c.args, o.code, o.stderr)
		}
	}
}

// TestNoHintWithoutACheckpoint: without a checkpoint no message advises to resume.
func TestNoHintWithoutACheckpoint(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	o := run(t, t.TempDir(), "-np", "2", "train", "-chaos", "kill:1@step1")
	if o.code != 137 || !strings.Contains(o.stderr, "no checkpoint yet") || strings.Contains(o.stderr, "-resume") {
		t.Errorf("exit code %d\n%s", o.code, o.stderr)
	}
}
