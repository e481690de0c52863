package mlflow

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/runs"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/golden"
)

// export writes a run with hostile names and values and returns the store.
func export(t *testing.T) string {
	t.Helper()
	dir, store := t.TempDir(), t.TempDir()
	files := map[string]string{
		"config.yaml":   "model: {kind: wide_deep}\nfeatures:\n  - {name: age, encode: hash}\n  - {name: AGE, encode: id}\n../../up: 1\n..: 2\n",
		"metrics.jsonl": `{"event":"train","time":"2026-11-23T14:00:00Z","step":1,"logloss":0.7,"rate":1}` + "\n" + `{"event":"valid","time":"2026-11-23T14:00:01Z","step":1,"logloss":0.5,"metrics":{"auc":0.75,"logloss":0.5}}` + "\n",
		"run.json":      `{"version":"1","command":["wdlrun","train"],"note":"a: \"b\"","tags":["base","../x"]}`,
		"result.json":   `{"steps":1,"seconds":2.5}`,
	}
	run := filepath.Join(dir, "20261123-140000")
	fatal.If(t, os.Mkdir(run, 0o755))
	for name, text := range files {
		fatal.If(t, os.WriteFile(filepath.Join(run, name), []byte(text), 0o644))
	}
	r, err := runs.Read(run)
	if err != nil || len(r.Faults) > 0 {
		t.Fatal(err, r.Faults)
	}
	r.Began = time.Date(2026, 11, 23, 14, 0, 0, 0, time.UTC)
	r.Train[0].Speed = math.Inf(1)
	for range 2 { // the second replaces the first
		e, err := NewExperiment(store, dir, time.UnixMilli(1))
		fatal.If(t, err)
		fatal.If(t, e.Add(r))
	}
	return store
}

// TestStore compares all files of a store with their golden text.
func TestStore(t *testing.T) {
	store := export(t)
	var b strings.Builder
	err := filepath.WalkDir(store, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(store, path)
		fmt.Fprintf(&b, "%s\n%s\n", name, strings.TrimSuffix(string(text), "\n"))
		return err
	})
	fatal.If(t, err)
	text := regexp.MustCompile(`[0-9a-f]{32}`).ReplaceAllString(b.String(), "RUN")
	text = regexp.MustCompile(`\b[0-9]{18}\b`).ReplaceAllString(text, "EXPERIMENT")
	golden.Check(t, "store.txt", regexp.MustCompile(`"(file://)?/[^"]*/`).ReplaceAllString(text, `"$1/…/`))
}
