package train

import (
	"bufio"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
	"github.com/wdlrun/wdlrun/optim"
)

// planted writes clicks drawn from a known model: a weight for each value of five fields and one
// for each pair of classes of the first two. It returns the AUC of the true probabilities, which
// no model can exceed except by chance.
func planted(t testing.TB, path string, seed uint64, rows int) (best float64) {
	t.Helper()
	const fields, values, classes = 5, 6, 2
	model := rand.New(rand.NewPCG(1, 1))
	var weight [fields][values]float64
	for f := range weight {
		for v := range weight[f] {
			weight[f][v] = 0.3 * model.NormFloat64()
		}
	}
	var pair [classes][classes]float64
	for i := range pair {
		for j := range pair[i] {
			pair[i][j] = 0.5 * model.NormFloat64()
		}
	}
	f, err := os.Create(path)
	fatal.If(t, err)
	w := bufio.NewWriter(f)
	fmt.Fprintln(w, "click,a,b,c,d,e")
	rng := rand.New(rand.NewPCG(seed, 2))
	type sample struct {
		score float64
		click int
	}
	samples := make([]sample, rows)
	for i := range samples {
		score, value := -1.0, [fields]int{}
		for f := range value {
			value[f] = rng.IntN(values)
			score += weight[f][value[f]]
		}
		score += pair[value[0]%classes][value[1]%classes]
		s := &samples[i]
		if s.score = score; rng.Float64() < 1/(1+math.Exp(-score)) {
			s.click = 1
		}
		fmt.Fprintf(w, "%d,%d,%d,%d,%d,%d\n", s.click, value[0], value[1], value[2], value[3], value[4])
	}
	fatal.If(t, w.Flush())
	fatal.If(t, f.Close())
	slices.SortFunc(samples, func(a, b sample) int { return int(math.Copysign(1, a.score-b.score)) })
	ranks, ones := 0.0, 0.0
	for i, s := range samples {
		if s.click == 1 {
			ranks, ones = ranks+float64(i+1), ones+1
		}
	}
	return (ranks - ones*(ones+1)/2) / (ones * (float64(rows) - ones))
}

// TestDefaultsLearnAtAnyBatch trains each part of the model with the defaults of each rule, in
// many small steps and in few large ones.
func TestDefaultsLearnAtAnyBatch(t *testing.T) {
	dir := t.TempDir()
	train, test := filepath.Join(dir, "train.csv"), filepath.Join(dir, "test.csv")
	planted(t, train, 1, 30_000)
	best := planted(t, test, 2, 20_000)
	parts, batches := []string{"wide", "deep", "both"}, []int{256, 4096} // short runs alternate between them
	for i, kind := range optim.Kinds() {
		for _, name := range parts[patient.Size(i%3, 0):patient.Size(i%3+1, 3)] {
			part := map[string]string{"wide": "deep: false", "deep": "wide: false", "both": "embedding_dim: 8"}[name]
			for _, batch := range batches[patient.Size(i%2, 0):patient.Size(i%2+1, 2)] {
				t.Run(fmt.Sprint(kind, "/", name, "/", batch), func(t *testing.T) {
					t.Parallel()
					rules := "dense: {kind: " + kind + "}"
					cross := "crosses: [{of: [a, b], buckets: 100000}]"
					if name != "wide" {
						rules += ", deep: {kind: " + kind + "}"
					}
					if name != "deep" {
						rules += ", wide: {kind: " + kind + "}"
					} else {
						cross = ""
					}
					c, err := config.Parse("planted.yaml", fmt.Appendf(nil, `
data: {train: [%q], test: [%q], header: true}
label: {field: click}
features: [{field: a, encode: vocabulary}, {field: b, encode: vocabulary}, {field: c, encode: vocabulary},
  {field: d, encode: vocabulary}, {field: e, encode: vocabulary}]
model: {%s}
train: {epochs: 6, global_batch: %d, seed: 1, optimizer: {%s}}
%s
`, train, test, part, batch, rules, cross))
					fatal.If(t, err)
					res := runJob(t, 1, Options{Config: c})
					if *res.TestAUC < best-0.01 {
						t.Errorf("test AUC %.4f, the best possible %.4f", *res.TestAUC, best)
					}
				})
			}
		}
	}
}

