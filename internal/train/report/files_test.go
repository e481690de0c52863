package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestResumeDropsLaterMetrics: repeated steps occur once in metrics.jsonl.
func TestResumeDropsLaterMetrics(t *testing.T) {
	dir := t.TempDir()
	text := `{"event":"train","step":20}` + "\n" + `{"event":"train","step":40}` + "\n" + `{"event":"tr`
	fatal.If(t, os.WriteFile(filepath.Join(dir, rundir.FileMetrics), []byte(text), 0o644))
	m := openMetrics(dir, nil, 20, func(line string) { t.Error(line) })
	m.write([]byte(`{"event":"train","step":40}`))
	m.close()
	b, err := os.ReadFile(filepath.Join(dir, rundir.FileMetrics))
	all := strings.Split(strings.TrimSpace(string(b)), "\n")
	if err != nil || len(all) != 2 || !strings.Contains(all[0], `"step":20`) || !strings.Contains(all[1], `"step":40`) {
		t.Errorf("lines %q, %v", all, err)
	}
}

// TestRunFiles: files that could not be written are not listed, and checkpoints are listed if
// there are any.
func TestRunFiles(t *testing.T) {
	for _, c := range []struct {
		r    Result
		want string
	}{
		{Result{Checkpoint: "x"}, "config.yaml metrics.jsonl result.json trace-*.json checkpoints/"},
		{Result{LastCheckpoint: "x", Lost: []string{rundir.FileTraces}}, "config.yaml metrics.jsonl result.json checkpoints/"},
		{Result{Events: true, NoTimeline: true}, "config.yaml metrics.jsonl result.json tb/"},
		{Result{Lost: []string{rundir.FileTraces, rundir.FileResult}}, "config.yaml metrics.jsonl"},
	} {
		var names []string
		for _, f := range c.r.RunFiles() {
			names = append(names, f.Name)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%+v: %s, want %s", c.r, got, c.want)
		}
	}
}

// TestEventFilesAreGivenUpOnce: training continues without event files if they cannot be
// written, with one warning.
func TestEventFilesAreGivenUpOnce(t *testing.T) {
	dir := t.TempDir()
	fatal.If(t, os.WriteFile(filepath.Join(dir, rundir.FolderEvents), nil, 0o644))
	var lines []string
	e := openEvents(dir, nil, 0, func(line string) { lines = append(lines, line) })
	for range 3 {
		e.line([]byte(`{"event":"train","step":1,"logloss":0.5}`))
	}
	e.end()
	e.close()
	if len(lines) != 1 || !strings.HasPrefix(lines[0], "event files of TensorBoard are no longer written: ") {
		t.Errorf("%q", lines)
	}
}
