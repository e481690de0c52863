package train

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/train/report"
)

// stopping are settings with which the training of ratesConfig stops early.
var stopping = []string{"train.epochs=20", "train.early_stop.patience=1", "train.optimizer.dense.learning_rate=0.01"}

// refitConfig returns ratesConfig with statistics that rows change: rates, a vocabulary and quantiles.
func refitConfig(t *testing.T) *config.Config {
	c := ratesConfig(t, 1)
	c.Features[2].Encode = "vocabulary"
	return c
}

// refitted runs a training with train.refit.
func refitted(t *testing.T, size int, opt Options, set ...string) report.Result {
	t.Helper()
	opt.Set = slices.Concat(stopping, []string{"train.refit=true"}, set)
	return runJob(t, size, opt)
}

// sameParts reports parts of the last checkpoints of two runs that differ.
func sameParts(t *testing.T, size int, a, b report.Result) {
	t.Helper()
	for rank := range size {
		part := fmt.Sprintf("rank-%04d-of-%04d.wck", rank, size)
		if !slices.Equal(read(t, filepath.Join(a.Checkpoint, part)), read(t, filepath.Join(b.Checkpoint, part))) {
			t.Errorf("%s of %s and %s differ", part, a.Checkpoint, b.Checkpoint)
		}
	}
}

// TestRefit: the second training is that of a user who trains on all rows for the best number of epochs.
// The validation metrics are those of the first one, and the number of epochs is the same on any number
// of ranks.
func TestRefit(t *testing.T) {
	t.Parallel()
	c := refitConfig(t)
	plain := runJob(t, 1, Options{Config: c, Set: stopping})
	if plain.EarlyStopped == 0 || plain.BestEpoch < 2 {
		t.Fatalf("early stopping chose epoch %d: the test proves little", plain.BestEpoch)
	}
	byHand := runJob(t, 1, Options{Config: c, Set: []string{"data.valid_fraction=0", fmt.Sprint("train.epochs=", plain.BestEpoch), stopping[2]}})
	for _, size := range []int{1, 2, 4} {
		res := refitted(t, size, Options{Config: c})
		want := report.Refit{Epochs: int64(plain.BestEpoch), Rows: 8000, FirstRows: 7200, FirstSteps: plain.Steps}
		if res.Refit == nil || *res.Refit != want {
			t.Fatalf("%d ranks: %+v, want %+v", size, res.Refit, want)
		}
		if size > 1 {
			continue
		}
		if *res.TestLogLoss != *byHand.TestLogLoss || res.TrainLogLoss != byHand.TrainLogLoss {
			t.Errorf("test log-loss %v, by hand %v", *res.TestLogLoss, *byHand.TestLogLoss)
		}
		if *res.ValidLogLoss != *plain.ValidLogLoss || res.BestEpoch != plain.BestEpoch || res.EarlyStopped != 1 || res.ValidData != plain.ValidData {
			t.Errorf("validation %v of epoch %d, without refit %v of epoch %d", *res.ValidLogLoss, res.BestEpoch, *plain.ValidLogLoss, plain.BestEpoch)
		}
		if res.Steps != plain.Steps+byHand.Steps || res.Samples != plain.Samples+byHand.Samples {
			t.Errorf("%d steps, %d samples; want %d + %d, %d + %d", res.Steps, res.Samples, plain.Steps, byHand.Steps, plain.Samples, byHand.Samples)
		}
		saved, err := os.ReadFile(filepath.Join(res.RunDir, rundir.FileConfig))
		fatal.If(t, err)
		if !strings.Contains(string(saved), "valid_fraction: 0.1") {
			t.Error("the configuration of the run is that of its second training")
		}
	}
}

// TestRefitResumes: a training that resumes inside the first or the second training ends with the same bits.
func TestRefitResumes(t *testing.T) {
	t.Parallel()
	const size = 2
	whole := refitted(t, size, Options{Config: refitConfig(t)})
	inside := 0
	found, err := checkpoint.List(filepath.Join(whole.RunDir, checkpoint.Folder))
	fatal.If(t, err)
	for _, at := range []int64{120, whole.Refit.FirstSteps, whole.Refit.FirstSteps/60*60 + 60} {
		if !slices.ContainsFunc(found, func(f checkpoint.Found) bool { return f.Step == at }) {
			t.Fatalf("no checkpoint of step %d", at)
		}
		from := checkpoint.Dir(filepath.Join(whole.RunDir, checkpoint.Folder), at)
		if at > whole.Refit.FirstSteps {
			inside++
		}
		opt := Options{Resume: from}
		said := listen(&opt)
		res := runJob(t, size, opt)
		if named := strings.Contains(strings.Join(said(), "\n"), " of the second training (train.refit)"); named != (at > whole.Refit.FirstSteps) {
			t.Errorf("from step %d: the line about the resume names the second training: %v", at, named)
		}
		if res.Refit == nil || *res.Refit != *whole.Refit || *res.ValidLogLoss != *whole.ValidLogLoss || res.ValidData != whole.ValidData || res.EarlyStopped != whole.EarlyStopped {
			t.Errorf("from step %d: %+v, %v, want %+v, %v", at, res.Refit, res.Valid, whole.Refit, whole.Valid)
		}
		sameParts(t, size, whole, res)
	}
	if inside != 1 {
		t.Errorf("%d checkpoints of the second training", inside)
	}
	if err := refused(t, size, Options{Resume: whole.RunDir}); !strings.Contains(err.Error(), "all rows") {
		t.Errorf("of a complete run: %v", err)
	}
}

