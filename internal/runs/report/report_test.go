package report

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/runs"
	"github.com/wdlrun/wdlrun/internal/runs/sweep"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

const evil = `<script>alert(1)</script>"'&\u0007`

// TestTablesOfAModelThatContinues: a table has more rows than planned if the training began with a model,
// which is no reason to plan anew. The command leaves out the flag that train -by adds.
func TestTablesOfAModelThatContinues(t *testing.T) {
	for _, from := range []string{"", "runs/a/checkpoints/step-000000001"} {
		r := &runs.Run{Result: &runs.Result{Tables: []runs.Table{{Name: "item", Rows: 100}}}}
		r.Result.Tables[0].Planned.Rows = 10
		r.About.From, r.About.Command = from, []string{"train", "-by", "dt", "-day", "{}"}
		v := &runView{Run: r}
		planned := strings.Contains(fmt.Sprint(v.findings()), "times the planned 10")
		if planned != (from == "") || v.Command() != "train -by dt" {
			t.Errorf("from %q: planned %v, command %q", from, planned, v.Command())
		}
	}
}

// TestOnlyPagesAreReplaced: a page of this package may be overwritten, another file is not.
func TestOnlyPagesAreReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.html")
	var page, quality bytes.Buffer
	fatal.If(t, Write(&page, []string{write(t, "a", "0.8", 3)}, time.Now()))
	fatal.If(t, WriteQuality(&quality, Evaluation{Model: "m", Quality: &metrics.Quality{}}, time.Now()))
	if err := Replaceable(path); err != nil {
		t.Errorf("a missing file: %v", err)
	}
	for text, free := range map[string]bool{
		page.String(): true, quality.String(): true, "": true,
		"{}": false, "<!DOCTYPE html>\n<title>mine</title>": false, "see <title>wdlrun: a</title>": false,
	} {
		fatal.If(t, os.WriteFile(path, []byte(text), 0o644))
		err := Replaceable(path)
		if want := path + " exists and is no report of wdlrun; remove it first or choose another name"; (err == nil) != free || err != nil && err.Error() != want {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}

// write makes a run directory of a run with hostile names and a gap in its losses.
func write(t testing.TB, name, auc string, size int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	fatal.If(t, os.MkdirAll(dir, 0o755))
	var b strings.Builder
	for i := range size {
		loss := fmt.Sprint(0.7 / math.Sqrt(float64(i+1)))
		if i == size/2 {
			loss = "null"
		}
		fmt.Fprintf(&b, `{"event":"train","time":"2026-11-23T14:00:00Z","step":%d,"epoch":1,"samples":%d,"samples_per_second":1e3,"logloss":%s}`+"\n", i+1, 256*(i+1), loss)
	}
	fmt.Fprintf(&b, `{"event":"test","step":%d,"samples":%d,"logloss":0.3,"metrics":{"auc":%s,"logloss":0.3}}`+"\n", size, 256*size, auc)
	for file, text := range map[string]string{
		"metrics.jsonl": b.String(),
		"config.yaml":   "data:\n  train: [\"<script>alert(2)</script>\"]\nmodel: {kind: k" + auc + "}\n",
		"run.json":      fmt.Sprintf(`{"version":"9","command":["wdlrun","train"],"hosts":["h"],"note":%q,"tags":["t<a>","b"]}`, evil),
		"result.json": fmt.Sprintf(`{"world_size":2,"steps":%d,"seconds":3,"improving":%q,"test":{"samples":10,"auc":%s,"logloss":0.3,"calibration":1.5},"tables":[{"name":%q,"rows":400,"planned":{"rows":100}}]}`,
			size, evil, auc, evil),
	} {
		fatal.If(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644))
	}
	return dir
}

func pageOf(t *testing.T, dirs ...string) string {
	t.Helper()
	var b strings.Builder
	fatal.If(t, Write(&b, dirs, time.Unix(0, 0)))
	return b.String()
}

