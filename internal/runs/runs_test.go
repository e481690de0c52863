package runs

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// folder writes files to a temporary folder and returns it.
func folder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		fatal.If(t, os.MkdirAll(filepath.Dir(path), 0o755))
		fatal.If(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return dir
}

const (
	yamlA = "data:\n  train: [\"a.csv\"]\nfeatures:\n  - {name: user, encode: hash}\nmodel: {kind: wide_deep}\ntrain:\n  epochs: 5\n"
	yamlB = "data:\n  train: [\"a.csv\"]\nfeatures:\n  - {name: user, encode: id}\nmodel: {kind: dcn_v2}\ntrain:\n  epochs: 5\n"
	lines = `{"event":"train","time":"2026-11-23T14:00:00Z","step":1,"epoch":1,"samples":256,"rate":1,"samples_per_second":1000,"logloss":0.7}
{"event":"train","time":"2026-11-23T14:00:10Z","step":20,"epoch":1,"samples":5120,"rate":1,"samples_per_second":2000,"logloss":null}
{"event":"valid","time":"2026-11-23T14:00:11Z","step":20,"epoch":1,"samples":5120,"logloss":0.4,"metrics":{"samples":10,"auc":0.8,"logloss":0.4}}
`
	result = `{"world_size":2,"steps":20,"samples":5120,"seconds":12.5,"samples_per_second":1500,"train_logloss":0.5,"test":{"auc":0.9,"logloss":0.3}}`
)

func TestStates(t *testing.T) {
	dir := folder(t, map[string]string{
		"a/config.yaml": yamlA, "a/metrics.jsonl": lines, "a/result.json": result,
		"b/config.yaml": yamlB, "b/metrics.jsonl": lines, "b/result.json": strings.Replace(result, `"seconds"`, `"stopped":true,"seconds"`, 1),
		"c/config.yaml": yamlA, "c/metrics.jsonl": lines + `{"event":"tra`,
		"d/config.yaml": yamlA, "d/metrics.jsonl": lines, "d/failure-20261123-140000/verdict.txt": "rank 0 (host a) failed\n  and rank 1\n",
		"e/config.yaml": yamlA, "e/metrics.jsonl": lines, "e/.lock": "",
		"f/config.yaml": "{{{", "f/metrics.jsonl": "<html>\n<b>\n<i>\n<u>\n<p>\n", "f/result.json": "[1]",
		"g/config.yaml": yamlA, "g/metrics.jsonl": strings.ReplaceAll(lines, `"step":20`, `"step":40`), "g/result.json": result,
		"j/config.yaml": yamlA, "j/metrics.jsonl": lines, "j/result.json": strings.Replace(result, `"seconds"`, `"checkpoint":"","seconds"`, 1),
		"h/notes.txt": "no run", ".i/config.yaml": yamlA,
	})
	unlock, err := rundir.Lock(filepath.Join(dir, "e"))
	fatal.If(t, err)
	defer unlock()
	all := list(t, dir)
	got := ""
	for _, r := range all {
		of := r.EvaluatedOn
		got += fmt.Sprintf("%s %s step %d, %.1f s, auc %.1f of %q, loss %.1f, %d faults\n", r.Name, r.State, r.Step, r.Seconds, r.Number("auc"), of, r.Number("train_logloss"), len(r.Faults))
	}
	want := `a finished step 20, 12.5 s, auc 0.9 of "test", loss 0.5, 0 faults
b stopped step 20, 12.5 s, auc 0.9 of "test", loss 0.5, 0 faults
c killed step 20, 10.0 s, auc 0.8 of "valid", loss NaN, 0 faults
d failed step 20, 10.0 s, auc 0.8 of "valid", loss NaN, 0 faults
e running step 20, 10.0 s, auc 0.8 of "valid", loss NaN, 0 faults
f unreadable step 0, NaN s, auc NaN of "", loss NaN, 6 faults
g killed step 40, 10.0 s, auc 0.8 of "valid", loss NaN, 0 faults
j failed step 20, 12.5 s, auc 0.9 of "test", loss 0.5, 0 faults
`
	if got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
	if f := all[3].Failure; f != "rank 0 (host a) failed" {
		t.Errorf("failure %q", f)
	}
	if f := all[7].Failure; f != "the model of step 20 was not saved, and there is no checkpoint" {
		t.Errorf("failure %q", f)
	}
	if f := all[5].Faults; !strings.HasPrefix(f[0], "config.yaml: ") || !strings.HasPrefix(f[1], "metrics.jsonl: line 1: ") || !strings.Contains(f[4], "2 more lines") {
		t.Errorf("faults %q", f)
	}
	if keys := Differing(all[:5]); !slices.Equal(keys, []string{"model.kind", "features[user].encode"}) {
		t.Errorf("differing settings %q", keys)
	}
	if one := list(t, filepath.Join(dir, "a")); len(one) != 1 {
		t.Errorf("a run itself: %v, %v", one, err)
	}
	if _, err := Read(filepath.Join(dir, "h")); err == nil {
		t.Error("a folder that is no run is read")
	}
}

// TestLongTextsAreCut: no text of a run directory is kept at a length of half a megabyte.
func TestLongTextsAreCut(t *testing.T) {
	long := strings.Repeat("é", 1<<18)
	dir := folder(t, map[string]string{
		"a/config.yaml": "model: {kind: " + long[:1<<19] + "}\n",
		"a/run.json":    `{"note":"` + long + `","tags":["` + long[:1<<10] + `x"]}`,
		"a/result.json": `{"steps":20,"tables":[{"name":"` + long + `"}],"slow_ranks":[{"host":"` + long + `"}],"test_unknown":{"` + long + `":3}}`,
		"b/config.yaml": long + ": 1\n", "b/failure-20261123-140000/verdict.txt": long,
	})
	all := list(t, dir)
	a, err := Read(filepath.Join(dir, "a"))
	fatal.If(t, err)
	texts := []string{a.About.Note, a.About.Tags[0], a.Result.Tables[0].Name, a.Result.SlowRanks[0].Host, a.Config.Of("model.kind"), all[1].Config.Keys()[0], all[1].Failure}
	for name := range a.Result.TestUnknown {
		texts = append(texts, name)
	}
	for i, text := range texts {
		if len(text) < maxText || len(text) > maxValue+3 || !utf8.ValidString(text) || !strings.HasSuffix(text, "…") {
			t.Errorf("text %d has %d bytes", i, len(text))
		}
	}
}

