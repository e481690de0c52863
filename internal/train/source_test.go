package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/train/evaluate"
	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/internal/train/save"
	"github.com/wdlrun/wdlrun/internal/train/traintest"
	"github.com/wdlrun/wdlrun/trace"
)

// firstScores returns the log-loss of the test data and the logits of rank 0's first batch of it,
// before a training takes its first step.
func firstScores(t testing.TB, size int, opt Options) (loss float64, logits []float32) {
	t.Helper()
	opt.Out = t.TempDir()
	traintest.OnRanks(t, size, func(comm *collective.Comm) error {
		j := NewJob(comm, trace.New(100), opt)
		if err := j.start(context.Background()); err != nil {
			return err
		}
		defer j.close()
		e, err := j.evaluation().Over(context.Background(), j.in.Test, data.All, evaluate.Pass{})
		if comm.Rank() == 0 {
			loss, logits = e.LogLoss, slices.Clone(j.trainer.Logits())
		}
		return err
	})
	return loss, logits
}

// networks are the settings of each kind of network.
var networks = map[string]string{
	"wide_deep": "", "deepfm": ", kind: deepfm", "dcn stacked": ", kind: dcn_v2, wide: true, cross: {layers: 2}",
	"dcn low rank": ", kind: dcn_v2, wide: true, cross: {layers: 2, rank: 3, structure: parallel}", "xdeepfm": ", kind: xdeepfm, wide: true, cin: [3, 2]",
	"masknet": ", kind: masknet, wide: true, mask: {blocks: 2, width: 5}",
}

// TestFromGivesTheSameScores: a training that begins with another model and has more features
// gives each row the score of that model at first, on any number of ranks.
func TestFromGivesTheSameScores(t *testing.T) {
	path := traintest.Clicks(t, 600)
	for name, model := range networks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := traintest.ClicksConfig(t, path, model, ", optimizer: {deep: {kind: adam}, dense: {kind: adam}, wide: {kind: sgd}}")
			old := runJob(t, 2, Options{Config: c})
			want, before := firstScores(t, 1, Options{Resume: old.RunDir, Set: []string{"train.epochs=9"}})
			more := traintest.ClicksConfig(t, path, model, ", optimizer: {deep: {kind: adam}, dense: {kind: adam}, wide: {kind: sgd}}")
			f := more.Features
			f[0], f[1] = f[1], f[0] // another order of columns
			yes := f[1]
			yes.Name, yes.Table = "again", ""
			number := f[3]
			number.Name, number.Log = "more", true
			more.Features = append([]schema.Feature{number, yes}, f...)
			still := []string{"train.epochs=1"} // at almost no learning rate, the loss of an epoch is that of the first scores
			for _, part := range []string{"deep", "dense", "wide"} {
				still = append(still, "train.optimizer."+part+".learning_rate=1e-30")
			}
			a, b := runJob(t, 2, Options{Config: c, From: old.RunDir, Set: still}), runJob(t, 2, Options{Config: more, From: old.RunDir, Set: still})
			if math.Abs(a.TrainLogLoss-b.TrainLogLoss) > 1e-6 {
				t.Errorf("log-loss in training %.9f, without new features %.9f", b.TrainLogLoss, a.TrainLogLoss)
			}
			again := runJob(t, 1, Options{Config: more, From: old.RunDir, Again: b.RunDir, Set: append(still, "train.epochs=2")})
			if again.RunDir != b.RunDir || again.Since != b.Steps || again.NewSamples != b.NewSamples {
				t.Errorf("restarted: %+v after %+v", again, b)
			}
			for _, size := range []int{1, 3} {
				opt := Options{Config: more, From: old.RunDir}
				said := listen(&opt)
				got, after := firstScores(t, size, opt)
				if math.Abs(got-want) > 1e-6 {
					t.Errorf("%d ranks: log-loss %.9f, before %.9f", size, got, want)
				}
				for i := range after {
					if size == 1 && math.Abs(float64(after[i]-before[i])) > 1e-6*max(1, math.Abs(float64(before[i]))) {
						t.Fatalf("logit %d is %v, before %v", i, after[i], before[i])
					}
				}
				if all := strings.Join(said(), "\n"); !strings.Contains(all, "again: new\n") || !strings.Contains(all, "more: new\n") || !strings.Contains(all, "first layer: 5 of 18 input columns new (zero)") || strings.Contains(all, "dropped") {
					t.Errorf("said %s", all)
				}
			}
		})
	}
}