// TestRefitOfASource: both trainings begin with the source, also if the job resumes, and another training can
// begin with the result.
func TestRefitOfASource(t *testing.T) {
	t.Parallel()
	c := refitConfig(t)
	source := runJob(t, 1, Options{Config: c, Set: []string{"train.seed=2", "train.epochs=1"}})
	opt := Options{Config: c, From: source.RunDir}
	said := listen(&opt)
	res := refitted(t, 1, opt)
	lines := said()
	begins := func(line string) bool { return strings.HasPrefix(line, "the training begins with the model of ") }
	if n := len(slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return !begins(line) })); n != 1 {
		t.Errorf("the source is named %d times:\n%s", n, strings.Join(lines, "\n"))
	}
	byHand := runJob(t, 1, Options{Config: c, From: source.RunDir, Set: []string{"data.valid_fraction=0", fmt.Sprint("train.epochs=", res.BestEpoch), stopping[2]}})
	if res.Refit == nil || *res.TestLogLoss != *byHand.TestLogLoss || res.Began != source.Steps {
		t.Errorf("%+v: test log-loss %v, by hand %v", res.Refit, *res.TestLogLoss, *byHand.TestLogLoss)
	}
	again := runJob(t, 1, Options{Resume: checkpoint.Dir(filepath.Join(res.RunDir, checkpoint.Folder), source.Steps+res.Refit.FirstSteps)})
	sameParts(t, 1, res, again)
	warned := ""
	after := runJob(t, 1, Options{Config: c, From: res.RunDir, Set: []string{"train.epochs=1", "train.refit=false"}, Warn: func(line string) { warned += line }})
	if !strings.Contains(warned, "was also trained on the validation rows (train.refit)") {
		t.Errorf("no warning about the validation rows: %q", warned)
	}
	if after.Began != byHand.Steps {
		t.Errorf("a training that begins with the result counts steps from %d, want %d", after.Began, byHand.Steps)
	}
	for from, want := range map[string]string{source.RunDir: "", res.RunDir: "was trained on validation rows"} {
		warned = ""
		seed := 0 // that of the source, which holds out the same rows
		if from == source.RunDir {
			seed = 2
		}
		runJob(t, 1, Options{Config: c, From: from, Set: []string{fmt.Sprint("train.seed=", seed), "train.epochs=1", "train.gate.metric=auc"}, Warn: func(line string) { warned += line }})
		if strings.Contains(warned, "validation rows") != (want != "") || !strings.Contains(warned, want) {
			t.Errorf("gate, from %s: %q", from, warned)
		}
	}
	fatal.If(t, os.RemoveAll(source.RunDir))
	warned = ""
	again = runJob(t, 1, Options{Resume: checkpoint.Dir(filepath.Join(res.RunDir, checkpoint.Folder), source.Steps+res.Refit.FirstSteps), Warn: func(line string) { warned += line }})
	if again.Refit != nil || !strings.Contains(warned, "no longer there") {
		t.Errorf("without the source: %+v, %s", again.Refit, warned)
	}
}

// TestRefitInTime: rates of earlier records stay those in the second training, in which no record is held out
// as the newest.
func TestRefitInTime(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("user,at,label\n")
	for i := range 6000 {
		fmt.Fprintf(&b, "u%d,%d,%d\n", i*7919%97, 1000000+i, i*31%97%5/4)
	}
	path := datatest.Write(t, "log.csv", b.String())
	parse := func(data string) *config.Config {
		c, err := config.Parse("log.yaml", []byte(fmt.Sprintf(`
data: {train: [%q], header: true%s}
label: {field: label}
features: [{field: user, encode: rate}, {field: user, encode: hash, name: key, buckets: 2}]
model: {embedding_dim: 4, hidden: [8]}
train: {global_batch: 128, epochs: 4, early_stop: {patience: 2}, refit: true, checkpoint: {every_steps: 20, keep: 100}}
`, path, data)))
		fatal.If(t, err)
		return c
	}
	res := runJob(t, 2, Options{Config: parse(", valid_fraction: 0.2, valid_time: at")})
	last, err := checkpoint.Open(res.Checkpoint)
	fatal.If(t, err)
	encoder, err := encoderOf(last)
	fatal.If(t, err)
	if order, _ := encoder.Rated(); order.Rows != 6000 {
		t.Errorf("rates are not in the order of time: %+v", order)
	}
	again := runJob(t, 2, Options{Resume: checkpoint.Dir(filepath.Join(res.RunDir, checkpoint.Folder), res.Refit.FirstSteps/20*20+20)})
	sameParts(t, 2, res, again)
}

// TestRefitHasNoEffect: settings with which there is no second training are named, with the reason.
func TestRefitHasNoEffect(t *testing.T) {
	t.Parallel()
	c := refitConfig(t)
	for _, x := range []struct{ set, want string }{
		{"data.valid_fraction=0", "no rows of data.train are held out"},
		{"train.eval_steps=20", "train.eval_every"},
		{"train.schedule.kind=plateau", "a plateau"},
	} {
		warned := ""
		res := runJob(t, 1, Options{Config: c, Set: []string{"train.refit=true", "train.epochs=1", x.set}, Warn: func(line string) { warned += line }})
		if res.Refit != nil || !strings.Contains(warned, x.want) {
			t.Errorf("%s: %+v, %q", x.set, res.Refit, warned)
		}
	}
}

// TestToldOnce: the second training repeats no warning of the first.
func TestToldOnce(t *testing.T) {
	var said []string
	var x warningLog
	warn := x.once(func(line string) { said = append(said, line) })
	for _, line := range []string{"a", "a", "b"} {
		warn(line)
	}
	x.beginSecond()
	for _, line := range []string{"a", "b", "c"} {
		warn(line)
	}
	if !slices.Equal(said, []string{"a", "a", "b", "c"}) {
		t.Errorf("%q", said)
	}
}
