package step

import (
	"math"
	"math/rand/v2"
	"sort"
	"testing"

	"gonum.org/v1/gonum/integrate"
	"gonum.org/v1/gonum/stat"

	"github.com/wdlrun/wdlrun/collective"
)

// exactAUC is gonum's: the area under the ROC curve by the trapezoidal rule.
func exactAUC(logit, label []float32) float64 {
	at := make([]int, len(logit))
	for i := range at {
		at[i] = i
	}
	sort.Slice(at, func(i, j int) bool { return logit[at[i]] < logit[at[j]] })
	y, class := make([]float64, len(at)), make([]bool, len(at))
	for i, k := range at {
		y[i], class[i] = float64(logit[k]), label[k] > 0.5
	}
	tpr, fpr, _ := stat.ROC(nil, y, class, nil)
	return integrate.Trapezoidal(fpr, tpr)
}

func TestAUCAgreesWithTheExactOne(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	logit, label := make([]float32, 20000), make([]float32, 20000)
	for i := range logit {
		z := rng.NormFloat64()
		logit[i] = float32(z)
		if rng.Float64() < 1/(1+math.Exp(-2*z)) {
			label[i] = 1
		}
	}
	tl := newTally()
	tl.add(logit[:7000], label[:7000], 1)
	tl.add(logit[7000:], label[7000:], 2)
	m, want := tl.metrics(), exactAUC(logit, label)
	if math.Abs(*m.AUC-want) > 2e-5 {
		t.Errorf("AUC %.6f, exact %.6f", *m.AUC, want)
	}
	if m.Samples != 20000 || m.LogLoss != 3.0/20000 {
		t.Errorf("%d samples, log-loss %v", m.Samples, m.LogLoss)
	}
}

func TestAUCOfTiesAndOneClass(t *testing.T) {
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
		{[]float32{float32(math.Inf(-1)), float32(math.Inf(1))}, []float32{0, 1}, "AUC 1.0000"},
	} {
		tl := newTally()
		tl.add(c.logit, c.label, 0)
		if got := tl.metrics().AUCText(); got != c.auc {
			t.Errorf("logits %v labels %v: %s, want %s", c.logit, c.label, got, c.auc)
		}
	}
}

func TestOrderIsMonotonic(t *testing.T) {
	last := -1
	for _, z := range []float32{float32(math.Inf(-1)), -1e30, -2, -1, -1e-30, 0, 1e-30, 1, 2, 1e30, float32(math.Inf(1))} {
		if o := order(z); o < last {
			t.Fatalf("order(%v) = %d falls below %d", z, o, last)
		} else {
			last = o
		}
	}
}

// TestRanksAddTheirTallies: figures of predictions on one rank are those of their parts
// on several, of which one has none and each has logits that no other has.
func TestRanksAddTheirTallies(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	logit, label := make([]float32, 900), make([]float32, 900)
	for i := range logit {
		logit[i] = float32(rng.NormFloat64() * math.Pow(10, float64(i/300)))
		label[i] = float32(rng.IntN(2))
	}
	whole := newTally()
	whole.add(logit, label, 7)
	want := whole.metrics()
	onRanks(t, 4, func(comm *collective.Comm) error {
		tl, r := newTally(), comm.Rank()
		if none, err := tl.reduce(comm); err != nil || none != (Metrics{}) {
			t.Errorf("of nothing: %+v, %v", none, err)
		}
		for range 2 { // the second evaluation knows nothing of the first
			tl.reset()
			if r < 3 {
				tl.add(logit[300*r:300*r+300], label[300*r:300*r+300], float64(1+r))
			}
			got, err := tl.reduce(comm)
			if err != nil {
				return err
			}
			if *got.AUC != *want.AUC || got.Samples != want.Samples || got.Positives != want.Positives || got.Accuracy != want.Accuracy || got.LogLoss != 6.0/900 {
				t.Errorf("rank %d: %+v, AUC %v; on one rank %+v, AUC %v", r, got, *got.AUC, want, *want.AUC)
			}
		}
		return nil
	})
}