func TestWhereAndSort(t *testing.T) {
	files := map[string]string{}
	for i, auc := range []string{"0.7", "0.9", "null", "0.8"} {
		name := string(rune('a' + i))
		files[name+"/config.yaml"] = yamlA
		files[name+"/metrics.jsonl"] = lines
		files[name+"/result.json"] = strings.Replace(result, `"auc":0.9`, `"auc":`+auc, 1)
	}
	files["b/config.yaml"] = yamlB
	all := list(t, folder(t, files))
	for _, c := range []struct{ where, sort, want string }{
		{"", "auc", "b d a c"},
		{"", "name", "a b c d"},
		{"auc>=.8", "auc", "b d"},
		{"auc<.75", "name", "a"},
		{"model.kind=dcn_v2", "name", "b"},
		{"model.kind!=dcn_v2 auc>0", "auc", "d a"},
		{"state=finished train.epochs=5 features[user].encode~ha", "name", "a c d"},
	} {
		some, err := Select(all, c.where, c.sort, false)
		fatal.If(t, err)
		var got []string
		for _, r := range some {
			got = append(got, r.Name)
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("where %q, sort %q: %s, want %s", c.where, c.sort, s, c.want)
		}
	}
	for _, bad := range []string{"auc", "auc>x", ">3"} {
		if _, err := ParseWhere(bad); err == nil {
			t.Errorf("condition %q is taken", bad)
		}
	}
	if err := Known(all, "model.knd"); err == nil || !strings.Contains(err.Error(), "did you mean model.kind?") {
		t.Errorf("unknown setting: %v", err)
	}
}

// TestDifferingSettings: settings of single features come last, even after settings that
// some runs do not have.
func TestDifferingSettings(t *testing.T) {
	var all []*Summary
	for _, text := range []string{
		"features:\n  - {name: a, encode: id}\n  - {name: b, encode: id}\nlabel: {field: x, positive: [1]}\ndata: {train: [a]}\ntrain: {epochs: 1, l2: 1}\nmodel: {kind: a}\n",
		"features:\n  - {name: a, encode: no}\nlabel: {field: y}\ndata: {train: [b]}\ntrain: {epochs: 2}\nmodel: {kind: b, cross: 3}\n",
	} {
		settings, err := ParseSettings([]byte(text))
		fatal.If(t, err)
		all = append(all, &Summary{Config: settings})
	}
	want := "model.kind train.epochs data.train label.field model.cross train.l2 label.positive features[a].encode features[b].encode"
	if got := strings.Join(Differing(all), " "); got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
}

// TestLongSeriesAreThinned: the first and the last point are kept.
func TestLongSeriesAreThinned(t *testing.T) {
	s := Series[Point]{Most: maxPoints}
	const n = 10*maxPoints + 7
	for i := range n {
		s.Add(Point{Step: int64(i + 1)})
	}
	p := s.Points()
	if len(p) > maxPoints || len(p) < maxPoints/4 || p[0].Step != 1 || p[len(p)-1].Step != n {
		t.Errorf("%d points from %d to %d", len(p), p[0].Step, p[len(p)-1].Step)
	}
}

func FuzzRun(f *testing.F) {
	f.Add(lines, yamlA)
	f.Add(`{"event":"ranks","step":20,"phases":["input","pull"],"seconds":[[0.5,1],[1,2]]}`, "")
	f.Add(`{"event":"train","logloss":1e400}`, "a: &x [*x]\nb: *x\n")
	f.Fuzz(func(t *testing.T, metrics, config string) {
		var r Run
		r.scan(strings.NewReader(metrics))
		for _, times := range r.scanRanks(strings.NewReader(metrics)) {
			for rank, waiting := range times.Waiting() {
				if times.Seconds(rank) < waiting && !slices.ContainsFunc(slices.Concat(times.Ranks...), func(x float64) bool { return x < 0 }) {
					t.Errorf("rank %d waits %v of %v", rank, waiting, times.Seconds(rank))
				}
			}
		}
		r.Config, _ = ParseSettings([]byte(config))
		r.Dir = "/none"
		r.judge(false)
		for _, name := range Names() {
			if x := r.Number(name); math.IsInf(x, 0) {
				t.Errorf("%s is %v", name, x)
			}
		}
		Differing([]*Summary{&r.Summary, {}})
	})
}

// TestSpeeds: the speed of the first ten seconds of each job is left out, unless the job is short.
func TestSpeeds(t *testing.T) {
	var r Run
	begin := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	point := func(second int, speed float64) {
		r.Train = append(r.Train, Point{Time: begin.Add(time.Duration(second) * time.Second), Speed: speed})
	}
	missing := math.NaN()
	point(0, missing)
	point(1, 900)
	point(9, 500)
	point(10, 100)
	point(21, 101)
	point(100, missing) // a job that resumes
	point(104, 800)
	point(111, 102)
	point(125, 103)
	point(200, missing) // a short one
	point(201, 700)
	if got, want := fmt.Sprint(r.Speeds()), "[NaN NaN NaN 100 101 NaN NaN 102 103 NaN 700]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
