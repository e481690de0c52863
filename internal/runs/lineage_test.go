package runs

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestTree: a run follows the one whose model it began with, and no run is lost or listed twice.
func TestTree(t *testing.T) {
	var all []*Summary
	for _, r := range [][2]string{{"a", ""}, {"b", "runs/a/checkpoints/step-000000008"}, {"c", ""}, {"d", "runs/b/checkpoints/step-000000016"}, {"d2", "runs/d"}, {"e", "runs/b"}, {"f", "../gone"}, {"x", "runs/y"}, {"y", "runs/x"}, {"z", "runs/z"}} {
		all = append(all, &Summary{Name: r[0], About: rundir.About{From: r[1]}})
	}
	ordered, branch := Tree(all)
	var names []string
	for _, r := range ordered {
		names = append(names, r.Name)
	}
	if want := []string{"a", "b", "d", "d2", "e", "c", "f", "x", "y", "z"}; !slices.Equal(names, want) {
		t.Errorf("order %q, want %q", names, want)
	}
	if want := []string{"", "", "├─ ", "│  ", "└─ ", "", "", "", "", ""}; !slices.Equal(branch, want) {
		t.Errorf("branches %q, want %q", branch, want)
	}
}

// TestTheLinkLatestIsNoRun: a listing has each run once, also if a link leads to one of them.
func TestTheLinkLatestIsNoRun(t *testing.T) {
	dir := folder(t, map[string]string{"run-1/config.yaml": yamlA, "run-1/metrics.jsonl": lines, "run-1/result.json": result})
	fatal.If(t, rundir.MarkLatest(filepath.Join(dir, "run-1")))
	if _, err := os.Stat(filepath.Join(dir, rundir.Latest, "result.json")); err != nil {
		t.Fatal(err)
	}
	if all := list(t, dir); len(all) != 1 || all[0].Name != "run-1" {
		t.Errorf("%d runs, want run-1", len(all))
	}
}
