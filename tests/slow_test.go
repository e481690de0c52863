package tests

import (
	"fmt"
	"strings"
	"testing"
)

// slowRank are launch flags: one of three ranks computes five times slower.
var slowRank = []string{"-np", "3", "-oversubscribe", "-chaos", "slow:5x@1"}

// slowly runs a program with launch flags that must succeed.
func slowly(t *testing.T, dir string, flags []string, program ...string) trained {
	t.Helper()
	o := run(t, dir, append(append([]string{}, flags...), program...)...)
	if o.code != 0 {
		t.Fatalf("%v %v: exit code %d\n%s", flags, program, o.code, o.stderr)
	}
	return parseTrained(t, o)
}

// TestSlowRank: a training that leaves a slow rank behind loses no sample and is
// as good as any; its replay, with nobody slow, has the same bits.
func TestSlowRank(t *testing.T) {
	dir := t.TempDir()
	r := slowly(t, dir, append([]string{"-backup", "1"}, slowRank...), "train", "--json")
	if r.Samples%32561 != 0 || r.Samples == 0 || r.AUC < 0.925 {
		t.Errorf("%d samples, AUC %.4f; epochs of 32561 samples and at least .925 are expected", r.Samples, r.AUC)
	}
	again := slowly(t, dir, []string{"-np", "3", "-oversubscribe"}, "replay", "--json", r.RunDir)
	samePart(t, "replay", parts(t, dir, again.RunDir, again.Steps), parts(t, dir, r.RunDir, r.Steps))
}

// TestSpeculateHasTheBitsOfWait over processes, where timing is nobody's choice.
func TestSpeculateHasTheBitsOfWait(t *testing.T) {
	dir := t.TempDir()
	program := append([]string{"train", "--json"}, short...)
	wait := slowly(t, dir, []string{"-np", "3", "-oversubscribe"}, program...)
	r := slowly(t, dir, append([]string{"-mode", "speculate"}, slowRank...), program...)
	samePart(t, fmt.Sprintf("speculate, %d steps", r.Steps), parts(t, dir, r.RunDir, r.Steps), parts(t, dir, wait.RunDir, wait.Steps))
}

// TestRefusedBeforeAnyRankStarts: what so many ranks cannot do, and flags of a
// training for a program that is none.
func TestRefusedBeforeAnyRankStarts(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"-np", "3", "-backup", "3", "train"}, "-backup 3"},
		{[]string{"-np", "2", "-chaos", "kill:2@step1", "train"}, "rank 2"},
		{[]string{"-np", "2", "-chaos", "cut:0-1@step1", "train"}, "cut:0-1@step1"},
		{[]string{"-np", "2", "-backup", "1", "bench", "barrier"}, "it is for train"},
	} {
		o := run(t, dir, c.args...)
		if o.code == 0 || !strings.Contains(o.stderr, c.says) || strings.Contains(o.stderr, "phase") {
			t.Errorf("%v: exit code %d\n%s", c.args, o.code, o.stderr)
		}
	}
}

// TestNoHintWithoutACheckpoint: nobody is sent to resume what was never saved.
func TestNoHintWithoutACheckpoint(t *testing.T) {
	o := run(t, t.TempDir(), "-np", "2", "-chaos", "kill:1@step1", "train")
	if o.code != 137 || !strings.Contains(o.stderr, "no checkpoint yet") || strings.Contains(o.stderr, "-resume") {
		t.Errorf("exit code %d\n%s", o.code, o.stderr)
	}
}
