package train

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/internal/train/save"
	"github.com/wdlrun/wdlrun/internal/train/traintest"
)

// savesOften returns the options of a training with a checkpoint after every fourth step, one
// in n of which is full.
func savesOften(t *testing.T, path string, recipe [2]string, n int) Options {
	return Options{Config: traintest.ClicksConfig(t, path, recipe[0], recipe[1]),
		Set: []string{"train.checkpoint.every_steps=4", fmt.Sprintf("train.checkpoint.full_every=%d", n)}}
}

// TestChainsHoldWhatFullOnesHold: at every step, a chain of incremental checkpoints has the
// same shards as a full one, for all update rules and policies.
func TestChainsHoldWhatFullOnesHold(t *testing.T) {
	path := traintest.Clicks(t, 1500)
	for _, name := range []string{"regular", "rows"} {
		t.Run(name, func(t *testing.T) {
			if name != "rows" {
				everyday(t)
				patient.Long(t)
			}
			t.Parallel()
			fulls := runJob(t, 2, savesOften(t, path, recipes[name], 1))
			chains := runJob(t, 2, savesOften(t, path, recipes[name], 4))
			found, err := checkpoint.List(filepath.Join(chains.RunDir, checkpoint.Folder))
			if err != nil || len(found) < 15 {
				t.Fatalf("%d checkpoints, %v", len(found), err)
			}
			longest := 0
			for _, f := range found {
				longest = max(longest, len(open(t, f.Dir).Chain()))
				sameContents(t, open(t, f.Dir), open(t, checkpoint.Dir(filepath.Join(fulls.RunDir, checkpoint.Folder), f.Step)))
			}
			if longest != 4 {
				t.Errorf("the longest chain has %d checkpoints, want 4", longest)
			}
		})
	}
}

func open(t *testing.T, dir string) *checkpoint.Checkpoint {
	t.Helper()
	c, err := checkpoint.Open(dir)
	fatal.If(t, err)
	return c
}

// sameContents compares everything except the configuration.
func sameContents(t *testing.T, got, want *checkpoint.Checkpoint) {
	t.Helper()
	contents := [2]map[string]save.Content{}
	for i, c := range []*checkpoint.Checkpoint{got, want} {
		x, err := save.Contents(c)
		fatal.If(t, err)
		delete(x, save.SectionConfig)
		contents[i] = x
	}
	if !maps.Equal(contents[0], contents[1]) {
		for name, x := range contents[1] {
			if contents[0][name] != x {
				t.Errorf("%s: %s: %+v, want %+v", got.Dir(), name, contents[0][name], x)
			}
		}
		t.Errorf("%s: %d sections, want %d", got.Dir(), len(contents[0]), len(contents[1]))
	}
}

// TestAChainOnAnotherWorldSize: a chain written by two ranks and evaluated on three is the
// same model as a full checkpoint.
func TestAChainOnAnotherWorldSize(t *testing.T) {
	patient.Long(t)
	everyday(t)
	t.Parallel()
	path := traintest.Clicks(t, 1500)
	fulls, chains := runJob(t, 2, savesOften(t, path, recipes["lazy"], 1)), runJob(t, 2, savesOften(t, path, recipes["lazy"], 6))
	dirs := [2]string{}
	for i, r := range []report.Result{fulls, chains} {
		dirs[i] = checkpoint.Dir(filepath.Join(r.RunDir, checkpoint.Folder), 52)
	}
	if open(t, dirs[1]).Base() == nil {
		t.Fatal("the checkpoint of step 52 is full, so the test is void")
	}
	ends := [2]report.Result{}
	for i, dir := range dirs {
		ends[i] = runJob(t, 3, Options{Resume: dir, Out: t.TempDir()})
	}
	if *ends[0].TestLogLoss != *ends[1].TestLogLoss || ends[0].TrainLogLoss != ends[1].TrainLogLoss {
		t.Errorf("from a chain: %+v, from a full checkpoint: %+v", ends[1], ends[0])
	}
	if c := open(t, checkpoint.Dir(filepath.Join(ends[1].RunDir, checkpoint.Folder), 52)); len(c.Chain()) < 2 {
		t.Error("the base of the new run's first checkpoint is missing")
	}
}

// TestABrokenChainFallsBack: a training resumes from the newest checkpoint whose whole chain
// is intact, and reports the damaged ones.
func TestABrokenChainFallsBack(t *testing.T) {
	everyday(t)
	t.Parallel()
	whole := runJob(t, 2, savesOften(t, traintest.Clicks(t, 1500), recipes["plain"], 6))
	root := filepath.Join(whole.RunDir, checkpoint.Folder)
	for _, step := range []int64{57, 56} { // the last checkpoint, and the end of the previous chain
		fatal.If(t, os.RemoveAll(checkpoint.Dir(root, step)))
	}
	spoilt := filepath.Join(checkpoint.Dir(root, 48), "rank-0001-of-0002.wck")
	fatal.If(t, os.Truncate(spoilt, 100))
	if c, err := checkpoint.Open(checkpoint.Dir(root, 52)); err == nil {
		t.Fatalf("the base of step 52 is %v, want step 48", c.Base())
	}
	var warned []string
	d := decision{opt: &Options{Resume: whole.RunDir, Warn: func(line string) { warned = append(warned, line) }}, size: 1, run: new(run)}
	c, err := d.choose(t.Context())
	if err != nil || c.Step() != 44 {
		t.Fatalf("%v: %v", c, err)
	}
	all := strings.Join(warned, "\n")
	if !strings.Contains(all, "step-000000052: it builds upon step 48") || !strings.Contains(all, "rank-0001-of-0002.wck") || !strings.Contains(all, "an earlier checkpoint is used") {
		t.Errorf("warnings:\n%s", all)
	}
	again := runJob(t, 2, Options{Resume: whole.RunDir})
	if *again.TestLogLoss != *whole.TestLogLoss {
		t.Errorf("log-loss %v after the fallback, %v before", *again.TestLogLoss, *whole.TestLogLoss)
	}
}
