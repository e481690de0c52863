package jobs

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// evaluation is the JSON line of eval -report.
type evaluation struct {
	AUC        float64
	Unknown    map[string]int64
	Importance []struct {
		Field        string
		Coverage     float64
		AUCLoss      float64 `json:"auc_loss"`
		AUCDeviation float64 `json:"auc_loss_deviation"`
	}
	Quality struct {
		ECE      float64
		ROC      []struct{ X, Y float64 }
		Features []struct {
			Feature               string
			Coverage              *float64
			Values, Unknown, Rows int64
			Norms                 []float64
		}
		DenseInputs []struct {
			Coverage, Min, Max float64
			Values, Outside    int64
		} `json:"dense_inputs"`
		Slices []struct {
			Field  string
			Values int64
			Top    []struct {
				Value   string
				Samples int64
			}
		}
	}
}

func checkFeatures(t *testing.T, e *evaluation) {
	t.Helper()
	for i, f := range e.Quality.Features {
		if cross := i >= 14; cross != (f.Coverage == nil) || !cross && (*f.Coverage < 1) != strings.Contains("workclass occupation native_country", f.Feature) {
			t.Errorf("feature %s: coverage %v", f.Feature, f.Coverage)
		}
		if f.Values != 4095 || f.Unknown != e.Unknown[f.Feature] || f.Rows < 2 || !slices.IsSorted(f.Norms) || len(f.Norms) != 3 || f.Norms[0] <= 0 {
			t.Errorf("feature %+v", f)
		}
	}
	for _, d := range e.Quality.DenseInputs {
		if d.Coverage != 1 || d.Values != 4095 || d.Min >= d.Max || d.Outside > 40 {
			t.Errorf("dense input %+v", d)
		}
	}
	ages, all := e.Quality.Slices[1], int64(0)
	for _, s := range ages.Top {
		all += s.Samples
	}
	if len(ages.Top) < 10 || len(ages.Top) > 20 || all != 4095 || !strings.HasPrefix(ages.Top[0].Value, "below ") {
		t.Errorf("slices of age: %+v", ages)
	}
	if len(e.Quality.DenseInputs) != 6 || len(e.Quality.Features) != 17 || len(e.Unknown) == 0 {
		t.Errorf("%d features, unknown values %v", len(e.Quality.Features), e.Unknown)
	}
}

// TestQualityReport: eval -report gives the same bits on any number of ranks and lists the
// values of a slice. It writes a page that a browser displays without an error.
func TestQualityReport(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir, texts := t.TempDir(), map[string]bool{}
	r := train(t, dir, 2, few(t)...)
	var e evaluation
	for _, np := range []string{"1", "3"} {
		o := run(t, dir, "-np", np, "eval", "--json", "-resume", r.RunDir, "-report", "q.html", "-by", "education,age", "-by", "native_country", "-group", "education", "-importance")
		if o.code != 0 {
			t.Fatalf("exit code %d\n%s", o.code, o.stderr)
		}
		var all map[string]json.RawMessage
		fatal.If(t, json.Unmarshal([]byte(o.stdout), &all))
		texts[string(all["quality"])+string(all["groups"])+string(all["importance"])] = true
		fatal.If(t, json.Unmarshal([]byte(o.stdout), &e))
	}
	if len(texts) != 1 {
		t.Error("one rank and three ranks give different bits")
	}
	found := map[string]float64{}
	for _, i := range e.Importance {
		found[i.Field] = i.AUCLoss
		if (i.Coverage < 1) != strings.Contains("workclass occupation native_country", i.Field) {
			t.Errorf("field %s: %.4f of the samples have a value", i.Field, i.Coverage)
		}
	}
	if len(found) != 14 || found["marital_status"] < .005 || found["fnlwgt"] > found["marital_status"]/2 {
		t.Errorf("the importance of the fields is %v", e.Importance)
	}
	checkFeatures(t, &e)
	area := 0.0
	for i := 1; i < len(e.Quality.ROC); i++ {
		a, b := e.Quality.ROC[i-1], e.Quality.ROC[i]
		area += (b.X - a.X) * (a.Y + b.Y) / 2
	}
	if math.Abs(area-e.AUC) > 0.003 || e.Quality.ECE <= 0 || e.Quality.ECE > 0.2 {
		t.Errorf("area %.4f, AUC %.4f, ECE %.4f", area, e.AUC, e.Quality.ECE)
	}
	first := e.Quality.Slices[0]
	if first.Field != "education" || first.Values != 16 || first.Top[0].Value != "HS-grad" || first.Top[0].Samples != 1315 {
		t.Errorf("slices of education: %+v", first)
	}
	page, err := os.ReadFile(filepath.Join(dir, "q.html"))
	if err != nil || !strings.Contains(string(page), "Some-college") || !strings.Contains(string(page), "all others") {
		t.Errorf("%v, page of %d bytes", err, len(page))
	}
	fatal.If(t, os.WriteFile(filepath.Join(dir, "mine.csv"), []byte("a,b\n"), 0o644))
	for _, c := range []struct{ args, says string }{
		{"-by age", "give -report FILE too"},
		{"-report x.html -by none", "there is no field \"none\""},
		{"-report x.html -by age,age", "named twice"},
		{"-report none/x.html", "eval: -report: "},
		{"-report mine.csv", "mine.csv exists and is no report of wdlrun"},
	} {
		if o := run(t, dir, append([]string{"eval", "-resume", r.RunDir}, strings.Fields(c.args)...)...); o.code != 1 || !strings.Contains(o.stderr, c.says) {
			t.Errorf("%s: exit code %d, no %q in\n%s", c.args, o.code, c.says, o.stderr)
		}
	}
	b := browse(t)
	url := "file://" + filepath.Join(dir, "q.html")
	b.open(url)
	eventually(t, "the page", func() bool { return b.eval("document.readyState") == "complete" && b.text("h1") != "" })
	if n := b.eval("document.querySelectorAll('figure svg[role=img]').length"); n != "3" {
		t.Errorf("%s charts, want 3", n)
	}
	b.shoot("quality.png", 1200, false)
	b.clean(url)
}