// TestFromOnOtherRanks: a training in slots that begins with the model of another has the same bits on 1, 2 and 4
// ranks. Without slots it has nearly the same AUC.
func TestFromOnOtherRanks(t *testing.T) {
	t.Parallel()
	path := traintest.Clicks(t, 1500)
	c, more := traintest.ClicksConfig(t, path, "", ", optimizer: {deep: {kind: adam}}"), traintest.ClicksConfig(t, path, "", ", optimizer: {deep: {kind: adam}}")
	yes := more.Features[0]
	yes.Name, yes.Table = "again", ""
	more.Features = append(more.Features, yes)
	opt := Options{Config: more, From: runJob(t, 2, Options{Config: c}).RunDir, Set: []string{"train.epochs=2"}}
	slots := opt
	slots.Set = append(slices.Clone(opt.Set), "train.slots=4")
	one, free := runJob(t, 1, slots), runJob(t, 1, opt)
	last := func(r report.Result) *checkpoint.Checkpoint { return open(t, r.Checkpoint) }
	for _, size := range []int{2, 4} {
		sameContents(t, last(runJob(t, size, slots)), last(one))
		if d := *runJob(t, size, opt).TestAUC - *free.TestAUC; d > 0.0015 || d < -0.0015 {
			t.Errorf("%d ranks: AUC %.5f more than on one rank", size, d)
		}
	}
}

// TestFromKeepsVectors: the numbers of a vector keep their inputs of the first layer, also under another name.
func TestFromKeepsVectors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vectors.csv")
	var rows strings.Builder
	rows.WriteString("click,u,v\n")
	for i := range 300 {
		fmt.Fprintf(&rows, "%d,u%d,%d|%d|1\n", i%2, i%7, i%2*3, i%5)
	}
	fatal.If(t, os.WriteFile(path, []byte(rows.String()), 0o644))
	text := "data: {train: [%q], test: [%[1]q], header: true}\nlabel: {field: click}\nfeatures: [{field: u, encode: vocabulary}, {field: v, %s encode: vector, size: 3, separator: '|'}%s]\ntrain: {epochs: 2, global_batch: 32, optimizer: {dense: {kind: adam, learning_rate: 0.01}}}\n"
	was, err := config.Parse("was", []byte(fmt.Sprintf(text, path, "", "")))
	fatal.If(t, err)
	now, err := config.Parse("now", []byte(fmt.Sprintf(text, path, "name: w, was: v,", ", {field: u, name: more, encode: hash}")))
	fatal.If(t, err)
	old := runJob(t, 1, Options{Config: was})
	want, _ := firstScores(t, 1, Options{Resume: old.RunDir, Set: []string{"train.epochs=9"}})
	opt := Options{Config: now, From: old.RunDir}
	said := listen(&opt)
	got, _ := firstScores(t, 1, opt)
	if math.Abs(got-want) > 1e-6 {
		t.Errorf("log-loss %.9f, before %.9f", got, want)
	}
	if all := strings.Join(said(), "\n"); strings.Contains(all, "w[0]: new") || strings.Contains(all, "dropped") {
		t.Errorf("said %s", all)
	}
}

// TestFromNextDay: a new training begins with yesterday's model, gives values of the new day rows
// of their own and keeps the old ones, and counts steps from there.
func TestFromNextDay(t *testing.T) {
	c, days := nextDay(t)
	dir := t.TempDir()
	three := filepath.Join(dir, "day3.csv") // 30 rows of a new user, and one of a rare user
	fatal.If(t, os.WriteFile(three, []byte("click,u\n"+strings.Repeat("1,u1\n0,new\n0,u4\n1,new\n", 15)), 0o644))
	first := runJob(t, 2, Options{Config: c})
	opt := Options{Config: c, From: first.RunDir, Set: []string{days(three), "train.early_stop.patience=0", "data.valid_fraction=0", "train.epochs=2"}}
	opt.Set[0] = fmt.Sprintf("data.train=[%q]", three)
	opt.About.Version = "1"
	said := listen(&opt)
	second := runJob(t, 3, opt)
	if second.Kept < 1 || second.Kept > second.Tables[0].Rows || !strings.Contains(second.Differs(), fmt.Sprintf("not all %d that the training began with", second.Kept)) || strings.Contains(first.Differs(), "began with") {
		t.Errorf("%d rows kept: %s", second.Kept, second.Differs())
	}
	if second.RunDir == first.RunDir || second.NewSamples != 120 || second.Steps <= second.Since || second.Since == 0 {
		t.Errorf("%+v", second)
	}
	about, err := rundir.ReadAbout(second.RunDir)
	if all := strings.Join(said(), "\n"); err != nil || !strings.Contains(all, about.From) || about.From == "" || !strings.Contains(all, "u: kept, 6 values and 1 new") && !strings.Contains(all, "u: kept, 5 values and 1 new") {
		t.Errorf("%v, from %q; said %s", err, about.From, all)
	}
	if rows := second.Tables[0].Rows; rows < first.Tables[0].Rows+1 {
		t.Errorf("%d rows, before %d", rows, first.Tables[0].Rows)
	}
}

