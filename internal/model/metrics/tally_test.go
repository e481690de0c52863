package metrics

import (
	"cmp"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"gonum.org/v1/gonum/integrate"
	"gonum.org/v1/gonum/stat"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// samples returns predictions that are better than random, with weights that are multiples of
// 1/8.
func samples(n int, seed uint64) (logit, label, weight []float32) {
	rng := rand.New(rand.NewPCG(seed, 4))
	for range n {
		z, y := rng.NormFloat64()-1, float32(0)
		if rng.Float64() < 1/(1+math.Exp(-2*z)) {
			y = 1
		}
		logit, label, weight = append(logit, float32(z)), append(label, y), append(weight, float32(rng.IntN(40))/8)
	}
	return logit, label, weight
}

// plainMetrics computes the metrics by their definitions in float64.
func plainMetrics(logit, label, weight []float32) (m Metrics) {
	at := make([]int, len(logit))
	for i := range at {
		at[i] = i
	}
	slices.SortFunc(at, func(i, j int) int { return cmp.Compare(logit[i], logit[j]) })
	var y, w []float64
	var class []bool
	var all, positive, loss, right, predicted float64
	for _, i := range at {
		z := float64(logit[i])
		one := label[i] > 0.5
		y, class, w = append(y, z), append(class, one), append(w, float64(weight[i]))
		p := 1 / (1 + math.Exp(-z))
		all += float64(weight[i])
		predicted += float64(weight[i]) * p
		if one {
			positive += float64(weight[i])
			loss -= float64(weight[i]) * math.Log(p)
			m.Positives++
		} else {
			loss -= float64(weight[i]) * math.Log(1-p)
		}
		if one == (p > 0.5) {
			right += float64(weight[i])
		}
	}
	tpr, fpr, _ := stat.ROC(nil, y, class, w)
	auc := integrate.Trapezoidal(fpr, tpr)
	var found, passed, area float64
	for i := len(y) - 1; i >= 0; i-- {
		if passed += w[i]; class[i] {
			found += w[i]
			area += w[i] / positive * found / passed
		}
	}
	rate := positive / all
	base := -rate*math.Log(rate) - (1-rate)*math.Log(1-rate)
	m.Samples, m.AUC, m.PRAUC = int64(len(logit)), &auc, &area
	m.LogLoss, m.Accuracy, m.BaseRate, m.BaseLogLoss = loss/all, right/all, rate, base
	entropy, calibration := m.LogLoss/base, predicted/positive
	m.NormalisedEntropy, m.Calibration = &entropy, &calibration
	return m
}

// flat returns the numbers of m; NaN for null.
func flat(m Metrics) (x []float64) {
	x = append(x, float64(m.Samples), float64(m.Positives), m.LogLoss, m.Accuracy, m.BaseRate, m.BaseLogLoss)
	for _, p := range []*float64{m.AUC, m.PRAUC, m.NormalisedEntropy, m.Calibration} {
		if p == nil {
			x = append(x, math.NaN())
		} else {
			x = append(x, *p)
		}
	}
	return x
}

func TestMetricsAgreeWithTheirDefinitions(t *testing.T) {
	logit, label, weight := samples(20000, 3)
	ones := slices.Repeat([]float32{1}, len(logit))
	for _, c := range []struct {
		name          string
		given, meant  []float32
		first, second []float32
	}{
		{"unweighted", nil, ones, nil, nil},
		{"weighted", weight, weight, weight[:7000], weight[7000:]},
	} {
		tl := NewTally()
		tl.Add(logit[:7000], label[:7000], c.first)
		tl.Add(logit[7000:], label[7000:], c.second)
		got, want := flat(tl.metrics()), flat(plainMetrics(logit, label, c.meant))
		for i := range want {
			if tolerance := []float64{0, 0, 1e-12, 1e-12, 1e-12, 1e-12, 1e-12, 1e-12, 1e-12, 1e-12}[i]; math.Abs(got[i]-want[i]) > tolerance {
				t.Errorf("%s: %v, by definition %v", c.name, got, want)
				break
			}
		}
	}
}

// TestWeightsRepeatSamples: a sample of weight 3 counts as three.
func TestWeightsRepeatSamples(t *testing.T) {
	logit, label, weight := samples(500, 8)
	var z, y []float32
	for i := range weight {
		weight[i] = float32(math.Ceil(float64(weight[i])))
		for range int(weight[i]) {
			z, y = append(z, logit[i]), append(y, label[i])
		}
	}
	weighted, repeated := NewTally(), NewTally()
	weighted.Add(logit, label, weight)
	repeated.Add(z, y, nil)
	got, want := flat(weighted.metrics()), flat(repeated.metrics())
	for i := 2; i < len(want); i++ {
		if math.Abs(got[i]-want[i]) > 1e-12 {
			t.Fatalf("weighted %v, repeated %v", got, want)
		}
	}
}

func TestAUCOfTiesAndOneClass(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		logit, label []float32
		auc          string
	}{
		{[]float32{1, 1, 1, 1}, []float32{0, 1, 0, 1}, "AUC 0.5000"},
		{[]float32{-1, 1}, []float32{0, 1}, "AUC 1.0000"},
		{[]float32{1, -1}, []float32{0, 1}, "AUC 0.0000"},
		{[]float32{1, 2}, []float32{1, 1}, "AUC undefined (no negative samples)"},
		{[]float32{1, 2}, []float32{0, 0}, "AUC undefined (no positive samples)"},
		{nil, nil, "AUC undefined (no positive samples)"},
		{[]float32{-inf, inf}, []float32{0, 1}, "AUC 1.0000"},
	} {
		tl := NewTally()
		tl.Add(c.logit, c.label, nil)
		m := tl.metrics()
		if got := m.AUCText(); got != c.auc {
			t.Errorf("logits %v labels %v: %s, want %s", c.logit, c.label, got, c.auc)
		}
		if (m.AUC == nil) != (m.PRAUC == nil || m.Calibration == nil || m.NormalisedEntropy == nil) || m.Base() == "" {
			t.Errorf("logits %v labels %v: %+v", c.logit, c.label, m)
		}
	}
}