// TestHostileNamesAreEscaped: no text of a run becomes markup, and nothing is fetched.
func TestHostileNamesAreEscaped(t *testing.T) {
	s := pageOf(t, write(t, "a<b>", "0.8", 40), write(t, "x", "0.9", 40))
	for _, not := range []string{"<script", "a<b>", "alert(1)</", "http:", "https:", "src="} {
		if i := strings.Index(s, not); i >= 0 {
			t.Errorf("%q is in the page: %.80s", not, s[i:])
		}
	}
	for _, want := range []string{"x is the best by AUC of the test data", "model.kind", "4.0 times the planned 100", "1.50 times the mean label", "was not a number in 1 line of", "tags: t&lt;a&gt;, b</p>", "wdlrun 9: <code>wdlrun train</code>, hosts h"} {
		if !strings.Contains(s, want) {
			t.Errorf("no %q in the page", want)
		}
	}
}

// TestOtherDataIsNotRanked: a run evaluated on other rows is not the best, and a model that the gate
// rejected is named.
func TestOtherDataIsNotRanked(t *testing.T) {
	a, b, c := write(t, "a", "0.8", 40), write(t, "b", "0.9", 40), write(t, "c", "0.95", 40)
	for dir, more := range map[string]string{a: `"test_data":"1"`, b: `"test_data":"1","gate":{"rejected":"its log-loss is worse"}`, c: `"test_data":"2"`} {
		path := filepath.Join(dir, "result.json")
		text, err := os.ReadFile(path)
		fatal.If(t, err)
		fatal.If(t, os.WriteFile(path, bytes.Replace(text, []byte("{"), []byte("{"+more+","), 1), 0o644))
	}
	s := pageOf(t, a, c, b)
	for _, want := range []string{"<p>b is the best by AUC", "<p>next is a: ", "<p>c is not comparable: other data</p>", "finished, rejected"} {
		if !strings.Contains(s, want) {
			t.Errorf("no %q in the page", want)
		}
	}
	if s := pageOf(t, b); !strings.Contains(s, "the model was rejected by train.gate: its log-loss is worse") {
		t.Error("the rejection of the only run is not reported")
	}
}

// TestTheKeptModelIsMarked: the evaluation whose model early stopping kept has a large dot, and a
// validation loss that rises is named with its best epoch.
func TestTheKeptModelIsMarked(t *testing.T) {
	dir := write(t, "a", "0.8", 40)
	path := filepath.Join(dir, "metrics.jsonl")
	text, err := os.ReadFile(path)
	fatal.If(t, err)
	for epoch, loss := range []float64{.5, .4, .45} {
		text = fmt.Appendf(text, `{"event":"valid","step":%d,"epoch":%d,"samples":%d,"logloss":%v,"metrics":{"auc":0.7}}`+"\n", epoch+1, epoch+1, epoch+1, loss)
	}
	fatal.If(t, os.WriteFile(path, text, 0o644))
	if s := pageOf(t, dir); !strings.Contains(s, "the validation log-loss rose from 0.4000 to 0.4500: the model overfits since epoch 2") || strings.Count(s, `r="6"`) != 2 || !strings.Contains(s, "the large dot the best one") {
		t.Error("no warning about a rising loss, or its best epoch is not marked")
	}
	result, err := os.ReadFile(filepath.Join(dir, "result.json"))
	fatal.If(t, err)
	fatal.If(t, os.WriteFile(filepath.Join(dir, "result.json"), bytes.Replace(result, []byte("{"), []byte(`{"best_epoch":2,`), 1), 0o644))
	if s := pageOf(t, dir); strings.Count(s, `r="6"`) != 2 || !strings.Contains(s, "the large dot the best one") {
		t.Errorf("%d marks, want one in each chart of evaluations", strings.Count(s, `r="6"`))
	}
	fatal.If(t, os.WriteFile(filepath.Join(dir, "result.json"), bytes.Replace(result, []byte("{"), []byte(`{"best_epoch":2,"refit":{"epochs":2,"rows":500},`), 1), 0o644))
	if s := pageOf(t, dir); !strings.Contains(s, "trained again on all 500 rows, for 2 epochs (train.refit)") {
		t.Error("the page does not name the second training")
	}
}