// TestFromTakesByName: a changed encoding, another shape and other optimizers begin anew, and a
// dropped feature is named.
func TestFromTakesByName(t *testing.T) {
	path := traintest.Clicks(t, 300)
	old := runJob(t, 2, Options{Config: traintest.ClicksConfig(t, path, "", "")})
	c := traintest.ClicksConfig(t, path, "", "")
	c.Crosses, c.Features = nil, c.Features[:3]
	c.Features[0].Encode = "vocabulary"
	c.Features[2].Buckets = 9
	c.Model.Hidden = []int{16, 4}
	c.Tables = []config.Table{{Name: "tags", Dim: 8}}
	opt := Options{Config: c, From: old.RunDir}
	if err := refused(t, 1, opt); !strings.Contains(err.Error(), "table tags have 4 values there and 8 here") {
		t.Error(err)
	}
	c.Train.From.Allow = []string{"dim"}
	said := listen(&opt)
	runJob(t, 1, opt)
	all := strings.Join(said(), "\n")
	for _, want := range []string{"site: new, because its encoding differs\n", "rows kept, deep new\n", "age: new, because its encoding differs\n", "site_x_age: dropped", "age_standardise: dropped", "deep/linear1/weight: new"} {
		if !strings.Contains(all, want) {
			t.Errorf("no line %q in\n%s", want, all)
		}
	}
}

// TestFromRenames: with was, a renamed feature keeps its rows, its table, the table of its cross and
// its place in the first layer, on any number of ranks; a further label gets layers of its own.
func TestFromRenames(t *testing.T) {
	path := traintest.Clicks(t, 600)
	c, now := traintest.ClicksConfig(t, path, "", ""), traintest.ClicksConfig(t, path, "", "")
	c.Data.Derive = []schema.Derived{schema.NewDerived("first", "site == 'site1'")}
	now.Data.Derive = c.Data.Derive
	old := runJob(t, 2, Options{Config: c})
	_, want := firstScores(t, 1, Options{Resume: old.RunDir, Set: []string{"train.epochs=9"}})
	now.Features[0].Name, now.Features[0].Was = "place", "site"
	now.Features[3].Name, now.Features[3].Was = "years", "age_standardise"
	now.Crosses[0].Of[0] = "place"
	now.Labels = []schema.Label{{Field: "first"}}
	for _, size := range []int{1, 3} {
		opt := Options{Config: now, From: old.RunDir}
		said := listen(&opt)
		_, got := firstScores(t, size, opt)
		all := strings.Join(said(), "\n")
		for _, line := range []string{"table place: 40 rows kept, of table site, wide/first new\n", "place: kept (was site)\n", "years: kept (was age_standardise)\n", "rows kept, of table site_x_age, wide/first new\n", "tower/first/deep/linear0/weight: new"} {
			if !strings.Contains(all, line) {
				t.Errorf("no line %q in\n%s", line, all)
			}
		}
		if strings.Contains(all, "dropped") || strings.Contains(all, "first layer") {
			t.Error(all)
		}
		for i := range got {
			if size == 1 && math.Abs(float64(got[i]-want[i])) > 1e-6*max(1, math.Abs(float64(want[i]))) {
				t.Fatalf("logit %d is %v, before %v", i, got[i], want[i])
			}
		}
	}
	now.Labels = nil
	opt := Options{Config: now, From: old.RunDir}
	opt.Set = []string{"train.epochs=1"}
	next := runJob(t, 1, opt) // and the day after, with the same configuration
	opt.From = next.RunDir
	said := listen(&opt)
	runJob(t, 1, opt)
	if all := strings.Join(said(), "\n"); strings.Contains(all, "dropped") || strings.Contains(all, ": new") || !strings.Contains(all, "table place: 40 rows kept\n") {
		t.Error(all)
	}
}

