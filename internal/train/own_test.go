package train

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestTrainedOn: files are named that a model was trained on, by its ledger or by the configurations of the
// trainings that it began with.
func TestTrainedOn(t *testing.T) {
	dir := t.TempDir()
	file := func(day string) string { return filepath.Join(dir, "d", "dt=2026-11-"+day, "part.csv") }
	for _, day := range []string{"08", "09", "10"} {
		fatal.If(t, os.MkdirAll(filepath.Dir(file(day)), 0o755))
		fatal.If(t, os.WriteFile(file(day), []byte("y,a\n1,2\n"), 0o644))
	}
	all := []string{file("08"), file("09"), file("10")}
	training := func(name, from string, day string) (string, *config.Config) {
		run := filepath.Join(dir, name)
		fatal.If(t, os.MkdirAll(run, 0o755))
		text := "data: {train: [\"" + file(day) + "\"], header: true}\nlabel: {field: y}\nfeatures: [{field: a, encode: hash}]\n"
		c, err := config.Parse("c.yaml", []byte(text))
		fatal.If(t, err)
		fatal.If(t, os.WriteFile(filepath.Join(run, rundir.FileConfig), []byte(text), 0o644))
		fatal.If(t, rundir.WriteAbout(run, rundir.About{From: from}))
		return run, c
	}
	first, _ := training("a", "", "08")
	second, c := training("b", filepath.Join(first, "checkpoints", "step-000000008"), "10")
	if got, want := trainedOn(second, c, all), []string{file("08"), file("10")}; !slices.Equal(got, want) {
		t.Errorf("without a ledger: %q, want %q", got, want)
	}
	fatal.If(t, rundir.WriteDays(second, rundir.Days{By: "dt", Train: []string{filepath.Join(dir, "d/dt=*/*.csv")}, Days: []rundir.Day{{Day: "2026-11-09"}, {Day: "2026-11-10"}}}))
	if got, want := trainedOn(second, c, all), []string{"dt=2026-11-09", "dt=2026-11-10"}; !slices.Equal(got, want) {
		t.Errorf("by the ledger: %q, want %q", got, want)
	}
	if got := trainedOn(second, c, all[:1]); got != nil {
		t.Errorf("a partition that is not in the ledger: %q", got)
	}
}
