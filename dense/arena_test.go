package dense

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/optim"
)

// TestInitialValuesAreAFunctionOfSeedNameAndIndex: initial values depend only on the seed, the
// name and the index, and have the documented distribution.
func TestInitialValuesAreAFunctionOfSeedNameAndIndex(t *testing.T) {
	build := func(seed uint64, names ...string) *Arena {
		a := new(Arena)
		for _, n := range names {
			NewLinear(a, n, 30, 20, true)
		}
		fatal.If(t, a.Build(Config{Seed: seed}))
		return a
	}
	one, two := build(1, "a", "b"), build(1, "b")
	if same(one.Param("a/weight").Value, one.Param("b/weight").Value) {
		t.Error("two layers start with the same weights")
	}
	if !same(one.Param("b/weight").Value, two.Param("b/weight").Value) {
		t.Error("weights depend on the other layers")
	}
	if same(two.Param("b/weight").Value, build(2, "b").Param("b/weight").Value) {
		t.Error("weights do not depend on the seed")
	}
	w, limit := one.Param("a/weight").Value, math.Sqrt(6.0/30)
	var mean, square float64
	for _, v := range w {
		if math.Abs(float64(v)) > limit {
			t.Fatalf("weight %v is outside ±%v", v, limit)
		}
		mean += float64(v) / float64(len(w))
		square += float64(v) * float64(v) / float64(len(w))
	}
	if math.Abs(mean) > 0.05*limit || math.Abs(square*3/limit/limit-1) > 0.1 {
		t.Errorf("mean %v and mean square %v: uniform values within ±%v have others", mean, square, limit)
	}
	// The bits are part of the format of a run: a resumed or repeated run must get them again.
	pinned := []float32{0.09045744, -0.16717342, 0.3088618}
	for i, v := range pinned {
		if w[i] != v {
			t.Errorf("weight %d is %v, want %v as in earlier versions", i, w[i], v)
		}
	}
}