// TestFromStartsAgain: optimizer: reset takes values without states and counts steps from 1,
// statistics: new takes the mean of the new data, and with another network the tables are kept.
func TestFromStartsAgain(t *testing.T) {
	path := traintest.Clicks(t, 600)
	c := traintest.ClicksConfig(t, path, "", ", optimizer: {deep: {kind: adam}, wide: {kind: ftrl}}")
	old := runJob(t, 1, Options{Config: c})
	_, want := firstScores(t, 1, Options{Resume: old.RunDir, Set: []string{"train.epochs=9"}})
	opt := Options{Config: c, From: old.RunDir, Set: []string{"train.from.optimizer=reset"}}
	_, got := firstScores(t, 2, opt)
	_, got = firstScores(t, 1, opt)
	for i := range got {
		if math.Abs(float64(got[i]-want[i])) > 1e-6*max(1, math.Abs(float64(want[i]))) {
			t.Fatalf("logit %d is %v, before %v", i, got[i], want[i])
		}
	}
	said := listen(&opt)
	if r := runJob(t, 1, opt); r.Since != 0 || r.Steps != old.Steps || !strings.Contains(strings.Join(said(), "\n"), "optimizers: reset") {
		t.Errorf("%+v, %s", r, said())
	}
	small := filepath.Join(t.TempDir(), "old.csv") // of another mean
	fatal.If(t, os.WriteFile(small, []byte("click,site,tags,age\n"+strings.Repeat("1,site1,t1,90\n0,site2,t2,80\n0,site3,t2,70\n", 20)), 0o644))
	set := []string{fmt.Sprintf("data.train=[%q]", small), "data.valid_fraction=0", "train.epochs=1"}
	mean := func(more ...string) string {
		r := runJob(t, 1, Options{Config: c, From: old.RunDir, Set: append(set, more...)})
		trained, err := OpenTrained(context.Background(), r.RunDir, func(string) {})
		fatal.If(t, err)
		_, rest, _ := strings.Cut(string(trained.Encoder), `"mean":`)
		return rest[:4]
	}
	if kept, renewed := mean(), mean("train.from.statistics=new"); kept == renewed || renewed[:2] != "80" {
		t.Errorf("mean %s, renewed %s", kept, renewed)
	}
	opt = Options{Config: traintest.ClicksConfig(t, path, ", kind: dcn_v2, wide: true", ", from: {allow: [network]}, optimizer: {deep: {kind: adam}}"), From: old.RunDir}
	said = listen(&opt)
	runJob(t, 2, opt)
	if all := strings.Join(said(), "\n"); !strings.Contains(all, "layers: new, by train.from.allow") || !strings.Contains(all, "table site: 40 rows kept\n") {
		t.Error(all)
	}
	said = listen(&opt)
	_, err := Estimate(t.Context(), opt, 2, false)
	fatal.If(t, err)
	if all := strings.Join(said(), "\n"); !strings.Contains(all, "table site: 40 rows kept\n") || !strings.Contains(all, "rows that are kept, add those that it does not use") {
		t.Errorf("the plan:\n%s", all)
	}
}