// TestBatchesGrow: a training whose batches grow takes the planned steps. They are the same on
// any number of ranks, in slots, and after a resume.
func TestBatchesGrow(t *testing.T) {
	patient.Long(t)
	path := filepath.Join(t.TempDir(), "train.csv")
	planted(t, path, 1, 12_000)
	c, err := config.Parse("growing.yaml", fmt.Appendf(nil, `
data: {train: [%[1]q], test: [%[1]q], header: true}
label: {field: click}
features: [{field: a, encode: vocabulary}, {field: b, encode: vocabulary}]
model: {hidden: [8]}
train: {epochs: 2, global_batch: 600, checkpoint: {every_steps: 10, keep: 100}}
`, path))
	fatal.If(t, err)
	one := runJob(t, 1, Options{Config: c})
	steps := int64(0) // steps of 256 samples up to 8192 samples, then of 1/32 of the samples before, and the rest of each epoch
	for _, end := range []int64{12_000, 24_000} {
		for at := end - 12_000; at < end; steps++ {
			at += min(max(256, min(at/32, 600)), end-at)
		}
	}
	if one.Steps != steps || one.Rates.Batch != 600 || one.Rates.FirstBatch != 256 {
		t.Errorf("%d steps, want %d; %+v", one.Steps, steps, one.Rates)
	}
	if two := runJob(t, 2, Options{Config: c}); two.Steps != steps || math.Abs(*two.TestAUC-*one.TestAUC) > 0.001 {
		t.Errorf("%d steps on two ranks, want %d; AUC %v and %v", two.Steps, steps, *two.TestAUC, *one.TestAUC)
	}
	for _, at := range []int64{20, 50} { // one in the first epoch, one in the second
		again := runJob(t, 1, Options{Resume: checkpoint.Dir(filepath.Join(one.RunDir, checkpoint.Folder), at)})
		if again.Steps != steps || *again.TestAUC != *one.TestAUC || again.TrainLogLoss != one.TrainLogLoss {
			t.Errorf("resumed after step %d: %+v, uninterrupted %+v", at, again, one)
		}
	}
	slots := []Options{{Config: c, Set: []string{"train.slots=4"}}, {Config: c, Set: []string{"train.slots=4"}}}
	a, b := runJob(t, 1, slots[0]), runJob(t, 4, slots[1])
	if a.Steps != steps || *a.TestLogLoss != *b.TestLogLoss || a.TrainLogLoss != b.TrainLogLoss {
		t.Errorf("in slots: %+v on 1 rank, %+v on 4", a, b)
	}
	whole := runJob(t, 1, Options{Config: c, Set: []string{"train.scaling=none"}})
	if whole.Steps != 40 || whole.Rates.FirstBatch != 600 {
		t.Errorf("%d steps without growing batches, want 40; %+v", whole.Steps, whole.Rates)
	}
}

// TestTheOutputStartsAtTheBaseRate: an untrained model predicts the mean of the label, whichever
// part has the bias.
func TestTheOutputStartsAtTheBaseRate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "train.csv")
	planted(t, path, 3, 4000)
	for _, part := range []string{"deep: false", "hidden: [8]", "wide: false"} {
		c, err := config.Parse("base.yaml", fmt.Appendf(nil, `
data: {train: [%[1]q], test: [%[1]q], header: true}
label: {field: click}
features: [{field: a, encode: vocabulary}]
model: {%[2]s}
train: {epochs: 1, optimizer: {dense: {learning_rate: 1e-12}}}
`, path, part))
		fatal.If(t, err)
		if part == "deep: false" {
			err = config.Set(c, "train.optimizer.wide", "{kind: sgd, learning_rate: 1e-12}")
		}
		fatal.If(t, err)
		res := runJob(t, 1, Options{Config: c})
		if m := res.Test; math.Abs(*m.Calibration-1) > 0.15 || m.BaseRate > 0.4 {
			t.Errorf("%s: the mean prediction is %.3f of the base rate, %.3f", part, *m.Calibration, m.BaseRate)
		}
	}
}
