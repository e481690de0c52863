package optim

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// reference takes one step in float64, written straight from the papers.
func reference(r Rule, step int, w, g, a, b []float64) {
	var mean float64
	for _, x := range g {
		mean += x * x / float64(len(g))
	}
	for i := range w {
		switch r.Kind {
		case "sgd":
			w[i] -= r.LearningRate * g[i]
		case "adagrad":
			a[i] += g[i] * g[i]
			w[i] -= r.LearningRate * g[i] / (math.Sqrt(a[i]) + r.Epsilon)
		case "rowwise_adagrad":
			if i == 0 {
				a[0] += mean
			}
			w[i] -= r.LearningRate * g[i] / (math.Sqrt(a[0]) + r.Epsilon)
		case "adam":
			a[i] = r.Beta1*a[i] + (1-r.Beta1)*g[i]
			b[i] = r.Beta2*b[i] + (1-r.Beta2)*g[i]*g[i]
			m := a[i] / (1 - math.Pow(r.Beta1, float64(step)))
			v := b[i] / (1 - math.Pow(r.Beta2, float64(step)))
			w[i] -= r.LearningRate * m / (math.Sqrt(v) + r.Epsilon)
		case "ftrl":
			sigma := (math.Sqrt(b[i]+g[i]*g[i]) - math.Sqrt(b[i])) / r.LearningRate
			a[i] += g[i] - sigma*w[i]
			b[i] += g[i] * g[i]
			if math.Abs(a[i]) <= r.L1 {
				w[i] = 0
			} else {
				w[i] = -(a[i] - math.Copysign(r.L1, a[i])) / ((r.Beta+math.Sqrt(b[i]))/r.LearningRate + r.L2)
			}
		}
	}
}

func TestRulesFollowTheirPapers(t *testing.T) {
	const n, steps = 9, 50
	for _, kind := range Kinds() {
		r := Rule{Kind: kind, L1: 0.01, L2: 0.001}.Default()
		rng := rand.New(rand.NewPCG(1, 2))
		w, g := make([]float32, n), make([]float32, n)
		state := make([]float32, r.StateLen(n))
		r.InitState(state)
		w64, g64, a, b := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
		for i := range w {
			w[i] = float32(rng.NormFloat64())
			w64[i] = float64(w[i])
			if strings.Contains(kind, "adagrad") {
				a[i] = r.Accumulator
			}
		}
		for step := 1; step <= steps; step++ {
			for i := range g {
				g[i] = float32(rng.NormFloat64())
				g64[i] = float64(g[i])
			}
			u := r.At(int64(step), 1)
			u.Apply(w, g, state)
			reference(r, step, w64, g64, a, b)
		}
		for i := range w {
			if d := math.Abs(float64(w[i]) - w64[i]); d > 1e-4 {
				t.Errorf("%s: parameter %d is %v after %d steps, the reference %v", kind, i, w[i], steps, w64[i])
			}
		}
	}
}

// A rate of 0, which schedules end with, must change nothing and break nothing.
func TestRateOfZero(t *testing.T) {
	for _, kind := range []string{"sgd", "adagrad", "rowwise_adagrad", "adam"} {
		r := Rule{Kind: kind}
		w, s := []float32{1, -2}, make([]float32, r.StateLen(2))
		r.InitState(s)
		u := r.At(3, 0)
		u.Apply(w, []float32{0.5, 3}, s)
		if w[0] != 1 || w[1] != -2 {
			t.Errorf("%s: a step of rate 0 leaves %v", kind, w)
		}
	}
	r := Rule{Kind: "ftrl"}
	w0, w1, s0, s1 := []float32{1}, []float32{1}, make([]float32, 2), make([]float32, 2)
	u0, u1 := r.At(3, 0), r.At(3, 1)
	u0.Apply(w0, []float32{0.5}, s0)
	u1.Apply(w1, []float32{0.5}, s1)
	if w0[0] != w1[0] {
		t.Errorf("ftrl: %v with rate 0, %v with 1; it keeps its alpha", w0, w1)
	}
}

func TestRateMultipliesTheLearningRate(t *testing.T) {
	for _, kind := range Kinds() {
		half, full := Rule{Kind: kind}.Default(), Rule{Kind: kind}.Default()
		if kind != "ftrl" {
			full.LearningRate /= 2
		}
		w1, w2, g := []float32{1, 2}, []float32{1, 2}, []float32{0.5, -3}
		s1, s2 := make([]float32, half.StateLen(2)), make([]float32, half.StateLen(2))
		half.InitState(s1)
		full.InitState(s2)
		u1, u2 := half.At(1, 0.5), full.At(1, 1)
		u1.Apply(w1, g, s1)
		u2.Apply(w2, g, s2)
		if w1[0] != w2[0] || w1[1] != w2[1] {
			t.Errorf("%s: rate ½ gives %v, half the learning rate %v", kind, w1, w2)
		}
	}
}

func TestValidateReportsEveryFault(t *testing.T) {
	r := Rule{Kind: "adamw", LearningRate: -1, Beta1: 1, Beta2: math.NaN(), L1: math.Inf(1)}
	if faults := r.Validate(); len(faults) != 5 {
		t.Fatalf("%d faults, want 5: %v", len(faults), faults)
	}
	for _, kind := range Kinds() {
		if faults := (Rule{Kind: kind}).Default().Validate(); len(faults) != 0 {
			t.Errorf("%s: the default has faults %v", kind, faults)
		}
	}
}

func TestApplyAllocatesNothing(t *testing.T) {
	for _, kind := range Kinds() {
		r := Rule{Kind: kind}
		w, g, s := make([]float32, 8), make([]float32, 8), make([]float32, r.StateLen(8))
		u := r.At(1, 1)
		if n := testing.AllocsPerRun(100, func() { u.Apply(w, g, s) }); n != 0 {
			t.Errorf("%s: %v allocations a step", kind, n)
		}
	}
}