// TestWarningsAreGrouped: a warning about several runs is printed once, with their names, and
// those that differ only in a number share one advice.
func TestWarningsAreGrouped(t *testing.T) {
	a, b := write(t, "a", "0.8", 40), write(t, "b", "0.9", 40)
	c := write(t, "c", "0.7", 40)
	path := filepath.Join(c, "result.json")
	text, err := os.ReadFile(path)
	fatal.If(t, err)
	fatal.If(t, os.WriteFile(path, bytes.Replace(text, []byte(`"calibration":1.5},`), []byte(`"calibration":2},"warnings":["x is empty"],`), 1), 0o644))
	s := pageOf(t, a, b, c)
	for text, n := range map[string]int{
		"a, b, c: <b>the training loss was not a number in 1 line of metrics</b><br>": 1,
		"<li>a, b: <b>the mean prediction is 1.50 times":                              1,
		"</b><br>c: <b>the mean prediction is 2.00 times":                             1,
		"compare the share of positive labels":                                        1,
		"<li>c: <b>x is empty</b></li>":                                               1,
		"5 warnings, see below":                                                       1,
	} {
		if strings.Count(s, text) != n {
			t.Errorf("%q is in the page %d times, want %d", text, strings.Count(s, text), n)
		}
	}
	if s := pageOf(t, a); !strings.Contains(s, "<li><b>the mean prediction") {
		t.Error("the only run is named in its warnings")
	}
}

// TestChartsAreSVG: charts are well-formed, and a value that is not finite is a gap.
func TestChartsAreSVG(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		x, y  []float64
		paths int
	}{
		{[]float64{1, 2, 3, 4, 5}, []float64{1, 2, nan, 4, 5}, 2},
		{[]float64{1, 2, 3, 4}, []float64{inf, 2, 3, nan}, 1},
		{[]float64{1, 2}, []float64{-math.MaxFloat64, math.MaxFloat64}, 1},
		{[]float64{1, 2}, []float64{0, 0}, 1},
		{[]float64{1, 2}, []float64{1e-320, 2e-320}, 1},
	} {
		s := string(chart(evil, "x", "y", []curve{{Name: evil, X: c.x, Y: c.y, Dots: true}, {Name: "b"}}))
		d := xml.NewDecoder(strings.NewReader(s))
		for {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%v in %s", err, s)
			}
		}
		drawn, _, _ := strings.Cut(s, "</svg>")
		if n := strings.Count(drawn, "<path "); n != c.paths || strings.Contains(drawn, "NaN") || strings.Contains(drawn, "Inf") {
			t.Errorf("%v: %d paths, want %d: %s", c.y, n, c.paths, drawn)
		}
	}
	for _, y := range []float64{nan, 1} {
		if s := chart("t", "x", "y", []curve{{X: []float64{1}, Y: []float64{y}}}); s != "" {
			t.Errorf("a chart of one point: %s", s)
		}
	}
}

// TestLegendOfEvaluations: each run has one entry, and test data is marked by rings.
func TestLegendOfEvaluations(t *testing.T) {
	at := func(samples int64, loss float64) runs.Point { return runs.Point{Samples: samples, LogLoss: loss} }
	var all []*runView
	for i, name := range []string{"a", "b"} {
		r := &runs.Run{Valid: []runs.Point{at(10, .5), at(20, .4)}, Test: []runs.Point{at(20, .3)}}
		r.Name = name
		all = append(all, &runView{Run: r, Color: i})
	}
	s := string(charts(all)[0])
	_, legend, _ := strings.Cut(s, "legend")
	if strings.Count(legend, "<span>") != 2 || strings.Count(s, "rings\"") != 2 || !strings.Contains(s, "Log-loss of evaluations: dots validation data, rings test data") {
		t.Errorf("%s", s)
	}
}

