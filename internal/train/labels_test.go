package train

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
	"github.com/wdlrun/wdlrun/internal/train/traintest"
	"github.com/wdlrun/wdlrun/optim"
	"github.com/wdlrun/wdlrun/trace"
)

// TestNegativeRateStaysCalibrated: a model trained on a tenth of the negatives predicts the
// base rate of all records.
func TestNegativeRateStaysCalibrated(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	c := traintest.LabelsConfig(t, "label: {field: click}")
	c.Data.NegativeRate = 0.1
	const seeds = 5 // with so few positives, the calibration of one seed is noisy
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

// TestNumbersStartAtTheirMean: after a few steps at a low rate, a number far from 0 is predicted
// about as well as by its mean, with and without a wide part.
func TestNumbersStartAtTheirMean(t *testing.T) {
	t.Parallel()
	c := traintest.LabelsConfig(t, "label: {field: visits, kind: number, loss: poisson}\nlabels: [{field: watch, kind: number}, {field: click}]")
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

// TestWeightsThatAreAllZero: a training whose weights are all 0 learns nothing, and its loss is
// 0.
func TestWeightsThatAreAllZero(t *testing.T) {
	t.Parallel()
	c := traintest.LabelsConfig(t, "label: {field: click, weight: none}")
	c.Data.Derive = []schema.Derived{schema.NewDerived("none", "0 * age")}
	traintest.OnRanks(t, 2, func(comm *collective.Comm) error {
		opt := Options{Config: c, Out: t.TempDir(), Warn: func(string) {}}
		if _, err := NewJob(comm, trace.New(0), opt).Run(context.Background()); err == nil || !strings.Contains(err.Error(), "every sample of the epoch has the weight 0, by label.weight: none") {
			t.Errorf("rank %d: %v", comm.Rank(), err)
		}
		return nil
	})
}

// TestTrainingLossCountsWeights: the training loss of a model that learns next to nothing is its loss
// on the same file, although the weights of batches differ.
func TestTrainingLossCountsWeights(t *testing.T) {
	t.Parallel()
	c := traintest.LabelsConfig(t, "label: {field: click, weight: heavy}")
	c.Data.Derive = []schema.Derived{schema.NewDerived("heavy", "if(click > 0.5, 2, 0.01)")}
	c.Data.Test = c.Data.Train
	c.Train.Epochs, c.Train.GlobalBatch = 1, 16
	still := optim.Rule{Kind: "sgd", LearningRate: 1e-9}
	c.Train.Optimizer.Dense, c.Train.Optimizer.Deep, c.Train.Optimizer.Wide = still, still, still
	for _, slots := range []int{0, 4} {
		c.Train.Slots = slots
		for ranks := 1; ranks <= 2; ranks++ {
			r := runJob(t, ranks, Options{Config: c, Warn: func(string) {}})
			if math.Abs(r.TrainLogLoss-r.Test.LogLoss) > 1e-5 {
				t.Errorf("%d slots, %d ranks: training loss %v, loss on the same file %v", slots, ranks, r.TrainLogLoss, r.Test.LogLoss)
			}
		}
	}
}

// TestPartialLabel: samples without a further label have no loss for it and do not occur in its
// metrics.
func TestPartialLabel(t *testing.T) {
	t.Parallel()
	c := traintest.LabelsConfig(t, "label: {field: click}")
	c.Data.Where = "age > 0.6"
	c.Train.Epochs = 1
	some := runJob(t, 1, Options{Config: c}).Test
	c = traintest.LabelsConfig(t, "label: {field: click}\nlabels: [{field: late}]")
	c.Data.Derive = []schema.Derived{schema.NewDerived("late", "if(age > 0.6, click, 1 / 0)")}
	c.Train.Epochs = 1
	var warned []string
	all := runJob(t, 2, Options{Config: c, Warn: func(line string) { warned = append(warned, line) }}).Test
	if late := all.Labels[0]; all.Samples <= some.Samples || late.Samples != some.Samples || late.Positives != some.Positives || late.BaseLogLoss != some.BaseLogLoss || *late.NormalisedEntropy > 1.05 {
		t.Errorf("of %d samples, %d have the label: %+v", all.Samples, some.Samples, late)
	}
	if !strings.Contains(strings.Join(warned, "\n"), "label late is missing in ") {
		t.Errorf("warned: %q", warned)
	}
}