func same(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

// TestArenaIsFlat: parameters and gradients are contiguous, in the order of declaration, and the
// tail follows the gradients.
func TestArenaIsFlat(t *testing.T) {
	m := newModel(t, Spec{In: 3, Hidden: []int{4}, BatchNorm: true, Out: 1}, 5, Config{Tail: 3})
	a := m.arena
	parameters := 3*4 + 4 + 4 + 4 + 4 + 1
	if len(a.Grads()) != parameters+3 || len(a.Tail()) != 3 || len(a.Values()) != parameters+2*4 {
		t.Fatalf("%d gradients, %d values, a tail of %d", len(a.Grads()), len(a.Values()), len(a.Tail()))
	}
	at := 0
	for _, p := range a.Params() {
		if &a.Grads()[at] != &p.Grad[0] || &a.Values()[at] != &p.Value[0] || cap(p.Grad) != len(p.Grad) {
			t.Errorf("%s does not start at %d", p.Name, at)
		}
		at += len(p.Grad)
	}
	a.Tail()[2] = 7
	if a.Grads()[len(a.Grads())-1] != 7 {
		t.Error("the tail is not the end of the gradients")
	}
	snapshot := append([]float32(nil), a.Values()...)
	m.backprop(t)
	if same(snapshot, a.Values()) {
		t.Error("a training batch did not change the running statistics")
	}
	if a.reset(); !same(snapshot, a.Values()) || a.Tail()[2] != 0 {
		t.Error("Reset does not restore the initial values")
	}
}

// TestGradientsMayUseGivenMemory: an arena can store its gradients in memory of the caller.
func TestGradientsMayUseGivenMemory(t *testing.T) {
	window := make([]float32, 100)
	a := new(Arena)
	p := a.Add(Param{Name: "w", Rows: 2, Cols: 3})
	fatal.If(t, a.Build(Config{Tail: 1, Memory: func(n int) []float32 { return window[10 : 10+n] }}))
	if &p.Grad[0] != &window[10] || &a.Tail()[0] != &window[16] {
		t.Error("the gradients are not in the given memory")
	}
}

// TestApplyScalesRegularisesAndClips compares a step with scale, L2 and clipping with values
// computed by hand.
func TestApplyScalesRegularisesAndClips(t *testing.T) {
	a := new(Arena)
	w := a.Add(Param{Name: "deep/w", Rows: 1, Cols: 2, Decay: true, Init: Init{3, 3}})
	b := a.Add(Param{Name: "deep/b", Rows: 1, Cols: 1, Init: Init{5, 5}})
	wide := a.Add(Param{Name: "wide/b", Rows: 1, Cols: 1, Decay: true})
	err := a.Build(Config{Groups: []Group{
		{Rule: optim.Rule{Kind: "sgd", LearningRate: 0.5}, L2: 0.25},
		{Prefix: "wide", Rule: optim.Rule{Kind: "ftrl", LearningRate: 0.1, L1: 100}},
		{Prefix: "wi", Rule: optim.Rule{Kind: "adam"}},
	}})
	fatal.If(t, err)
	fill := func() {
		copy(w.Grad, []float32{8, -4})
		b.Grad[0], wide.Grad[0] = 2, 4
	}
	fill()
	// scale ½: w has 4+.75 and −2+.75, b has 1 and no L2, wide has 2
	const want = 4.75*4.75 + 1.25*1.25 + 1 + 4
	if n := a.GradNormSq(0.5); math.Abs(n-want) > 1e-6 {
		t.Errorf("squared norm %v, want %v", n, want)
	}
	a.Apply(optim.Step{N: 1, Rate: 2, Scale: 0.5, Clip: 0.1}) // clip 0.1 and twice the learning rate
	if d := w.Value[0] - (3 - 0.475); math.Abs(float64(d)) > 1e-6 {
		t.Errorf("weight %v, want %v", w.Value[0], 3-0.475)
	}
	if d := b.Value[0] - (5 - 0.1); math.Abs(float64(d)) > 1e-6 {
		t.Errorf("bias %v, want 4.9", b.Value[0])
	}
	if wide.Value[0] != 0 { // adam would have changed it
		t.Errorf("the weight is %v, want 0 by FTRL's L1 of 100: the longest prefix must select the rule", wide.Value[0])
	}
	closeTo(t, "gradients afterwards", a.Grads(), []float32{8, -4, 2, 4})
}

// TestBuildReportsEveryFault: Build reports all faults at once.
func TestBuildReportsEveryFault(t *testing.T) {
	a := new(Arena)
	a.Add(Param{Name: "x", Rows: 1, Cols: 1})
	a.Add(Param{Name: "x", Rows: 1, Cols: 1})
	a.Add(Param{Name: "huge", Rows: math.MaxInt / 2, Cols: 5})
	a.Add(Param{Name: "", Rows: 1, Cols: 1})
	err := a.Build(Config{Tail: -1, Groups: []Group{{Prefix: "y", Rule: optim.Rule{Kind: "lion"}, L2: math.NaN()}}})
	if err == nil {
		t.Fatal("no fault found")
	}
	for _, want := range []string{`name "x"`, "huge of", `name ""`, "tail of -1", `"lion"`, "L2 NaN", "no group's prefix matches parameter x"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
}

// TestMisusePanics: calls that only a wrong program makes panic with a message that names the
// fault.
func TestMisusePanics(t *testing.T) {
	built := new(Arena)
	fatal.If(t, built.Build(Config{}))
	trained := new(Arena)
	trained.Add(Param{Name: "w", Rows: 1, Cols: 1})
	fatal.If(t, trained.Build(Config{Groups: []Group{{Rule: optim.Rule{Kind: "adam"}}}}))
	var sized Arena
	linear := NewLinear(&sized, "head", 3, 2, false)
	fatal.If(t, sized.Build(Config{}))
	for name, f := range map[string]func(){
		"dense: linear head: Forward: 5 values for 2×3":  func() { _, _ = linear.Forward(make([]float32, 5), 2, true) },
		"dense: linear head: Backward: 5 values for 2×2": func() { _, _ = linear.Backward(make([]float32, 5), 2) },

		"dense: Arena.Apply: step 0: steps count from 1": func() { trained.Apply(optim.Step{}) },

		"dense: Arena.Add":     func() { built.Add(Param{Name: "late"}) },
		"dense: Arena.Build":   func() { _ = built.Build(Config{}) },
		"dense: Arena.Apply":   func() { built.Apply(optim.Step{N: 1}) },
		"dense: Arena.Save":    func() { _ = new(Arena).Save(nil) },
		"dense: Arena.Load":    func() { _ = new(Arena).Load(nil) },
		"dense: NewActivation": func() { NewActivation("a", "swish") },
		"dense: NewDropout":    func() { newDropout(built, "d", 3, 1) },
	} {
		func() {
			defer func() {
				if msg, ok := recover().(string); !ok || !strings.HasPrefix(msg, name) {
					t.Errorf("%s: panic %q", name, msg)
				}
			}()
			f()
		}()
	}
}
