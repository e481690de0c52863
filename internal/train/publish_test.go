package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/export"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/internal/train/traintest"
	"github.com/wdlrun/wdlrun/rank"
	"github.com/wdlrun/wdlrun/trace"
)

// publishing returns the options of a training that publishes as often as possible, with a
// checkpoint after every fourth step.
func publishing(t testing.TB, path string, recipe [2]string, full int) (opt Options, models string) {
	models = filepath.Join(t.TempDir(), "models", "ctr")
	return Options{Config: traintest.ClicksConfig(t, path, recipe[0], recipe[1]), Set: []string{
		"train.epochs=1", "train.checkpoint.every_steps=4", "train.export.dir=" + models, fmt.Sprintf("train.export.full_every=%d", full),
	}}, models
}

// runPublishing is like runJob, for a job that publishes after every step.
func runPublishing(t testing.TB, size int, opt Options) (res report.Result) {
	t.Helper()
	if opt.Warn == nil {
		opt.Warn = func(line string) {
			if strings.Contains(line, "train.export") {
				t.Error(line)
			}
		}
	}
	if opt.Out == "" {
		opt.Out = t.TempDir()
	}
	traintest.OnRanks(t, size, func(comm *collective.Comm) error {
		j := NewJob(comm, trace.New(100), opt)
		j.saves.every = time.Nanosecond
		r, err := j.Run(context.Background())
		if comm.Rank() == 0 {
			res = r
		}
		return err
	})
	if t.Failed() {
		t.FailNow()
	}
	return res
}

