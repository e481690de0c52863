package optim

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// reference performs one step in float64, written directly from the papers.
func reference(r Rule, step, samples int, w, g, a, b []float64) {
	for i := range g { // the mean gradient over the samples of the step
		if r.Sums() {
			g[i] *= float64(samples)
		}
	}
	rate := r.LearningRate
	if !r.Sums() && samples > ReferenceBatch {
		rate *= math.Sqrt(float64(samples) / ReferenceBatch)
	}
	var mean float64
	for _, x := range g {
		mean += x * x / float64(len(g))
	}
	for i := range w {
		switch r.Kind {
		case "sgd":
			w[i] -= rate * g[i]
		case "adagrad":
			a[i] += g[i] * g[i]
			w[i] -= r.LearningRate * g[i] / (math.Sqrt(a[i]) + r.Epsilon)
		case "rowwise_adagrad":
			if i == 0 {
				a[0] += mean
			}
			w[i] -= r.LearningRate * g[i] / (math.Sqrt(a[0]) + r.Epsilon)
		case "adam", "adamw":
			a[i] = r.Beta1*a[i] + (1-r.Beta1)*g[i]
			b[i] = r.Beta2*b[i] + (1-r.Beta2)*g[i]*g[i]
			m := a[i] / (1 - math.Pow(r.Beta1, float64(step)))
			v := b[i] / (1 - math.Pow(r.Beta2, float64(step)))
			if r.Kind == "adamw" {
				w[i] -= rate * *r.WeightDecay * w[i]
			}
			w[i] -= rate * m / (math.Sqrt(v) + r.Epsilon)
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

// TestRulesFollowTheirPapers compares the steps of every rule with the formula of its paper in
// float64.
func TestRulesFollowTheirPapers(t *testing.T) {
	const n, steps = 9, 50
	for i, kind := range append(Kinds(), Kinds()...) {
		samples := []int{0, 1000}[i/len(Kinds())]
		decay := 0.1
		r := Rule{Kind: kind, L1: 0.01, L2: 0.001, WeightDecay: &decay}.Default()
		if samples > 0 {
			r.L1 *= float64(samples) // L1 is in units of one sample
		}
		rng := rand.New(rand.NewPCG(1, 2))
		w, g := make([]float32, n), make([]float32, n)
		state := make([]float32, r.StateLen(n))
		w64, g64, a, b := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
		for i := range w {
			w[i] = float32(rng.NormFloat64())
			w64[i] = float64(w[i])
			if strings.Contains(kind, "adagrad") {
				a[i] = *r.Accumulator
			}
			if kind == "ftrl" { // the z that gives w if n is 0
				a[i] = -w64[i]*(r.Beta/r.LearningRate+r.L2) - math.Copysign(r.L1, w64[i])
			}
		}
		r.InitState(w, state)
		for step := 1; step <= steps; step++ {
			for i := range g {
				g[i] = float32(rng.NormFloat64())
				g64[i] = float64(g[i])
			}
			u := r.At(Step{N: int64(step), Rate: 1, Samples: float64(samples), Batch: uint32(samples)})
			u.Apply(0, w, g, state)
			reference(r, step, max(samples, 1), w64, g64, a, b)
		}
		for i := range w {
			if d := math.Abs(float64(w[i]) - w64[i]); d > 1e-4 {
				t.Errorf("%s, %d samples: parameter %d is %v after %d steps, the reference %v", kind, samples, i, w[i], steps, w64[i])
			}
		}
	}
}

// TestZeroRate: a step with ZeroRate, the end of schedules, changes nothing.
func TestZeroRate(t *testing.T) {
	for _, kind := range []string{"sgd", "adagrad", "rowwise_adagrad", "adam", "adamw"} {
		r := Rule{Kind: kind}
		w, s := []float32{1, -2}, make([]float32, r.StateLen(2))
		r.InitState(w, s)
		u := r.At(Step{N: 3, Rate: ZeroRate})
		u.Apply(0, w, []float32{0.5, 3}, s)
		if w[0] != 1 || w[1] != -2 {
			t.Errorf("%s: a step of ZeroRate leaves %v", kind, w)
		}
	}
	r := Rule{Kind: "ftrl"}
	w0, w1, s0, s1 := []float32{1}, []float32{1}, make([]float32, 2), make([]float32, 2)
	u0, u1 := r.At(Step{N: 3, Rate: ZeroRate}), r.At(Step{N: 3, Rate: 1})
	u0.Apply(0, w0, []float32{0.5}, s0)
	u1.Apply(0, w1, []float32{0.5}, s1)
	if w0[0] != w1[0] {
		t.Errorf("ftrl: %v with ZeroRate, %v with 1; want the same, because alpha does not change", w0, w1)
	}
}

// TestFactorsOfZeroAreOne: a factor that is 0 in a Step, because the caller omits it, counts as
// 1.
func TestFactorsOfZeroAreOne(t *testing.T) {
	for _, kind := range Kinds() {
		r := Rule{Kind: kind}
		train := func(at Step) []float32 {
			w, s := []float32{1, -2}, make([]float32, r.StateLen(2))
			r.InitState(w, s)
			u := r.At(at)
			u.Apply(0, w, []float32{0.5, 3}, s)
			return w
		}
		left, full := train(Step{N: 1}), train(Step{N: 1, Rate: 1, Scale: 1, Clip: 1})
		if !slices.Equal(left, full) || left[0] == 1 {
			t.Errorf("%s: %v without factors, %v with factors of 1", kind, left, full)
		}
		if half, scaled := train(Step{N: 1, Clip: 0.5}), train(Step{N: 1, Scale: 0.5}); !slices.Equal(half, scaled) {
			t.Errorf("%s: %v with a clip of 0.5, %v with a scale of 0.5", kind, half, scaled)
		}
	}
}

// TestRateMultipliesTheLearningRate: the rate of a Step multiplies the learning rate of the
// rule.
func TestRateMultipliesTheLearningRate(t *testing.T) {
	for _, kind := range Kinds() {
		half, full := Rule{Kind: kind}.Default(), Rule{Kind: kind}.Default()
		if kind != "ftrl" {
			full.LearningRate /= 2
		}
		w1, w2, g := []float32{1, 2}, []float32{1, 2}, []float32{0.5, -3}
		s1, s2 := make([]float32, half.StateLen(2)), make([]float32, half.StateLen(2))
		half.InitState(w1, s1)
		full.InitState(w2, s2)
		u1, u2 := half.At(Step{N: 1, Rate: 0.5}), full.At(Step{N: 1, Rate: 1})
		u1.Apply(0, w1, g, s1)
		u2.Apply(0, w2, g, s2)
		if w1[0] != w2[0] || w1[1] != w2[1] {
			t.Errorf("%s: rate ½ gives %v, half the learning rate %v", kind, w1, w2)
		}
	}
}

// TestValidateReportsEveryFault: Validate reports all faults at once, and the defaults have
// none.
func TestValidateReportsEveryFault(t *testing.T) {
	r := Rule{Kind: "lion", LearningRate: -1, Beta1: 1, Beta2: math.NaN(), L1: math.Inf(1)}
	if faults := r.Validate(); len(faults) != 5 {
		t.Fatalf("%d faults, want 5: %v", len(faults), faults)
	}
	for _, kind := range Kinds() {
		if faults := (Rule{Kind: kind}).Default().Validate(); len(faults) != 0 {
			t.Errorf("%s: the default has faults %v", kind, faults)
		}
	}
}

// TestApplyAllocatesNothing: Apply allocates no memory.
func TestApplyAllocatesNothing(t *testing.T) {
	for _, kind := range Kinds() {
		r := Rule{Kind: kind}
		w, g, s := make([]float32, 8), make([]float32, 8), make([]float32, r.StateLen(8))
		u := r.At(Step{N: 1, Rate: 1})
		if n := testing.AllocsPerRun(100, func() { u.Apply(0, w, g, s) }); n != 0 {
			t.Errorf("%s: %v allocations per step", kind, n)
		}
	}
}

// TestSumsDoNotDependOnTheBatch: a rule that sums performs the steps of its paper for any batch
// size: the mean gradient of many samples has the effect of their sum.
func TestSumsDoNotDependOnTheBatch(t *testing.T) {
	for _, kind := range []string{"adagrad", "rowwise_adagrad", "ftrl"} {
		r := Rule{Kind: kind, L1: 0.5}
		one, many := []float32{0.5}, []float32{0.5}
		s1, s2 := make([]float32, r.StateLen(1)), make([]float32, r.StateLen(1))
		r.InitState(one, s1)
		r.InitState(many, s2)
		for n := int64(1); n <= 3; n++ {
			u1, u2 := r.At(Step{N: n, Rate: 1}), r.At(Step{N: n, Rate: 1, Samples: 4096})
			u1.Apply(0, one, []float32{0.75}, s1)
			u2.Apply(0, many, []float32{0.75 / 4096}, s2)
		}
		if one[0] != many[0] || one[0] == 0.5 {
			t.Errorf("%s: the row of a key with one sample becomes %v in a batch of 1, and %v in a batch of 4096", kind, one, many)
		}
	}
}

// TestRatesGrowWithTheRootOfTheBatch compares the rate for a number of samples with the
// documented one.
func TestRatesGrowWithTheRootOfTheBatch(t *testing.T) {
	for _, x := range []struct {
		kind    string
		samples float64
		factor  float64
	}{{"adam", 0, 1}, {"adam", 64, 1}, {"adam", 256, 1}, {"adamw", 1024, 2}, {"sgd", 16384, 8}, {"ftrl", 16384, 1}, {"adagrad", 4096, 1}} {
		r := Rule{Kind: x.kind, LearningRate: 0.5}
		if got := r.RateOf(x.samples); got != 0.5*x.factor {
			t.Errorf("%s: the rate of %v samples is %v, want %v", x.kind, x.samples, got, 0.5*x.factor)
		}
	}
}

// TestAnAccumulatorMayStartAtZero: zero is a valid initial accumulator, as in PyTorch and DLRM.
func TestAnAccumulatorMayStartAtZero(t *testing.T) {
	zero := 0.0
	r := Rule{Kind: "adagrad", LearningRate: 0.1, Accumulator: &zero}.Default()
	w, s := []float32{0}, make([]float32, 1)
	r.InitState(w, s)
	u := r.At(Step{N: 1, Rate: 1})
	u.Apply(0, w, []float32{1e-3}, s)
	if math.Abs(float64(w[0])+0.1) > 1e-6 {
		t.Errorf("the first step from an accumulator of 0 is %v, want the learning rate", w[0])
	}
	if r.Equal(Rule{Kind: "adagrad", LearningRate: 0.1}.Default()) || !r.Equal(r.Default()) {
		t.Error("an accumulator of 0 equals the default")
	}
}

// TestRescale: with other constants of ftrl, a step without gradient leaves the parameters as they are once the state is
// rescaled, and only then.
func TestRescale(t *testing.T) {
	was, now := Rule{Kind: "ftrl", LearningRate: 0.1, L1: 0.01}, Rule{Kind: "ftrl", LearningRate: 0.003, Beta: 2, L1: 0.3, L2: 0.5}
	w, state := []float32{0.5, -0.25, 0, 0.125}, make([]float32, 8)
	was.InitState(w, state)
	for n := range 50 {
		u := was.At(Step{N: int64(n + 1), Rate: 1})
		u.Apply(0, w, []float32{0.2 * float32(n%3), -0.1, 0, 0}, state)
	}
	want := slices.Clone(w)
	for _, rescaled := range []bool{false, true} {
		w, state := slices.Clone(want), slices.Clone(state)
		if rescaled && !now.Rescale(was, w, state) {
			t.Error("is not rescaled")
		}
		u := now.At(Step{N: 51, Rate: 1})
		u.Apply(0, w, make([]float32, 4), state)
		same := true
		for i := range w {
			same = same && math.Abs(float64(w[i]-want[i])) <= 1e-6*math.Abs(float64(want[i]))
		}
		if same != rescaled {
			t.Errorf("rescaled: %v: %v, want %v", rescaled, w, want)
		}
	}
	if was.Rescale(was, nil, nil) || now.Rescale(Rule{Kind: "adam"}, nil, nil) {
		t.Error("nothing has changed, or the state is another")
	}
}
