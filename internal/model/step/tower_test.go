package step

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/trace"
)

// withLabels adds weights and two further labels to a configuration.
func withLabels(c *config.Config) {
	c.Label.Weight = "w"
	c.Labels = []schema.Label{{Field: "buy", LossWeight: 0.5}, {Field: "count", Kind: "number", Loss: "poisson"}}
	c.Train.ClassWeight.Positive = 3
}

// labelled adds the weights and labels of withLabels to a batch.
func labelled(b *encode.Batch) *encode.Batch {
	b.Labels = [][]float32{nil, nil}
	for i := range b.Rows {
		id := b.RowID[i]
		b.Weight = append(b.Weight, float32(id%3))
		b.Labels[0], b.Labels[1] = append(b.Labels[0], float32(id%2)), append(b.Labels[1], float32(id%5))
	}
	return b
}

func labelTrainer(t *testing.T, comm *collective.Comm, kind config.Model, more func(*config.Config)) *Trainer {
	c, columns := kindConfig(kind)
	withLabels(c)
	if more != nil {
		more(c)
	}
	tr, err := NewTrainer(comm, trace.New(0), c, layout.New(c, columns, []string{"d0", "d1"}), Tables{})
	fatal.If(t, err)
	return tr
}

// TestGradientsOfSeveralLabels: towers with losses of several kinds, shares and weights.
func TestGradientsOfSeveralLabels(t *testing.T) {
	for _, kind := range kinds {
		if kind.Kind == "masknet" {
			continue // bends within these differences; TestMaskNet compares with smaller ones in float64
		}
		t.Run(fmt.Sprintf("%+v", kind), func(t *testing.T) {
			tr := labelTrainer(t, single(), kind, nil)
			defer tr.Close()
			tr.model.chunk = 4
			tr.model.classes = config.Classes{} // class weights count in training only
			checkGradients(t, tr, labelled(loadParity(t).batch(0, 6)))
		})
	}
}

// TestWeightsCountSamples: a sample of weight n trains like n samples.
func TestWeightsCountSamples(t *testing.T) {
	b := loadParity(t).batch(0, 6)
	weights := []float32{1, 2, 0, 1, 3, 1}
	repeated := &encode.Batch{Sparse: emptyBatch(parityFeatures).Sparse}
	for i, w := range weights {
		for range int(w) {
			one := loadParity(t).batch(i, i+1)
			repeated.Rows++
			repeated.Dense, repeated.Label, repeated.RowID = append(repeated.Dense, one.Dense...), append(repeated.Label, one.Label...), append(repeated.RowID, one.RowID...)
			for f := range one.Sparse {
				j := &repeated.Sparse[f]
				j.Values = append(j.Values, one.Sparse[f].Values...)
				j.Offsets = append(j.Offsets, int32(len(j.Values)))
			}
		}
	}
	b.Weight = weights
	train := func(b *encode.Batch, weight string) (values []float32, out Outcome) {
		c, columns := parityConfig("adagrad")
		c.Label.Weight = weight
		tr, err := NewTrainer(single(), trace.New(0), c, layout.New(c, columns, []string{"d0", "d1"}), Tables{})
		fatal.If(t, err)
		defer tr.Close()
		for n := range int64(5) {
			if out, err = tr.Step(coming(n+1, b, nil)); err != nil {
				t.Fatal(err)
			}
		}
		return slices.Clone(tr.model.arena.Values()), out
	}
	want, plain := train(repeated, "")
	got, weighted := train(b, "w")
	for i := range want {
		if math.Abs(float64(got[i]-want[i])) > 1e-5 {
			t.Fatalf("value %d is %v with weights, %v with samples repeated", i, got[i], want[i])
		}
	}
	if a, b := plain.Mean(), weighted.Mean(); math.Abs(a-b) > 1e-5 {
		t.Errorf("mean loss %v with weights, %v with samples repeated", b, a)
	}
}

// TestWeightsLeaveRatesAlone: the learning rate of rules that use means grows with the number
// of samples of a step, independent of their weights.
func TestWeightsLeaveRatesAlone(t *testing.T) {
	for _, kind := range []string{"sgd", "adam", "adamw"} {
		var want []float32
		for _, weight := range []float32{1, 4096} {
			b := loadParity(t).batch(0, 6)
			b.Weight = slices.Repeat([]float32{weight}, 6)
			c, columns := parityConfig(kind)
			c.Label.Weight, c.Train.Scaling = "w", ""
			tr, err := NewTrainer(single(), trace.New(0), c, layout.New(c, columns, []string{"d0", "d1"}), Tables{})
			fatal.If(t, err)
			defer tr.Close()
			for n := range int64(3) {
				if _, err := tr.Step(coming(n+1, b, nil)); err != nil {
					t.Fatal(err)
				}
			}
			got := tr.model.arena.Values()
			for i := range want {
				if math.Abs(float64(got[i]-want[i])) > 1e-5 {
					t.Fatalf("%s: value %d is %v with weights of %v, %v with weights of 1", kind, i, got[i], weight, want[i])
				}
			}
			want = slices.Clone(got)
		}
	}
}

