package apply

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/export"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/train"
	"github.com/wdlrun/wdlrun/internal/train/traintest"
)

// exported writes the model of a run in the format of package export.
func exported(t *testing.T, run, rows string) (dir, version string) {
	t.Helper()
	m, err := train.OpenTrained(context.Background(), run, func(line string) { t.Error(line) })
	fatal.If(t, err)
	dir = t.TempDir()
	r, err := export.Write(context.Background(), export.Source{Checkpoint: m.Checkpoint, Config: m.Config, Encoder: m.Encoder}, export.Options{Out: dir, Name: "ctr", Version: -1, Rows: rows})
	fatal.If(t, err)
	return dir + "/ctr", r.Dir
}

// TestPredictExported: an exported model predicts the same bytes as its checkpoint, on any
// number of ranks, with the same counts of unknown values.
func TestPredictExported(t *testing.T) {
	t.Parallel()
	path := traintest.Clicks(t, 2300)
	one := traintest.ClicksConfig(t, path, "", "")
	several := traintest.LabelsConfig(t, "label: {field: click, weight: w}\nlabels: [{field: watch, kind: number, loss_weight: 0.1}, {field: visits, kind: number, loss: poisson, loss_weight: 0.5}]")
	several.Train.Epochs = 1
	for name, c := range map[string]struct {
		config *config.Config
		data   []string
	}{"one label": {one, []string{path}}, "several": {several, several.Data.Test}} {
		r := trained(t, 2, c.config)
		o := PredictOptions{Eval: EvalOptions{Resume: r.RunDir, Data: c.data}, Label: true, Logit: true}
		want, w := predictAll(t, o)
		versions, version := exported(t, r.RunDir, "")
		for _, dir := range []string{versions, version} {
			o.Eval.Resume, o.Model = "", dir
			got, g := predictAll(t, o)
			if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(g.Unknown, w.Unknown) || !reflect.DeepEqual(g.Outside, w.Outside) {
				t.Errorf("%s: the output of %s differs from the checkpoint's; unknown %v, %v", name, dir, g.Unknown, w.Unknown)
			}
			if g.Checkpoint != version || g.Version != w.Step {
				t.Errorf("%s: %+v, want version %d of %s", name, g, w.Step, version)
			}
		}
	}
	o := PredictOptions{Eval: EvalOptions{Resume: "x", Data: []string{path}}, Model: "y"}
	if err := CheckPredict(context.Background(), o); err == nil || !strings.Contains(err.Error(), "leave one of them out") {
		t.Errorf("two models: %v", err)
	}
	o.Eval.Resume, o.Model = "", t.TempDir()
	if _, err := predict(t, 1, o, &memoryOutput{most: 1}); err == nil || !strings.Contains(err.Error(), "neither an exported model nor a folder of its versions") {
		t.Errorf("no model: %v", err)
	}
}
