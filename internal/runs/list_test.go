package runs

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// many makes a folder of enough runs for an index; their files are old.
func many(t testing.TB) string {
	t.Helper()
	files := map[string]string{}
	for i := range minIndexed + 3 {
		dir := fmt.Sprintf("run-%03d/", i)
		files[dir+"config.yaml"] = strings.Replace(yamlA, "epochs: 5", fmt.Sprintf("epochs: %d", i), 1)
		files[dir+"metrics.jsonl"] = lines
		files[dir+"result.json"] = result
	}
	files["run-001/config.yaml"] = yamlB + "extra: 1\n"
	files["run-002/config.yaml"] = "{{{"
	files["run-003/result.json"] = "{}x"
	delete(files, "run-009/result.json")
	files["run-009/failure-20261123-140000/verdict.txt"] = "rank 0 failed\n"
	files["run-004/run.json"] = `{"version":"1","command":["a"],"note":"first","tags":["x","y"]}`
	dir := folder(t, files)
	age(t, dir)
	return dir
}

func age(t testing.TB, dir string) {
	t.Helper()
	past := time.Now().Add(-time.Hour)
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chtimes(path, past, past)
	})
	fatal.If(t, err)
}

func list(t testing.TB, dir string) []*Summary {
	t.Helper()
	all, err := List(dir, func(int, int) {})
	fatal.If(t, err)
	return all
}

// TestIndex: a listing from the index equals one without. Runs whose files have changed
// are read again, and a damaged index is replaced.
func TestIndex(t *testing.T) {
	dir := many(t)
	path := filepath.Join(dir, FileIndex)
	fresh := list(t, dir)
	again := list(t, dir)
	for _, r := range again {
		r.Config.values, r.Config.varied, r.Config.to = r.Config.all(), nil, nil
	}
	if !reflect.DeepEqual(fresh, again) {
		t.Errorf("from the index %+v, want %+v", again[4], fresh[4])
	}
	if fresh[9].Failure != "rank 0 failed" || fresh[4].About.Note != "first" || fresh[2].Config.shape != nil || len(fresh[3].Faults) != 1 || len(Differing(fresh)) != 4 {
		t.Errorf("%+v, %q", fresh[2:5], Differing(fresh))
	}
	b, err := os.ReadFile(path)
	fatal.If(t, err)
	fatal.If(t, os.WriteFile(path, []byte(strings.ReplaceAll(string(b), `"auc":0.9`, `"auc":0.25`)), 0o644))
	unlock, err := rundir.Lock(filepath.Join(dir, "run-005"))
	fatal.If(t, err)
	defer unlock()
	fatal.If(t, os.WriteFile(filepath.Join(dir, "run-006/result.json"), []byte(strings.Replace(result, "0.9", "0.95", 1)), 0o644))
	fatal.If(t, os.Mkdir(filepath.Join(dir, "run-007/failure-1"), 0o755))
	all := list(t, dir)
	for i, want := range map[int]float64{4: 0.25, 5: 0.9, 6: 0.95, 7: 0.9} {
		if got := all[i].Number("auc"); got != want {
			t.Errorf("run %d: AUC %v, want %v", i, got, want)
		}
	}
	if all[5].State != Running {
		t.Errorf("a running training is %s", all[5].State)
	}
	for _, text := range []string{"", "null", "{", `{"format":2,"shapes":[],"runs":[{"name":"run-008","shape":9}]}`, strings.Replace(string(b), `"format":2`, `"format":0`, 1)} {
		fatal.If(t, os.WriteFile(path, []byte(text), 0o644))
		if n := list(t, dir)[8].Number("auc"); n != 0.9 {
			t.Errorf("with the index %.20q: AUC %v", text, n)
		}
		if now, err := os.ReadFile(path); err != nil || len(now) < 1000 {
			t.Errorf("the index %.20q is not replaced: %d bytes, %v", text, len(now), err)
		}
	}
}

// TestNoIndexCanBeWritten: the runs are listed anyway, and nothing is left behind.
func TestNoIndexCanBeWritten(t *testing.T) {
	dir := many(t)
	fatal.If(t, os.MkdirAll(filepath.Join(dir, FileIndex, "in-the-way"), 0o755))
	for range 2 {
		if n := len(list(t, dir)); n != minIndexed+3 {
			t.Errorf("%d runs", n)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, FileIndex+"-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

func FuzzIndex(f *testing.F) {
	f.Add([]byte(`{"format":2,"shapes":[{"keys":["a"],"values":["1"]}],"runs":[{"name":"r","stamp":7,"shape":0,"at":[0],"to":["2"]}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := parseIndex(b)
		if err != nil {
			return
		}
		var bases []Settings
		for _, s := range x.Shapes {
			bases = append(bases, Settings{shape: newShape(s.Keys), values: s.Values})
		}
		var all []*Summary
		for _, r := range x.Runs {
			all = append(all, r.summary("d", bases))
		}
		Sort(all, "auc", false)
		Differing(all)
	})
}