// TestLabelsOnRanks: with slots, weights and several labels give the same bits and metrics on
// any number of ranks.
func TestLabelsOnRanks(t *testing.T) {
	const slots, rows = 4, 8
	var want []float32
	var metric string
	for _, size := range []int{1, 2, 4} {
		onRanks(t, size, func(comm *collective.Comm) error {
			tr := labelTrainer(t, comm, kinds[0], nil)
			defer tr.Close()
			mine := tr.InSlots(slots)
			for n := range int64(4) {
				var own []*encode.Batch
				for _, s := range mine {
					own = append(own, labelled(repeating(uint64(int(n)*slots+s), rows)))
				}
				if _, err := tr.Step(Input{N: n + 1, Rate: 1, Batches: own}); err != nil {
					return err
				}
			}
			left := rows * slots / size
			m, err := tr.Evaluate(func() (*encode.Batch, error) {
				if left == 0 {
					return nil, nil
				}
				k := uint64(comm.Rank()*rows*slots/size + left)
				b := repeating(k, 1)
				b.RowID[0] = k
				left--
				return labelled(b), nil
			})
			if err != nil || comm.Rank() > 0 {
				return err
			}
			values := slices.Clone(tr.model.arena.Values())
			text := fmt.Sprintf("%v %v %v %v", m.LogLoss, m.Labels[0].LogLoss, *m.Labels[1].RMSE, *m.Labels[1].MAE)
			if size == 1 {
				want, metric = values, text
			} else if !slices.Equal(values, want) || text != metric {
				t.Errorf("%d ranks: other values, or metrics %s in place of %s", size, text, metric)
			}
			return nil
		})
	}
}

// TestLabelsAllocateNothing: a step with weights and towers allocates nothing after the
// first.
func TestLabelsAllocateNothing(t *testing.T) {
	tr := labelTrainer(t, single(), kinds[len(kinds)-1], nil)
	defer tr.Close()
	next := coming(0, labelled(repeating(1, 32)), nil)
	if got := testing.AllocsPerRun(5, func() {
		next.N++
		if _, err := tr.Step(next); err != nil {
			t.Fatal(err)
		}
	}); got != 0 {
		t.Errorf("a step allocates %v times", got)
	}
}

// TestNegativeRateShiftsTraining: the loss uses the odds among the remaining records, 1/rate
// times those among all; an evaluation uses the logit for all records.
func TestNegativeRateShiftsTraining(t *testing.T) {
	c, columns := parityConfig("sgd")
	c.Data.NegativeRate, c.Model.Init = 0.25, config.Init{Kind: "zero"} // an evaluation reads untrained rows as zeros
	tr, err := NewTrainer(single(), trace.New(0), c, layout.New(c, columns, []string{"d0", "d1"}), Tables{})
	fatal.If(t, err)
	defer tr.Close()
	m, b := tr.model, loadParity(t).batch(0, 6)
	logits := func(train bool) []float32 {
		fatal.If(t, m.pull(b, train))
		if _, err := m.compute(b, 1, train); err != nil {
			t.Fatal(err)
		}
		return slices.Clone(m.logit)
	}
	train, eval := logits(true), logits(false)
	for i := range eval {
		if d := float64(train[i] - eval[i]); math.Abs(d-math.Log(4)) > 1e-5 {
			t.Errorf("row %d: the logit is shifted by %v, want %v", i, d, math.Log(4))
		}
	}
}

// TestClassWeightsCountInTrainingAlone: class weights do not affect metrics.
func TestClassWeightsCountInTrainingAlone(t *testing.T) {
	c, columns := parityConfig("sgd")
	c.Train.ClassWeight.Positive = 3
	tr, err := NewTrainer(single(), trace.New(0), c, layout.New(c, columns, []string{"d0", "d1"}), Tables{})
	fatal.If(t, err)
	defer tr.Close()
	m, b := tr.model, loadParity(t).batch(0, 6)
	ones := 0.0
	for _, y := range b.Label {
		ones += float64(y)
	}
	for train, want := range map[bool]float64{true: 6 + 2*ones, false: 6} {
		fatal.If(t, m.pull(b, train))
		if _, err := m.compute(b, 1, train); err != nil {
			t.Fatal(err)
		}
		if ones == 0 || ones == 6 || m.total != want {
			t.Errorf("training %v: 6 samples, %v positive, weigh %v, want %v", train, ones, m.total, want)
		}
	}
}