// TestFromIsRefused: another label or network, a source whose values have other keys, and a damaged source.
func TestFromIsRefused(t *testing.T) {
	path := traintest.Clicks(t, 300)
	old := runJob(t, 1, Options{Config: traintest.ClicksConfig(t, path, "", "")})
	other := traintest.ClicksConfig(t, path, ", kind: deepfm", "")
	label := traintest.ClicksConfig(t, path, "", "")
	label.Label.Positive = []string{"0"}
	typo := traintest.ClicksConfig(t, path, "", "")
	typo.Features[0].Name, typo.Features[0].Was, typo.Crosses = "place", "sight", nil
	for want, c := range map[string]*config.Config{"model.kind: wide_deep → deepfm": other, "label.positive: ": label, "the source has no such feature for place; its features are site, tags": typo} {
		if err := Check(context.Background(), Options{Config: c, From: old.RunDir}, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	more := traintest.ClicksConfig(t, path, "", "") // new data writes yes for 1
	more.Label.Positive = []string{"1", "yes"}
	for _, negative := range [][]string{nil, {"0"}} {
		was := traintest.ClicksConfig(t, path, "", "")
		was.Label.Positive, was.Label.Negative, more.Label.Negative = []string{"1"}, negative, negative
		run := runJob(t, 1, Options{Config: was})
		err := Check(context.Background(), Options{Config: more, From: run.RunDir}, 1)
		if refused := negative == nil; (err != nil) != refused { // yes was 0
			t.Errorf("a further positive value, negative values %q: %v", negative, err)
		}
	}
	renumbered := func(more string) string {
		return rewritten(t, open(t, old.Checkpoint), func(name string, b []byte) []byte {
			if name == save.SectionEncoder {
				return []byte(strings.Replace(string(b), `"version":1`, `"version":2`+more, 1))
			}
			return b
		})
	}
	for _, more := range []string{"", `,"seed":7`} { // another hash of values
		if err := refused(t, 1, Options{Config: traintest.ClicksConfig(t, path, "", ""), From: renumbered(more)}); !strings.Contains(err.Error(), "from ") || !strings.Contains(err.Error(), "feature index is of version 2, this program reads version 1, in which values may have other keys") {
			t.Error(err)
		}
	}
	parts, err := filepath.Glob(filepath.Join(old.RunDir, "checkpoints", "step-*", "*.wck"))
	fatal.If(t, errors.Join(err))
	for _, p := range parts {
		b := read(t, p)
		fatal.If(t, os.WriteFile(p, b[:len(b)/2], 0o644))
	}
	if err := refused(t, 1, Options{Config: traintest.ClicksConfig(t, path, "", ""), From: old.RunDir}); !strings.Contains(err.Error(), "from ") {
		t.Error(err)
	}
}

// TestWeightsOutliveTheRateOfFTRL: the state of ftrl means other weights with another rate. The weights stay, also when
// some rows of a checkpoint were last written with an earlier rate.
func TestWeightsOutliveTheRateOfFTRL(t *testing.T) {
	t.Parallel()
	path := traintest.Clicks(t, 600)
	for _, dense := range []string{"adam", "ftrl"} {
		c := traintest.ClicksConfig(t, path, "", ", optimizer: {dense: {kind: "+dense+"}}")
		c.Data.Test = []string{path}
		c.Train.Checkpoint.EverySteps, c.Train.Checkpoint.FullEvery = 5, 10
		old := runJob(t, 2, Options{Config: c})
		want := *old.TestLogLoss
		from := runJob(t, 1, Options{Config: c, From: old.RunDir, Set: still})
		if math.Abs(*from.TestLogLoss-want) > 1e-5 {
			t.Errorf("dense %s: -from: log-loss %v, was %v", dense, *from.TestLogLoss, want)
		}
		more := func(epochs int, rate string) []string {
			set := []string{fmt.Sprintf("train.epochs=%d", epochs)}
			for _, of := range []string{"deep", "dense", "wide"} {
				set = append(set, "train.optimizer."+of+".learning_rate="+rate)
			}
			return set
		}
		runJob(t, 2, Options{Resume: old.RunDir, Set: more(c.Train.Epochs+1, "1e-30")})
		again := runJob(t, 1, Options{Resume: old.RunDir, Set: more(c.Train.Epochs+2, "1e-25")})
		if math.Abs(*again.TestLogLoss-want) > 1e-5 {
			t.Errorf("dense %s: -resume: log-loss %v, was %v", dense, *again.TestLogLoss, want)
		}
	}
}

// TestFromNamesWhatItDrops: parts of rows, tables, layers and the state of an optimizer that a training does not take from
// its source are named.
func TestFromNamesWhatItDrops(t *testing.T) {
	t.Parallel()
	c := traintest.ClicksConfig(t, traintest.Clicks(t, 300), "", "")
	c.Model.Hidden = []int{8, 4}
	old := runJob(t, 1, Options{Config: c})
	for set, want := range map[string][]string{
		"features[0].wide=false":                     {"table site: ", " rows kept, wide dropped"},
		"features[0].deep=false":                     {"table site: ", " rows kept, deep dropped"},
		"features[0].table=tags":                     {"table site: dropped: the features that used it have other tables"},
		"model.hidden=[8]":                           {"deep/linear1/weight: dropped", "deep/linear1/bias: dropped", "deep/out/weight: new"},
		"train.optimizer.dense={kind: adagrad}":      {"layers: kept, the optimizer new, because it was adam"},
		"train.optimizer.dense.learning_rate=0.0001": nil,
	} {
		var said []string
		opt := Options{Config: c, From: old.RunDir, Set: []string{"train.epochs=1", set}, Say: func(line string) { said = append(said, line) }}
		runJob(t, 1, opt)
		all := strings.Join(said, "\n")
		for _, part := range want {
			if !strings.Contains(all, part) {
				t.Errorf("%s: no %q in\n%s", set, part, all)
			}
		}
		if want == nil && strings.Contains(all, "dropped") {
			t.Errorf("%s: %s", set, all)
		}
	}
}
