package metrics

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// onRanks runs a function on each of several ranks, with its share of n samples.
func onRanks[R any](t *testing.T, ranks, n int, f func(c *collective.Comm, mine func(i int) bool) (R, error)) []R {
	t.Helper()
	all := make([]R, ranks)
	fatal.If(t, mem.Run(ranks, 1, func(c *collective.Comm) (err error) {
		all[c.Rank()], err = f(c, func(i int) bool { return i%ranks == c.Rank() })
		return err
	}))
	return all
}

// rates returns the share of the samples of a class whose prediction is at least a threshold.
func rates(logit, label, weight []float32) func(threshold, class float32) float64 {
	return func(threshold, class float32) float64 {
		var above, all float64
		for i := range logit {
			if (label[i] > 0.5) == (class > 0.5) {
				all += float64(weight[i])
				if logit[i] >= threshold {
					above += float64(weight[i])
				}
			}
		}
		return above / all
	}
}

// TestQualityIsThatOfTheDefinitions compares curves, bins and ECE with their definitions over
// all samples. They have the same bits on any number of ranks.
func TestQualityIsThatOfTheDefinitions(t *testing.T) {
	const n = 1000
	logit, label, weight := samples(n, 3)
	var first Quality
	for _, ranks := range []int{1, 3} {
		for _, q := range onRanks(t, ranks, n, func(c *collective.Comm, mine func(int) bool) (Quality, error) {
			tally := NewTally()
			for i := range n {
				if mine(i) {
					tally.Add(logit[i:i+1], label[i:i+1], weight[i:i+1])
				}
			}
			if _, err := tally.Reduce(c); err != nil {
				return Quality{}, err
			}
			return tally.Quality(), nil
		}) {
			if first.ROC == nil {
				first = q
			}
			if !reflect.DeepEqual(q, first) {
				t.Fatalf("%d ranks: other bits", ranks)
			}
		}
	}
	rate := rates(logit, label, weight)
	sorted := slices.Clone(logit)
	slices.Sort(sorted)
	for _, p := range first.ROC[1:] { // some threshold has both rates
		best := math.Inf(1)
		for k := 0; k < len(sorted); k += 2 {
			best = min(best, math.Abs(rate(sorted[k], 0)-p.X)+math.Abs(rate(sorted[k], 1)-p.Y))
		}
		if best > 0.02 {
			t.Fatalf("no threshold has %+v", p)
		}
	}
	area := 0.0
	for i := 1; i < len(first.ROC); i++ {
		a, b := first.ROC[i-1], first.ROC[i]
		area += (b.X - a.X) * (a.Y + b.Y) / 2
	}
	tally := NewTally()
	tally.Add(logit, label, weight)
	auc := *tally.metrics().AUC
	if math.Abs(area-auc) > 0.003 {
		t.Errorf("the area under the curve is %.4f, the AUC %.4f", area, auc)
	}
	if i := first.Intervals[0]; i.Metric != "auc" || !(i.Low < auc && auc < i.High) || i.High-i.Low > 0.15 {
		t.Errorf("%+v around %.4f", i, auc)
	}
	checkBins(t, first, weight)
	one := NewTally()
	one.Add(logit[:5], make([]float32, 5), nil)
	if q := one.Quality(); len(q.ROC) > 0 || q.ECE != nil {
		t.Errorf("of one class: %+v", q)
	}
}

// TestMergedBins: no weight and no prediction is lost, few bins remain, and the AUC within
// them is nearly that of all.
func TestMergedBins(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	tally := NewTally()
	for range 20_000 {
		z, y := float32(rng.NormFloat64()), float32(0)
		if rng.Float64() < Probability(float64(2*z)) {
			y = 1
		}
		tally.Add([]float32{z}, []float32{y}, nil)
	}
	all := tally.bins()
	auc := func(bins []ofBin) (auc, weight, predicted float64) {
		var below, positives, pairs float64
		for _, b := range bins {
			n, p := float64(b.class[0]), float64(b.class[1])
			pairs += p * (below + n/2)
			below, positives = below+n, positives+p
			weight, predicted = weight+n+p, predicted+(n+p)*b.prediction
		}
		return pairs / (below * positives), weight, predicted
	}
	some := merged(all, 20_000*One/bootBins)
	a, weight, predicted := auc(all)
	b, sameWeight, samePredicted := auc(some)
	if len(some) > bootBins || len(some) < bootBins/2 || len(all) < 2*len(some) {
		t.Errorf("%d bins of %d", len(some), len(all))
	}
	if weight != sameWeight || math.Abs(predicted/samePredicted-1) > 1e-12 || math.Abs(a-b) > 1e-5 {
		t.Errorf("AUC %v, weight %v, predictions %v; merged %v, %v, %v", a, weight, predicted, b, sameWeight, samePredicted)
	}
}

// checkBins compares the bins with the weight of all samples, and ECE with the bins.
func checkBins(t *testing.T, first Quality, weight []float32) {
	t.Helper()
	var ece, all, weights float64
	for _, b := range first.Bins {
		ece += b.Weight * math.Abs(b.Prediction-b.Rate)
		weights += b.Weight
	}
	for _, w := range weight {
		all += float64(w)
	}
	if len(first.Bins) != binCount || math.Abs(weights-all) > 0.01 || math.Abs(ece/all-*first.ECE) > 1e-9 {
		t.Errorf("%d bins of weight %.3f, of %.3f; ECE %.5f, stated %.5f", len(first.Bins), weights, all, ece/all, *first.ECE)
	}
}

// TestSlices: a slice has the metrics of its samples, the same on any number of ranks.
func TestSlices(t *testing.T) {
	const n, values = 3000, 30
	logit, label, weight := samples(n, 4)
	key := func(i int) uint64 { return uint64(i*i%values) * 0x9E3779B97F4A7C15 }
	var first SliceList
	for _, ranks := range []int{1, 2, 5} {
		for _, s := range onRanks(t, ranks, n, func(c *collective.Comm, mine func(int) bool) (SliceList, error) {
			g := NewGroups(n)
			for i := range n {
				if i%7 == 0 && mine(i) {
					g.Miss()
				} else if mine(i) {
					g.Add(key(i), logit[i], label[i], weight[i])
				}
			}
			return g.Slices(c)
		}) {
			if first.Top == nil {
				first = s
			}
			if !reflect.DeepEqual(s, first) {
				t.Fatalf("%d ranks: other bits\n%+v\n%+v", ranks, s, first)
			}
		}
	}
	counted := first.Rest.Samples + first.Missing
	for k, s := range first.Top {
		counted += s.Samples
		tally := NewTally()
		samples := int64(0)
		for i := range n {
			if i%7 != 0 && key(i) == s.Key {
				tally.Add(logit[i:i+1], label[i:i+1], weight[i:i+1])
				samples++
			}
		}
		m := tally.metrics()
		if s.Samples != samples || s.Positives != m.Positives || math.Abs(s.LogLoss-m.LogLoss) > 1e-9 || math.Abs(*s.Calibration-*m.Calibration) > 1e-9 || math.Abs(*s.AUC-*m.AUC) > 0.002 {
			t.Errorf("slice %d: %+v, want %+v", k, s, m)
		}
		if k > 0 && s.Samples > first.Top[k-1].Samples {
			t.Error("they are not by size")
		}
	}
	if counted != n {
		t.Errorf("%d samples are counted, of %d", counted, n)
	}
}
