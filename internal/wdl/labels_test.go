package wdl

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/fatal"
	"github.com/wdlrun/wdlrun/internal/patient"
	"github.com/wdlrun/wdlrun/internal/wdl/config"
	"github.com/wdlrun/wdlrun/internal/wdl/report"
	"github.com/wdlrun/wdlrun/optim"
	"github.com/wdlrun/wdlrun/trace"
)

// labelsConfig writes data with several labels and a weight, and returns a configuration for
// it; label is added to the configuration.
func labelsConfig(t *testing.T, label string) *config.Config {
	t.Helper()
	rng, dir := rand.New(rand.NewPCG(5, 6)), t.TempDir()
	path := func(name string, rows int) string {
		var b strings.Builder
		b.WriteString("site,age,w,click,watch,visits\n")
		for range rows {
			site, age := rng.IntN(12), rng.Float64()
			logit := float64(site)/3 - 5 + age
			click := 0
			if rng.Float64() < 1/(1+math.Exp(-logit)) {
				click = 1
			}
			fmt.Fprintf(&b, "s%d,%.3f,%d,%d,%.3f,%d\n", site, age, rng.IntN(3), click, 20+logit+rng.NormFloat64()/4, rng.IntN(site+1))
		}
		file := filepath.Join(dir, name)
		fatal.If(t, os.WriteFile(file, []byte(b.String()), 0o644))
		return file
	}
	c, err := config.Parse("labels.yaml", []byte(fmt.Sprintf(`
data: {train: [%q], test: [%q], header: true}
%s
features: [{field: site, encode: vocabulary}, {field: age, encode: standardise}]
model: {embedding_dim: 4, hidden: [8]}
train: {global_batch: 64, epochs: 4, slots: 4, optimizer: {dense: {kind: adam, learning_rate: 0.01}, deep: {kind: adam, learning_rate: 0.01}}}
`, path("train.csv", 12000), path("test.csv", 4000), label)))
	fatal.If(t, err)
	return c
}

// TestNegativeRateStaysCalibrated: a model trained on a tenth of the negatives predicts the
// base rate of all records.
func TestNegativeRateStaysCalibrated(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	c := labelsConfig(t, "label: {field: click}")
	c.Data.NegativeRate = 0.1
	const seeds = 5 // so few positives make each seed's calibration noisy
	mean := 0.0
	for seed := range seeds {
		c.Train.Seed = uint64(seed)
		r := runJob(t, 2, Options{Config: c})
		if r.Samples > 2*4*12000/10 {
			t.Errorf("%d samples were trained", r.Samples)
		}
		t.Logf("seed %d: %d samples, calibration %.3f", seed, r.Samples, *r.Test.Calibration)
		mean += *r.Test.Calibration / seeds
		if *r.Test.NormalisedEntropy > 0.95 {
			t.Errorf("seed %d: normalised entropy %v", seed, *r.Test.NormalisedEntropy)
		}
	}
	if math.Abs(mean-1) > 0.1 {
		t.Errorf("mean calibration %v", mean)
	}
}

// TestSeveralLabelsTrain: each label is learnt, the results are the same on any number of
// ranks, and an evaluation of the checkpoint repeats them.
func TestSeveralLabelsTrain(t *testing.T) {
	t.Parallel()
	c := labelsConfig(t, "label: {field: click, weight: w}\nlabels: [{field: watch, kind: number, loss_weight: 0.1}, {field: visits, kind: number, loss: poisson, loss_weight: 0.5}]")
	var want report.Result
	for _, size := range []int{1, 2, 4} {
		dir := t.TempDir()
		r := runJob(t, size, Options{Config: c, Out: dir})
		if size == 1 {
			want = r
			for _, l := range r.Test.Labels {
				if *l.RMSE > 0.9**l.BaseRMSE {
					t.Errorf("%s: RMSE %v, that of the mean is %v", l.Label, *l.RMSE, *l.BaseRMSE)
				}
			}
			if *r.Test.NormalisedEntropy > 0.95 || len(r.Test.Labels) != 2 {
				t.Errorf("%+v", r.Test)
			}
		} else if !reflect.DeepEqual(r.Test, want.Test) {
			t.Errorf("%d ranks: %+v, on one %+v", size, r.Test, want.Test)
		}
		err := mem.Run(size, 2, func(comm *collective.Comm) error {
			e, err := NewEvaluation(comm, trace.New(0), EvalOptions{Resume: r.RunDir, Data: c.Data.Test}).Run(context.Background())
			if err == nil && !reflect.DeepEqual(&e.Metrics, r.Test) {
				t.Errorf("%d ranks: evaluated %+v, after training %+v", size, e.Metrics, r.Test)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// TestNumbersStartAtTheirMean: after a few steps at a low rate, a number far from 0 is
// predicted about as well as by its mean, with and without a wide part.
func TestNumbersStartAtTheirMean(t *testing.T) {
	t.Parallel()
	c := labelsConfig(t, "label: {field: visits, kind: number, loss: poisson}\nlabels: [{field: watch, kind: number}, {field: click}]")
	c.Train.Epochs = 1
	for _, rule := range []*optim.Rule{&c.Train.Optimizer.Dense, &c.Train.Optimizer.Deep} {
		*rule = optim.Rule{Kind: "sgd", LearningRate: 1e-9}
	}
	c.Train.Optimizer.Wide = optim.Rule{Kind: "sgd", LearningRate: 1e-9}
	for range 2 {
		m := runJob(t, 2, Options{Config: c}).Test
		for what, loss := range map[string][2]float64{
			"visits": {m.LogLoss, m.BaseLogLoss}, "watch": {m.Labels[0].LogLoss, m.Labels[0].BaseLogLoss}, "click": {m.Labels[1].LogLoss, m.Labels[1].BaseLogLoss},
		} {
			if math.Abs(loss[0]-loss[1]) > 0.2*(1+math.Abs(loss[1])) {
				t.Errorf("%s: loss %v, predicting the mean gives %v", what, loss[0], loss[1])
			}
		}
		c.Model.Wide, c.Train.Optimizer.Wide = new(bool), optim.Rule{}
	}
}

// TestWeightsThatAreAllZero: such a training learns nothing, and its loss is 0.
func TestWeightsThatAreAllZero(t *testing.T) {
	t.Parallel()
	c := labelsConfig(t, "label: {field: click, weight: none}")
	c.Data.Derive = []schema.Derived{schema.NewDerived("none", "0 * age")}
	onRanks(t, 2, func(comm *collective.Comm) error {
		opt := Options{Config: c, Out: t.TempDir(), Warn: func(string) {}}
		if _, err := NewJob(comm, trace.New(0), opt).Run(context.Background()); err == nil || !strings.Contains(err.Error(), "every sample of the epoch has the weight 0, by label.weight: none") {
			t.Errorf("rank %d: %v", comm.Rank(), err)
		}
		return nil
	})
}