// published lists the versions in a folder.
func published(t testing.TB, models string) (all []int64) {
	t.Helper()
	entries, err := os.ReadDir(models)
	fatal.If(t, err)
	for _, e := range entries {
		n, err := strconv.ParseInt(e.Name(), 10, 64)
		if err != nil && e.Name() != ".lock" && e.Name() != ".ledger" {
			t.Errorf("%s was not removed", e.Name())
		}
		if err == nil {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all
}

func openVersion(t testing.TB, models string, n int64, before *export.Model) *export.Model {
	t.Helper()
	m, err := export.OpenAfter(filepath.Join(models, strconv.FormatInt(n, 10)), before, nil)
	fatal.If(t, err)
	t.Cleanup(func() { m.Close() })
	return m
}

// fullExport returns the full export of the checkpoint of a step and the keys of its tables.
func fullExport(t testing.TB, run string, at int64) (*export.Model, [][]uint64) {
	t.Helper()
	c, err := checkpoint.Open(checkpoint.Dir(filepath.Join(run, checkpoint.Folder), at))
	fatal.If(t, err)
	m, err := OpenTrained(context.Background(), c.Dir(), func(line string) { t.Error(line) })
	fatal.If(t, err)
	r, err := export.Write(context.Background(), export.Source{Checkpoint: m.Checkpoint, Config: m.Config, Encoder: m.Encoder}, export.Options{Out: t.TempDir(), Name: "x", Version: -1})
	fatal.If(t, err)
	model, err := export.Open(r.Dir)
	fatal.If(t, err)
	t.Cleanup(func() { model.Close() })
	keys := make([][]uint64, len(model.Layout().Tables))
	for i, of := range model.Layout().Tables {
		err := step.EachRow(c, of, func(_ int, key uint64, _ []float32) error { keys[i] = append(keys[i], key); return nil })
		fatal.If(t, err)
	}
	return model, keys
}

// sameParameters compares the rows of keys, and the dense parameters, to the bit.
func sameParameters(t testing.TB, got, want *export.Model, keys [][]uint64) {
	t.Helper()
	for i, of := range want.Layout().Tables {
		width := 0
		for _, p := range of.Parts {
			width += p.Dim
		}
		a, b := make([]float32, width*len(keys[i])), make([]float32, width*len(keys[i]))
		got.Read([]step.Query{{Table: i, Keys: keys[i], Values: a}})
		want.Read([]step.Query{{Table: i, Keys: keys[i], Values: b}})
		for j := range b {
			if math.Float32bits(a[j]) != math.Float32bits(b[j]) {
				t.Fatalf("version %d: table %s: key %d: %v, want %v as in a full export", got.Version(), of.Name, keys[i][j/width], a[j], b[j])
			}
		}
	}
	for i, p := range want.Parameters().Params() {
		if x := got.Parameters().Params()[i]; !slices.Equal(x.Value, p.Value) {
			t.Fatalf("version %d: %s differs", got.Version(), p.Name)
		}
	}
}

// TestVersionsAreFullExportsOfTheirStep: each incremental version has the bits of a full
// export of the same step, whether it is opened after the previous one or alone. This holds
// on any number of ranks and hosts, with admission, eviction, bfloat16 rows and tiers.
func TestVersionsAreFullExportsOfTheirStep(t *testing.T) {
	path := traintest.Clicks(t, 1500)
	for _, x := range []struct {
		recipe string
		hosts  string
	}{{"rows", "a a"}, {"plain", "a"}, {"rows", "a b b"}, {"plain", "a b"}, {"plain", "a a a"}, {"rows", "a"}}[:patient.Size(3, 6)] {
		t.Run(x.recipe+" "+x.hosts, func(t *testing.T) {
			if x.recipe != "rows" {
				everyday(t)
			}
			t.Parallel()
			opt, models := publishing(t, path, recipes[x.recipe], 1000)
			opt.Hosts, opt.Key = strings.Fields(x.hosts), rank.NewKey()
			opt.Listen = func() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }
			run := runPublishing(t, len(opt.Hosts), opt)
			all := published(t, models)
			if int64(len(all)) < run.Steps-2 || all[len(all)-1] != run.Steps {
				t.Fatalf("versions %v after %d steps", all, run.Steps)
			}
			compareVersions(t, models, run.RunDir, all)
		})
	}
}

// compareVersions compares versions with the checkpoints of their steps, if these exist.
func compareVersions(t *testing.T, models, run string, all []int64) {
	t.Helper()
	var before *export.Model
	var ever [][]uint64
	compared, extended := 0, 0
	for _, n := range all {
		m := openVersion(t, models, n, before)
		if before != nil && m.Base() == before.Base() {
			extended++
		}
		before = m
		if _, err := os.Stat(checkpoint.Dir(filepath.Join(run, checkpoint.Folder), n)); err != nil {
			continue
		}
		want, keys := fullExport(t, run, n)
		if ever == nil {
			ever = make([][]uint64, len(keys))
		}
		for i := range keys { // keys that were evicted since are compared too
			ever[i] = append(ever[i], keys[i]...)
			slices.Sort(ever[i])
			ever[i] = slices.Compact(ever[i])
		}
		sameParameters(t, m, want, ever)
		sameParameters(t, openVersion(t, models, n, nil), want, ever)
		compared++
	}
	if compared < 2 || extended < 2 {
		t.Errorf("%d of %d versions were compared, %d are based on the previous one", compared, len(all), extended)
	}
}

// TestPublishingContinuesAfterAResume: the first version of a resumed training is complete
// and newer than all others, and every third version is complete. Files left by a killed
// training are removed.
func TestPublishingContinuesAfterAResume(t *testing.T) {
	patient.Long(t)
	path := traintest.Clicks(t, 1500)
	opt, models := publishing(t, path, recipes["plain"], 3)
	run := runPublishing(t, 2, opt)
	first := published(t, models)
	complete := 0
	for _, n := range first {
		if openVersion(t, models, n, nil).Base() == n {
			complete++
		}
	}
	if complete != 2 || first[0] < run.Steps/2 {
		t.Errorf("%d complete versions among %v", complete, first)
	}
	for _, name := range []string{".publish-9", ".part-9"} {
		fatal.If(t, os.Mkdir(filepath.Join(models, name), 0o755))
	}
	again := runPublishing(t, 3, Options{Resume: run.RunDir, Set: []string{"train.epochs=4", "train.export.full_every=1000"}})
	var after []int64
	for _, n := range published(t, models) {
		if n > run.Steps {
			after = append(after, n)
		}
	}
	if len(after) < 3 || after[len(after)-1] != again.Steps || openVersion(t, models, after[0], nil).Base() != after[0] {
		t.Fatalf("versions %v after step %d", after, run.Steps)
	}
	compareVersions(t, models, run.RunDir, after)
	var warned []string
	opt.Warn = func(line string) { warned = append(warned, line) }
	runPublishing(t, 1, opt)
	if n := published(t, models); n[len(n)-1] <= again.Steps || openVersion(t, models, n[len(n)-1], nil).Manifest().Step != run.Steps || !slices.ContainsFunc(warned, func(line string) bool { return strings.Contains(line, "has versions up to") }) {
		t.Errorf("versions %v after a new training into the folder of another, warned %q", n, warned)
	}
}

// TestTheLastModelOfAShortTrainingIsPublished: a training that begins with a model has no checkpoint of its
// own at first, and it may end before it looks for one again.
func TestTheLastModelOfAShortTrainingIsPublished(t *testing.T) {
	opt, models := publishing(t, traintest.Clicks(t, 300), recipes["plain"], 1000)
	opt.Set = append(opt.Set, "train.export.every_seconds=3600")
	first := runJob(t, 2, opt)
	opt.From = first.RunDir
	second := runJob(t, 2, opt)
	if all := published(t, models); second.Steps <= first.Steps || !slices.Equal(all, []int64{first.Steps, second.Steps}) {
		t.Errorf("versions %v after trainings that ended with steps %d and %d", all, first.Steps, second.Steps)
	}
}

// TestTheGuardNamesTheLastModel: if the guard does not admit the model at the end, a line says so and why.
func TestTheGuardNamesTheLastModel(t *testing.T) {
	path := traintest.Clicks(t, 600)
	b, err := os.ReadFile(path)
	fatal.If(t, err)
	flipped := filepath.Join(t.TempDir(), "flipped.csv")
	text := strings.NewReplacer("\n0,", "\n1,", "\n1,", "\n0,").Replace(string(b))
	fatal.If(t, os.WriteFile(flipped, []byte(text), 0o600))
	opt, models := publishing(t, path, recipes["plain"], 1000)
	guard := func(window int) string {
		return fmt.Sprintf("train.export.guard={action: hold, window: %d, logloss: 0.1, calibration: 0.2, auc_drop: 0.02}", window)
	}
	opt.Set = append(opt.Set, "train.epochs=12", "train.export.every_seconds=3600", guard(200))
	opt.Warn = func(string) {}
	first := runJob(t, 1, opt)
	versions := func() int {
		l, err := export.List(models, false)
		fatal.If(t, err)
		return len(l.Versions)
	}
	for _, x := range []struct {
		data   string
		window int
		want   string // "": the version is published
	}{
		{path, 400, ""},
		{path, 100_000, "this job has used 480 samples, too few to compare it with the last version (10000)"},
		{flipped, 4800, "the log-loss of 480 samples is "},
		{flipped, 200, "the folder is on hold; to publish it: wdlrun publish " + models + " -release, then "},
	} {
		next := opt
		next.Config = traintest.ClicksConfig(t, x.data, recipes["plain"][0], recipes["plain"][1])
		next.From = first.RunDir
		next.Set = append(slices.Clone(opt.Set), "train.epochs=1", guard(x.window))
		var warned []string
		next.Warn = func(line string) { warned = append(warned, line) }
		before := versions()
		run := runJob(t, 1, next)
		want := fmt.Sprintf("the last model, of step %d, was not published: %s", run.Steps, x.want)
		command := fmt.Sprintf("wdlrun export -resume %s -out %s -name %s", run.RunDir, filepath.Dir(models), filepath.Base(models))
		text := strings.Join(warned, "\n")
		said := strings.Contains(text, want) && strings.Contains(text+"\n", command+"\n")
		if came := versions() > before; came != (x.want == "") || said != (x.want != "") {
			t.Errorf("window %d of %s: a version was published: %v; warned %q, want %q", x.window, x.data, came, warned, want)
		}
	}
}

// TestTheBestEpochIsNotTheOnePublished: after early stopping, a line says that the published model is not the
// best one.
func TestTheBestEpochIsNotTheOnePublished(t *testing.T) {
	c := traintest.ClicksConfig(t, traintest.Clicks(t, 600), "", ", early_stop: {patience: 2, metric: logloss}, optimizer: {deep: {kind: adam, learning_rate: 0.05}, dense: {kind: adam, learning_rate: 0.05}}")
	for _, dir := range []string{"", filepath.Join(t.TempDir(), "ctr")} {
		var warned []string
		res := runJob(t, 2, Options{Config: c, Out: t.TempDir(), Set: []string{"train.epochs=40", "train.export.dir=" + dir}, Warn: func(line string) { warned = append(warned, line) }})
		want := fmt.Sprintf("the best one, of step %d, is in", checkpointStep(t, res.Checkpoint))
		if said := strings.Contains(strings.Join(warned, "\n"), want); res.EarlyStopped == 0 || said != (dir != "") {
			t.Errorf("train.export.dir %q: stopped early after %d, warned %q", dir, res.EarlyStopped, warned)
		}
	}
}

// checkpointStep returns the step of a checkpoint.
func checkpointStep(t *testing.T, dir string) int64 {
	c, err := checkpoint.Open(dir)
	fatal.If(t, err)
	return c.Step()
}

// TestPublishingRecovers: when the versions are removed, or the mapped tables of the complete one are
// overwritten, a complete version follows. In the second case the training writes a checkpoint at once
// for that. The last version is the model at the end.
func TestPublishingRecovers(t *testing.T) {
	for name, damage := range map[string]func(models string) error{
		"removed": os.RemoveAll,
		"overwritten": func(models string) error {
			return os.WriteFile(filepath.Join(models, "1", "table-0000.bin"), nil, 0o600)
		},
	} {
		opt, models := publishing(t, traintest.Clicks(t, 1500), recipes["plain"], 1000)
		var warned []string
		opt.Warn = func(line string) {
			if strings.Contains(line, "train.export") {
				warned = append(warned, line)
			}
		}
		ended := false
		opt.Say = func(line string) {
			if !ended && strings.HasPrefix(line, "epoch 1") {
				ended = true
				fatal.If(t, damage(models))
			}
		}
		opt.Set = append(opt.Set, "train.epochs=2", "train.checkpoint.every_steps=1000000")
		run := runPublishing(t, 2, opt)
		complete := int64(0)
		all := published(t, models)
		for _, n := range all {
			if n < run.Steps/2 { // before the damage
				continue
			}
			m, err := export.Open(filepath.Join(models, strconv.FormatInt(n, 10)))
			if err != nil {
				continue
			}
			if m.Base() == n {
				complete = n
			}
			fatal.If(t, m.Close())
		}
		saved, err := checkpoint.List(filepath.Join(run.RunDir, checkpoint.Folder))
		fatal.If(t, err)
		asked := len(saved) == 3 && saved[1].Step < run.Steps/2+6 // the others are at the ends of the epochs
		if asked != (name == "overwritten") || complete == 0 || all[len(all)-1] != run.Steps || len(warned) != 1 {
			t.Errorf("%s: complete version %d of %d steps, versions %v, warned %q", name, complete, run.Steps, all, warned)
		}
		want, keys := fullExport(t, run.RunDir, run.Steps)
		last := openVersion(t, models, run.Steps, nil)
		sameParameters(t, last, want, keys)
		if m := last.Manifest(); len(m.Lineage) != 16 || m.Lineage != want.Manifest().Run || m.Step != run.Steps {
			t.Errorf("lineage %q, the run is %q; step %d", m.Lineage, want.Manifest().Run, m.Step)
		}
	}
}

// TestPublishingIsOneWarning: a folder that cannot be written causes one warning, and one about the last model; training
// continues.
func TestPublishingIsOneWarning(t *testing.T) {
	opt, models := publishing(t, traintest.Clicks(t, 600), recipes["plain"], 100)
	var warned []string
	opt.Warn = func(line string) {
		if strings.Contains(line, "train.export") {
			warned = append(warned, line)
		}
	}
	ended := false
	opt.Say = func(line string) { // the folder is removed after the first epoch
		if !ended && strings.HasPrefix(line, "epoch 1") {
			ended = true
			if err := errors.Join(os.RemoveAll(models), os.WriteFile(models, nil, 0o600)); err != nil {
				t.Error(err)
			}
		}
	}
	opt.Set = append(opt.Set, "train.epochs=2")
	if run := runPublishing(t, 2, opt); run.Steps == 0 || len(warned) != 2 || !strings.Contains(warned[0], "was not published") || !strings.Contains(warned[1], "the last model") {
		t.Errorf("%d steps, warned %q", run.Steps, warned)
	}
}

// TestNextDayContinuesVersions: a training that begins with the model of another one publishes its
// versions after that one's without a warning, also if its steps count from 1. A training of its own warns.
func TestNextDayContinuesVersions(t *testing.T) {
	opt, models := publishing(t, traintest.Clicks(t, 300), [2]string{}, 4)
	opt.Out = t.TempDir()
	last := runPublishing(t, 2, opt)
	for _, optimizer := range []string{"kept", "reset"} {
		next := opt
		next.From, next.Set = last.RunDir, append(slices.Clip(opt.Set), "train.from.optimizer="+optimizer)
		before := slices.Max(published(t, models))
		if last = runPublishing(t, 2, next); slices.Max(published(t, models)) <= before {
			t.Errorf("%s: no version after %d", optimizer, before)
		}
	}
	var warned []string
	opt.Warn = func(line string) { warned = append(warned, line) }
	opt.Out = t.TempDir()
	runPublishing(t, 1, opt)
	if !strings.Contains(strings.Join(warned, "\n"), "of another training or program") {
		t.Errorf("another training: warnings %q", warned)
	}
}
