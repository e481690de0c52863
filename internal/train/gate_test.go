package train

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/train/traintest"
)

// still keeps a model as it begins.
var still = []string{"train.epochs=1", "train.optimizer.deep.learning_rate=1e-30", "train.optimizer.dense.learning_rate=1e-30", "train.optimizer.wide.learning_rate=1e-30"}

// TestGate: the source is evaluated as it is, with its own features and vocabulary. A new model
// that is worse leaves the link latest where it is, also if the training resumes, and one that is
// no worse moves it.
func TestGate(t *testing.T) {
	out, path := t.TempDir(), traintest.Clicks(t, 600)
	c := traintest.ClicksConfig(t, path, "", "")
	c.Features[0].Encode, c.Features[0].MinCount = "vocabulary", 1
	b, err := os.ReadFile(path)
	fatal.If(t, err)
	day := filepath.Join(t.TempDir(), "day2.csv")
	fatal.If(t, os.WriteFile(day, []byte(strings.ReplaceAll(string(b), "site3", "new3")), 0o644))
	old := runJob(t, 2, Options{Config: c, Out: out})
	want, _ := firstScores(t, 1, Options{Resume: old.RunDir, Set: []string{"train.epochs=9", "data.test=[" + day + "]"}})

	less := c.Clone() // without the field age
	less.Features = slices.DeleteFunc(less.Features, func(f schema.Feature) bool { return f.Field == "age" })
	less.Crosses = nil
	opt := Options{Config: less, Out: out, From: old.RunDir, Set: append([]string{"data.train=[" + day + "]", "data.valid=[" + day + "]", "data.valid_fraction=0", "train.gate.metric=logloss"}, still...)}
	bad := runJob(t, 2, opt)
	if g := bad.Gate; !g.Closed() || math.Abs(g.Source.LogLoss-want) > 1e-9 || !(*bad.ValidLogLoss > want) || !strings.Contains(g.Rejected, "validation log-loss") {
		t.Errorf("gate %+v, want the log-loss %.9f; the new model has %.9f", g, want, *bad.ValidLogLoss)
	}
	link := filepath.Join(out, rundir.Latest)
	if got := rundir.Real(link); got != old.RunDir {
		t.Errorf("after a rejected model the link leads to %s", got)
	}
	opt.Again = bad.RunDir
	if again := runJob(t, 1, opt); again.RunDir != bad.RunDir || !again.Gate.Closed() || rundir.Real(link) != old.RunDir {
		t.Errorf("restarted: %+v", again.Gate)
	}
	opt.Again, opt.Set = "", append(opt.Set, "train.gate.tolerance=1")
	good := runJob(t, 1, opt)
	if g := good.Gate; g.Closed() || g == nil || math.Abs(g.Source.LogLoss-want) > 1e-9 || rundir.Real(link) != good.RunDir {
		t.Errorf("accepted: %+v, latest %s", g, rundir.Real(link))
	}
}

// TestGateNamesRowsOfTheSource: validation rows that the source was trained on are named; rows
// that both trainings held out are not.
func TestGateNamesRowsOfTheSource(t *testing.T) {
	path := traintest.Clicks(t, 300)
	c := traintest.ClicksConfig(t, path, "", ", gate: {metric: auc, tolerance: 1}")
	old := runJob(t, 1, Options{Config: c})
	for set, want := range map[string]bool{"data.valid_fraction=0.2": false, "data.valid_fraction=0.3": true, "train.seed=9": true} {
		var warned []string
		res := runJob(t, 2, Options{Config: c, From: old.RunDir, Set: append([]string{set}, still...), Warn: func(line string) { warned = append(warned, line) }})
		if got := strings.Contains(strings.Join(warned, "\n"), "was trained on validation rows, of "+path); got != want || res.Gate == nil {
			t.Errorf("%s: warnings %q, gate %+v", set, warned, res.Gate)
		}
	}
	other := traintest.Clicks(t, 200)
	next := runJob(t, 1, Options{Config: c, From: old.RunDir, About: rundir.About{Version: "test"}, Set: append([]string{"data.train=[" + other + "]"}, still...)})
	var warned []string
	runJob(t, 1, Options{Config: c, From: next.RunDir, Warn: func(line string) { warned = append(warned, line) },
		Set: append([]string{"data.train=[" + traintest.Clicks(t, 250) + "]", "data.valid=[" + path + "]", "data.valid_fraction=0"}, still...)})
	if !strings.Contains(strings.Join(warned, "\n"), "was trained on validation rows, of "+path) {
		t.Errorf("rows of the source of the source: warnings %q", warned)
	}
}

// TestWorse: a tolerance counts in the direction of the metric, and a missing AUC is replaced by
// the log-loss.
func TestWorse(t *testing.T) {
	m := func(auc, loss float64) *metrics.Metrics {
		x := &metrics.Metrics{LogLoss: loss}
		if auc > 0 {
			x.AUC = &auc
		}
		return x
	}
	for _, x := range []struct {
		metric   string
		was, now *metrics.Metrics
		bad      bool
	}{
		{"logloss", m(.8, .5), m(.1, .5625), false}, {"logloss", m(.8, .5), m(.9, .564), true},
		{"auc", m(.75, .5), m(.6875, .9), false}, {"auc", m(.75, .5), m(.687, .1), true},
		{"auc", m(0, .5), m(.9, .6), true}, {"auc", m(.9, .5), m(0, .5), false}, {"logloss", m(.8, .5), m(.8, math.NaN()), true},
	} {
		if why := worse(config.Gate{Metric: x.metric, Tolerance: .0625}, x.was, x.now); why != "" != x.bad {
			t.Errorf("%s %+v after %+v: %q", x.metric, x.now, x.was, why)
		}
	}
}