func TestOrderIsMonotonic(t *testing.T) {
	last := uint32(0)
	for _, z := range []float32{float32(math.Inf(-1)), -1e30, -2, -1, -1e-30, 0, 1e-30, 1, 2, 1e30, float32(math.Inf(1))} {
		if o := ordered(z); o < last {
			t.Fatalf("ordered(%v) = %d falls below %d", z, o, last)
		} else {
			last = o
		}
	}
}

// TestRanksAddTheirTallies: the metrics of predictions on one rank have the bits of those of
// their parts on several ranks. One rank has no predictions, and each other has logits that
// no other rank has.
func TestRanksAddTheirTallies(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	logit, label, weight := make([]float32, 900), make([]float32, 900), make([]float32, 900)
	for i := range logit {
		logit[i] = float32(rng.NormFloat64() * math.Pow(10, float64(i/300)))
		label[i], weight[i] = float32(rng.IntN(2)), rng.Float32()
	}
	whole := NewTally()
	whole.Add(logit, label, weight)
	want, more := whole.metrics(), NewTally()
	more.Add(logit, label, weight)
	more.Add(logit[:1], label[:1], weight[:1])
	more.metrics() // sorts, so that ranks only read
	err := mem.Run(4, 2, func(comm *collective.Comm) error {
		tl, r := NewTally(), comm.Rank()
		if none, err := tl.Reduce(comm); err != nil || !reflect.DeepEqual(none, Metrics{}) {
			t.Errorf("of nothing: %+v, %v", none, err)
		}
		for range 2 { // the second evaluation is independent of the first
			tl.Reset()
			if from := 300 * r; r < 3 {
				tl.Add(logit[from:][:300], label[from:][:300], weight[from:][:300])
			}
			got, err := tl.Reduce(comm)
			if err != nil {
				return err
			}
			if !reflect.DeepEqual(flat(got), flat(want)) {
				t.Errorf("rank %d: %v; on one rank %v", r, flat(got), flat(want))
			}
			if tl.Add(logit[:1], label[:1], weight[:1]); !reflect.DeepEqual(flat(tl.Local()), flat(more.metrics())) {
				t.Errorf("rank %d after one more sample: %v; on one rank %v", r, flat(tl.Local()), flat(more.metrics()))
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestWarning: each warning names the samples and contains advice.
func TestWarning(t *testing.T) {
	for _, c := range []struct {
		logit, label []float32
		want         string
	}{
		{[]float32{-1, 1}, []float32{0, 1}, ""}, // by chance
		{slices.Concat(slices.Repeat([]float32{-1}, 49), slices.Repeat([]float32{1}, 80)), slices.Concat(make([]float32, 49), slices.Repeat([]float32{1}, 80)), ""},
		{slices.Concat(slices.Repeat([]float32{-1}, 50), slices.Repeat([]float32{1}, 50)), slices.Concat(make([]float32, 50), slices.Repeat([]float32{1}, 50)), "the AUC of x is 1.0000: some feature probably contains the label; wdlrun data stats shows how much each column reveals about it"},
		{[]float32{-1, -1, 1, -.5}, []float32{0, 1, 1, 0}, ""},
		{[]float32{9, 9, 9, -9}, []float32{0, 1, 1, 0}, "the log-loss of x, 2.2501, is worse than 0.6931, which predicting the base rate 0.5000 for every sample gives: " +
			"the mean prediction is 1.50 times the base rate, so check that labels and base rate match the training data; if they do, lower train.optimizer.*.learning_rate"},
		{[]float32{9, -9}, []float32{0, 1}, "the log-loss of x, 9.0001, is worse than 0.6931, which predicting the base rate 0.5000 for every sample gives: " +
			"its ranking is worse than chance, so compare the labels and columns with the training data"},
		{[]float32{9, 9}, []float32{1, 1}, ""},
		{[]float32{.01, -.01}, []float32{0, 1}, ""}, // as good as the base rate of other data
	} {
		tl := NewTally()
		tl.Add(c.logit, c.label, nil)
		if got := tl.metrics().Warning("x"); got != c.want {
			t.Errorf("logits %v labels %v:\n%s, want\n%s", c.logit, c.label, got, c.want)
		}
	}
}

// rare returns predictions of rare events: all logits are near −7, within spread.
func rare(n int, spread float64) (logit, label []float32) {
	rng := rand.New(rand.NewPCG(7, 7))
	for range n {
		x, y := rng.NormFloat64(), float32(0)
		if rng.Float64() < math.Exp(2*x-8) {
			y = 1
		}
		logit, label = append(logit, float32(-7+spread*x)), append(label, y)
	}
	return logit, label
}

// sortedAreas computes the AUC and the average precision of the sorted samples.
func sortedAreas(logit, label []float32) (auc, pr float64) {
	at := make([]int, len(logit))
	positives := 0.0
	for i := range at {
		at[i] = i
		positives += float64(label[i])
	}
	slices.SortFunc(at, func(i, j int) int { return cmp.Compare(logit[j], logit[i]) })
	var found, passed float64
	for len(at) > 0 {
		n, ones := 0, 0.0
		for ; n < len(at) && logit[at[n]] == logit[at[0]]; n++ {
			ones += float64(label[at[n]])
		}
		zeros := float64(n) - ones
		auc += zeros * (found + ones/2)
		found, passed = found+ones, passed+float64(n)
		pr += ones * found / passed
		at = at[n:]
	}
	return auc / positives / (float64(len(logit)) - positives), pr / positives
}

// TestRareEventsKeepTheirDigits compares AUC and PR-AUC with the values from sorted samples, and each
// number of ranks with one. With at most maxBins distinct logits, they agree exactly.
func TestRareEventsKeepTheirDigits(t *testing.T) {
	for _, c := range []struct {
		n                 int
		spread, tolerance float64
	}{
		{100_000, 0.3, 1e-12}, // a distinct logit in almost every sample
		{150_000, 0.001, 1e-12},
		{200_000, 0.3, 5e-6},
		{200_000, 3, 5e-6},
	} {
		logit, label := rare(c.n, c.spread)
		auc, pr := sortedAreas(logit, label)
		var first Metrics
		for _, size := range []int{1, 3, 4} {
			fatal.If(t, mem.Run(size, 2, func(comm *collective.Comm) error {
				tl := NewTally()
				from := [2]int{c.n * comm.Rank() * comm.Rank() / size / size, c.n * (comm.Rank() + 1) * (comm.Rank() + 1) / size / size}
				tl.Add(logit[from[0]:from[1]], label[from[0]:from[1]], nil)
				m, err := tl.Reduce(comm)
				if size == 1 {
					first = m
				}
				if !reflect.DeepEqual(m, first) {
					t.Errorf("%d samples within %g, %d ranks: %v; on one %v", c.n, c.spread, size, flat(m), flat(first))
				}
				return err
			}))
		}
		t.Logf("%d samples within %g: AUC %.9f %.9f, PR-AUC %.9f %.9f", c.n, c.spread, *first.AUC, auc, *first.PRAUC, pr)
		if math.Abs(*first.AUC-auc) > c.tolerance || math.Abs(*first.PRAUC-pr) > c.tolerance {
			t.Errorf("%d samples within %g: AUC %v, of the sorted samples %v; PR-AUC %v, %v", c.n, c.spread, *first.AUC, auc, *first.PRAUC, pr)
		}
	}
}

// BenchmarkReduce sums the predictions of two ranks. Run it with -cpu 1.
func BenchmarkReduce(b *testing.B) {
	logit, label := rare(1<<17, 2)
	err := mem.Run(2, 2, func(c *collective.Comm) error {
		from, tl := c.Rank()<<16, NewTally()
		for i := 0; i < b.N; i++ {
			tl.Reset()
			tl.Add(logit[from:from+1<<16], label[from:from+1<<16], nil)
			if _, err := tl.Reduce(c); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

func BenchmarkTally(b *testing.B) {
	logit, label := rare(1<<20, 2)
	tl := NewTally()
	for b.Loop() {
		tl.Reset()
		tl.Add(logit, label, nil)
		tl.Local()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(1<<20), "ns/sample")
}
