package runs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/runs"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestRunsNameTheirData: if runs were evaluated on different data, the table says which.
func TestRunsNameTheirData(t *testing.T) {
	for of, want := range map[string]bool{"test": false, "valid": true, "": false} {
		var b strings.Builder
		all := []*runs.Summary{{Name: "a", EvaluatedOn: "test"}, {Name: "b", EvaluatedOn: of}}
		fatal.If(t, runsTable(&b, "runs", len(all), all, make([]string, len(all))))
		if got := strings.Contains(b.String(), "metrics of"); got != want {
			t.Errorf("test and %q:\n%s", of, &b)
		}
	}
}

// TestWholeNumbersAreGrouped, and metrics are not.
func TestWholeNumbersAreGrouped(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "20261121-020000")
	fatal.If(t, os.Mkdir(dir, 0o755))
	fatal.If(t, os.WriteFile(filepath.Join(dir, rundir.FileConfig), nil, 0o644))
	fatal.If(t, os.WriteFile(filepath.Join(dir, rundir.FileResult), []byte(`{"world_size":2,"steps":1234567,"train_logloss":0.25}`), 0o644))
	r, err := runs.Read(dir)
	fatal.If(t, err)
	var b strings.Builder
	fatal.If(t, runsTable(&b, "runs", 1, []*runs.Summary{&r.Summary}, []string{""}))
	if !strings.Contains(b.String(), " 1,234,567 ") || !strings.Contains(b.String(), " 0.2500 ") {
		t.Error(b.String())
	}
}

// TestALinkIsNoSecondRun: a run and the link latest to it are one run in the report.
func TestALinkIsNoSecondRun(t *testing.T) {
	out := t.TempDir()
	for _, name := range []string{"20261121-020000", "20261122-020000"} {
		fatal.If(t, os.Mkdir(filepath.Join(out, name), 0o755))
		fatal.If(t, os.WriteFile(filepath.Join(out, name, rundir.FileConfig), nil, 0o644))
	}
	fatal.If(t, rundir.MarkLatest(filepath.Join(out, "20261121-020000")))
	given := []string{filepath.Join(out, "20261121-020000"), filepath.Join(out, "20261122-020000"), filepath.Join(out, rundir.Latest)}
	if got := reported(given); !slices.Equal(got, given[:2]) {
		t.Errorf("report of %q: %q", given, got)
	}
	if got := reported(given[1:]); !slices.Equal(got, []string{given[1], given[0]}) {
		t.Errorf("report of %q: %q", given[1:], got)
	}
}
