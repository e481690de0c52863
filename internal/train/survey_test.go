package train

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/train/traintest"
	"github.com/wdlrun/wdlrun/trace"
)

// TestTrainingsShareASurvey: a training that uses the survey of another one has the same
// bits, on any number of ranks. A damaged survey is reported by name.
func TestTrainingsShareASurvey(t *testing.T) {
	t.Parallel()
	path, surveys := traintest.Clicks(t, 600), t.TempDir()
	losses := map[string]float64{}
	for _, c := range []struct {
		name, survey, train string
		size                int
	}{
		{"scans", "", "", 2}, {"scans and leaves it", surveys, "", 1}, {"takes it", surveys, "", 2}, {"another seed holds out others", surveys, ", seed: 5", 1},
	} {
		r := runJob(t, c.size, Options{Config: traintest.ClicksConfig(t, path, "", c.train), Survey: c.survey, Out: t.TempDir()})
		losses[c.name] = r.Valid.LogLoss + r.Test.LogLoss
	}
	if a, b := losses["scans"], losses["takes it"]; a != b || a == losses["another seed holds out others"] {
		t.Errorf("losses %v", losses)
	}
	all, err := filepath.Glob(filepath.Join(surveys, "*"))
	if err != nil || len(all) != 2 {
		t.Fatalf("surveys %v, %v", all, err)
	}
	for _, name := range all {
		fatal.If(t, os.WriteFile(name, read(t, name)[:100], 0o644))
	}
	traintest.OnRanks(t, 2, func(comm *collective.Comm) error {
		_, err := NewJob(comm, trace.New(100), Options{Config: traintest.ClicksConfig(t, path, "", ""), Survey: surveys, Out: t.TempDir()}).Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), ".survey does not fit the data: the file is damaged") {
			t.Errorf("a damaged survey: %v", err)
		}
		return nil
	})
}