// TestCrossing: a trial without a value of a key passes its axis with a dashed line.
func TestCrossing(t *testing.T) {
	values := []float64{.5, math.NaN(), 0, 1}
	var axes []axis
	for _, y := range values {
		axes = append(axes, axis{place: func(*sweep.Trial) float64 { return y }})
	}
	path, over := crossing(nil, axes, func(k int, y float64) string { return fmt.Sprint(k, " ", y) })
	if path != "M2 0L3 1" || over != "M0 0.5L2 0" {
		t.Errorf("path %q, over %q", path, over)
	}
}

// TestLongRunsStaySmall: a page of many runs with many points has a few megabytes.
func TestLongRunsStaySmall(t *testing.T) {
	dir := write(t, "long", "0.9", 2_000)
	dirs := make([]string, MaxRuns)
	for i := range dirs {
		dirs[i] = dir
	}
	if s := pageOf(t, dirs...); len(s) > 5<<20 {
		t.Errorf("%d bytes", len(s))
	}
	if err := Write(io.Discard, append(dirs, dir), time.Now()); err == nil {
		t.Error("one run more is taken")
	}
	if err := Write(io.Discard, []string{t.TempDir()}, time.Now()); err == nil {
		t.Error("a folder that is no run is taken")
	}
}

// TestInABrowser loads the page: its charts have a size, and the console reports nothing.
func TestInABrowser(t *testing.T) {
	browser, err := exec.LookPath("chromium-headless-shell")
	if err != nil || testing.Short() {
		t.Skip("needs chromium-headless-shell")
	}
	file := filepath.Join(t.TempDir(), "page.html")
	fatal.If(t, os.WriteFile(file, []byte(pageOf(t, write(t, "a", "0.8", 40))), 0o644))
	out, err := exec.CommandContext(t.Context(), browser, "--no-sandbox", "--no-zygote", "--disable-gpu", "--enable-logging=stderr", "--dump-dom", "file://"+file).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if m := regexp.MustCompile(`.*CONSOLE.*`).Find(out); m != nil {
		t.Errorf("the console has %s", m)
	}
	if n := strings.Count(string(out), "<figure"); n != 2 { // the only evaluation is in the table
		t.Errorf("%d figures, want 2", n)
	}
}

// TestQualityPageSeparatesMetrics, whose gaps in text are no gaps in HTML.
func TestQualityPageSeparatesMetrics(t *testing.T) {
	auc := 0.75
	var b bytes.Buffer
	fatal.If(t, WriteQuality(&b, Evaluation{Metrics: metrics.Metrics{Samples: 4, AUC: &auc, LogLoss: 0.5}, Quality: &metrics.Quality{}}, time.Now()))
	if !strings.Contains(b.String(), "AUC 0.7500, log-loss 0.5000, accuracy") {
		t.Errorf("%.2000s", b.String())
	}
}

// TestQualityPageWarns: the page shows the warnings of the evaluation.
func TestQualityPageWarns(t *testing.T) {
	var b strings.Builder
	fatal.If(t, WriteQuality(&b, Evaluation{Quality: &metrics.Quality{}, Warnings: []string{"the model was trained on a.csv"}}, time.Now()))
	if !strings.Contains(b.String(), "the model was trained on a.csv") {
		t.Errorf("%.2000s", b.String())
	}
}

// TestQualityPageEscapes values of fields, and shows missing numbers as a dash.
func TestQualityPageEscapes(t *testing.T) {
	e := Evaluation{Model: "<b>", Quality: &metrics.Quality{Slices: []metrics.SliceList{{Field: "f", Top: []metrics.Slice{{Value: "<script>alert(1)</script>", Samples: 3}}}}}}
	var b strings.Builder
	fatal.If(t, WriteQuality(&b, e, time.Now()))
	if s := b.String(); strings.Contains(s, "<script") || strings.Contains(s, "<b>") || !strings.Contains(s, "&lt;script&gt;") || !strings.Contains(s, "–") || strings.Contains(s, "NaN") {
		t.Errorf("%s", s)
	}
}
