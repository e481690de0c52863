package dense

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/optim"

	"pgregory.net/rapid"
)

// sumRing sums slices of P goroutines like an allreduce over ranks.
type sumRing struct {
	mu      sync.Mutex
	all     *sync.Cond
	size    int
	arrived int
	round   int
	sum     []float32
	result  []float32
}

func newSumRing(size int) *sumRing {
	r := &sumRing{size: size}
	r.all = sync.NewCond(&r.mu)
	return r
}

func (r *sumRing) reduce(x []float32) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.arrived == 0 {
		r.sum = make([]float32, len(x))
	}
	if len(x) != len(r.sum) {
		panic(fmt.Sprintf("one rank reduces %d floats, another %d", len(x), len(r.sum)))
	}
	for i, v := range x {
		r.sum[i] += v
	}
	if r.arrived++; r.arrived == r.size {
		r.arrived, r.result = 0, r.sum
		r.round++
		r.all.Broadcast()
	} else {
		for round := r.round; round == r.round; {
			r.all.Wait()
		}
	}
	copy(x, r.result)
	return nil
}

// TestRanksTogetherAreOneModel trains on uneven parts of a batch, one of them empty. The result
// equals one rank that trains on the whole batch.
func TestRanksTogetherAreOneModel(t *testing.T) {
	s := Spec{In: 6, Hidden: []int{9, 5}, BatchNorm: true, Dropout: 0.3, Out: 1}
	const rows = 13
	whole := newModel(t, s, rows, adam())
	parts := [][2]int{{0, 4}, {4, 4}, {4, 11}, {11, 13}}
	ranks, dx := make([]*model, len(parts)), make([][]float32, len(parts))
	ring := newSumRing(len(parts))
	for r, part := range parts {
		ranks[r] = newModel(t, s, rows, adam())
		m := ranks[r]
		m.x, m.label, m.grad = m.x[part[0]*s.In:part[1]*s.In], m.label[part[0]:part[1]], m.grad[part[0]:part[1]]
		m.rows = part[1] - part[0]
		m.mlp.Synchronise(ring.reduce)
	}
	for step := int64(1); step <= 3; step++ {
		whole.arena.ZeroGrad()
		whole.mlp.SetStep(step, nil)
		_, want := whole.backprop(t)
		var wg sync.WaitGroup
		for r, m := range ranks {
			wg.Go(func() {
				ids := make([]uint64, m.rows)
				for i := range ids {
					ids[i] = uint64(parts[r][0] + i)
				}
				m.arena.ZeroGrad()
				m.mlp.SetStep(step, ids)
				_, dx[r] = m.backprop(t)
				_ = ring.reduce(m.arena.Grads())
			})
		}
		wg.Wait()
		for r, m := range ranks {
			closeTo(t, fmt.Sprintf("step %d, rank %d: gradients", step, r), m.arena.Grads(), whole.arena.Grads())
			closeTo(t, fmt.Sprintf("step %d, rank %d: input gradient", step, r), dx[r], want[parts[r][0]*s.In:parts[r][1]*s.In])
			m.arena.Apply(optim.Step{N: step, Scale: 1.0 / rows})
			if !same(m.arena.Values(), ranks[0].arena.Values()) {
				t.Fatalf("step %d: the parameters of rank %d differ from rank 0", step, r)
			}
		}
		whole.arena.Apply(optim.Step{N: step, Scale: 1.0 / rows})
		copy(whole.arena.Values(), ranks[0].arena.Values()) // so that rounding errors do not accumulate
	}
}

func closeTo(t *testing.T, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	for i, v := range got {
		if d := math.Abs(float64(v - want[i])); !(d <= 2e-5*(1+math.Abs(float64(want[i])))) {
			t.Fatalf("%s: value %d is %v, want %v", what, i, v, want[i])
		}
	}
}

// TestBatchNormOfFarAwayValues: batch normalisation is accurate for values with a mean far from
// 0.
func TestBatchNormOfFarAwayValues(t *testing.T) {
	a := new(Arena)
	l := newBatchNorm(a, "norm", 1)
	fatal.If(t, a.Build(Config{}))
	// Mean 10⁵, deviation 1: E[x²]−E[x]² has no significant digit in float32.
	y, err := l.Forward([]float32{99999, 100001, 99999, 100001}, 4, true)
	fatal.If(t, err)
	closeTo(t, "output", y, []float32{-1, 1, -1, 1})
	// One batch has weight 0.1. The variance is the unbiased 4/3.
	closeTo(t, "running statistics", []float32{l.mean.value[0], l.vrn.value[0]}, []float32{10000, 0.9 + 0.4/3})
	if y, _ = l.Forward([]float32{10000}, 1, false); math.Abs(float64(y[0])) > 1e-3 {
		t.Errorf("evaluation of the running mean gives %v", y[0])
	}
}

// TestBatchNormOfFewRows: batch normalisation works for batches without rows and with one row.
func TestBatchNormOfFewRows(t *testing.T) {
	a := new(Arena)
	l := newBatchNorm(a, "norm", 2)
	fatal.If(t, a.Build(Config{}))
	before := append([]float32(nil), a.Values()...)
	for range 2 {
		if y, err := l.Forward(nil, 0, true); err != nil || len(y) != 0 {
			t.Fatal(y, err)
		}
		if dx, err := l.Backward(nil, 0); err != nil || len(dx) != 0 {
			t.Fatal(dx, err)
		}
	}
	if !same(before, a.Values()) {
		t.Error("a batch without rows changed the running statistics")
	}
	if y, _ := l.Forward([]float32{4, -5}, 1, true); y[0] != 0 || y[1] != 0 {
		t.Errorf("one row is its own mean, the output is %v", y)
	}
}

// TestFailedReductionIsAnError: the error of a reduction is returned, and evaluation makes no
// reduction.
func TestFailedReductionIsAnError(t *testing.T) {
	m := newModel(t, Spec{In: 2, Hidden: []int{3}, BatchNorm: true, Out: 1}, 4, Config{})
	lost := errors.New("rank 3 is lost")
	calls, failAt := 0, 0
	m.mlp.Synchronise(func([]float32) error {
		if calls++; calls == failAt {
			return lost
		}
		return nil
	})
	for failAt = 1; failAt <= 3; failAt++ {
		calls = 0
		_, err := m.mlp.Forward(m.x, m.rows, true)
		if err == nil {
			_, err = m.mlp.Backward(m.grad, m.rows)
		}
		if !errors.Is(err, lost) || !strings.Contains(err.Error(), "deep/norm0") {
			t.Errorf("failure of reduction %d: %v", failAt, err)
		}
	}
	calls, failAt = 0, 0
	if _, err := m.mlp.Forward(m.x, m.rows, false); err != nil || calls != 0 {
		t.Errorf("evaluation reduced %d times: %v", calls, err)
	}
}

func dropoutOf(t testing.TB, width int, p float64) *dropout {
	a := new(Arena)
	l := newDropout(a, "deep/dropout0", width, p)
	fatal.If(t, a.Build(Config{Seed: 4}))
	return l
}

// drop returns the masks of the given rows, one after the other.
func drop(l *dropout, step int64, ids []uint64) []float32 {
	x := make([]float32, len(ids)*l.width)
	for i := range x {
		x[i] = 1
	}
	l.SetStep(step, ids)
	y, _ := l.Forward(x, len(ids), true)
	return append([]float32(nil), y...)
}

// TestDropoutDoesNotKnowHowTheBatchIsSplit: the mask of a row does not depend on how the batch
// is divided.
func TestDropoutDoesNotKnowHowTheBatchIsSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.IntRange(1, 20).Draw(t, "width")
		a := new(Arena)
		l := newDropout(a, "d", width, rapid.Float64Range(0.01, 0.99).Draw(t, "p"))
		fatal.If(t, a.Build(Config{Seed: rapid.Uint64().Draw(t, "seed")}))
		ids := rapid.SliceOfN(rapid.Uint64(), 1, 30).Draw(t, "rows")
		step := rapid.Int64Min(1).Draw(t, "step")
		cut := rapid.IntRange(0, len(ids)).Draw(t, "cut")
		whole := drop(l, step, ids)
		if got := append(drop(l, step, ids[:cut]), drop(l, step, ids[cut:])...); !same(got, whole) {
			t.Fatalf("divided at %d: %v, whole: %v", cut, got, whole)
		}
	})
}

// TestDropoutDropsItsShare: dropout drops the given share of values and scales the others, and
// the mask depends on the step and the row.
func TestDropoutDropsItsShare(t *testing.T) {
	const rows, width = 500, 100
	ids := make([]uint64, rows)
	for i := range ids {
		ids[i] = uint64(i)
	}
	for _, p := range []float64{0, 0.1, 0.5, 0.9} {
		l := dropoutOf(t, width, p)
		mask := drop(l, 1, ids)
		dropped, keep := 0, float32(1/(1-p))
		for _, v := range mask {
			if v == 0 {
				dropped++
			} else if v != keep {
				t.Fatalf("p=%v: factor %v, want 0 or %v", p, v, keep)
			}
		}
		if share := float64(dropped) / (rows * width); math.Abs(share-p) > 0.01 { // 4 standard deviations
			t.Errorf("p=%v: a share of %v was dropped", p, share)
		}
		if p > 0 && (same(mask, drop(l, 2, ids)) || same(mask[:width], mask[width:2*width])) {
			t.Errorf("p=%v: two steps or two rows have the same mask", p)
		}
		if !same(mask, drop(l, 1, ids)) {
			t.Errorf("p=%v: repeating a step gives another mask", p)
		}
	}
}

// TestDropoutMaskIsPinned compares a mask with the stored one.
func TestDropoutMaskIsPinned(t *testing.T) {
	// The bits are part of the format of a run, like the bits of initial values.
	var got strings.Builder
	for _, v := range drop(dropoutOf(t, 16, 0.5), 7, []uint64{0, 1, 1 << 40}) {
		fmt.Fprint(&got, v/2)
	}
	const want = "111010101111001001100000101110011100000111101001"
	if got.String() != want {
		t.Errorf("mask %s, want %s as in earlier versions", got.String(), want)
	}
}

// TestDropoutIsOffInEvaluation: evaluation does not drop values.
func TestDropoutIsOffInEvaluation(t *testing.T) {
	l := dropoutOf(t, 3, 0.9)
	x := []float32{1, 2, 3}
	if y, _ := l.Forward(x, 1, false); !same(x, y) {
		t.Errorf("evaluation of %v gives %v", x, y)
	}
}

// TestNonFiniteNamesThePlace: a NaN or an infinity is reported with the layer or the parameter
// that contains it.
func TestNonFiniteNamesThePlace(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	set := func(m *model, name string, at int, v float32) { m.arena.Param(name).Value[at] = v }
	for _, c := range []struct {
		want  string
		spoil func(m *model)
	}{
		{"", func(*model) {}},
		{"input of deep, row 2, column 1", func(m *model) { m.x[5] = nan }},
		{"parameter deep/linear1/weight, row 1, column 2", func(m *model) { set(m, "deep/linear1/weight", 6, nan) }},
		{"parameter deep/norm0/shift, row 0, column 3", func(m *model) { set(m, "deep/norm0/shift", 3, inf) }},
		{"output of deep/out", func(m *model) { // finite factors, infinite product
			set(m, "deep/norm1/shift", 0, 1e20)
			set(m, "deep/out/weight", 0, 1e20)
			set(m, "deep/out/bias", 0, 1)
		}},
	} {
		m := newModel(t, Spec{In: 2, Hidden: []int{4, 4}, BatchNorm: true, Activation: "identity", Out: 1}, 5, Config{})
		c.spoil(m)
		if _, err := m.mlp.Forward(m.x, m.rows, true); err != nil {
			t.Fatal(err)
		}
		if place, found := m.mlp.NonFinite(); place != c.want || found != (c.want != "") {
			t.Errorf("found %v at %q, want %q", found, place, c.want)
		}
		p, i := m.arena.NonFinite()
		if got := strings.HasPrefix(c.want, "parameter"); got != (p != nil) || got && p.Value[i]-p.Value[i] == 0 {
			t.Errorf("%q: the arena finds %v at %d", c.want, p, i)
		}
	}
}

// TestSpecReportsEveryFault: a Spec reports all faults at once.
func TestSpecReportsEveryFault(t *testing.T) {
	s := Spec{In: 0, Hidden: []int{4, -1}, Activation: "gelu", Dropout: 1, Out: -2}
	if faults := s.validate(); len(faults) != 5 {
		t.Errorf("%d faults, want 5: %v", len(faults), faults)
	}
	if _, err := NewMLP(new(Arena), "deep", s); err == nil || !strings.Contains(err.Error(), "dense: mlp deep: in 0") {
		t.Errorf("error %v", err)
	}
	if faults := (Spec{In: 3}).validate(); len(faults) != 1 {
		t.Errorf("a spec without layers: %v", faults)
	}
}

// TestMLPWithoutALastLayer: an MLP with Out 0 returns the activations of its last hidden layer.
func TestMLPWithoutALastLayer(t *testing.T) {
	a := new(Arena)
	m, err := NewMLP(a, "m", Spec{In: 3, Hidden: []int{4}})
	fatal.If(t, err)
	fatal.If(t, a.Build(Config{}))
	y, err := m.Forward(make([]float32, 6), 2, false)
	if err != nil || len(y) != 8 || m.out != 4 || m.in != 3 || m.Name() != "m" {
		t.Errorf("%d outputs, widths %d to %d, %v", len(y), m.in, m.out, err)
	}
}

// TestAStepAllocatesNothing: after the first steps, a step allocates no memory.
func TestAStepAllocatesNothing(t *testing.T) {
	s := Spec{In: 30, Hidden: []int{40, 20}, BatchNorm: true, Dropout: 0.5, Activation: "tanh", Out: 1}
	m := newModel(t, s, 64, Config{Groups: adam().Groups, Tail: 1})
	m.mlp.Synchronise(func([]float32) error { return nil })
	step := int64(0)
	run := func() {
		step++
		m.rows = 64 - int(step%5)*12
		x, label, grad := m.x, m.label, m.grad
		m.x, m.label, m.grad = x[:m.rows*s.In], label[:m.rows], grad[:m.rows]
		m.arena.ZeroGrad()
		m.mlp.SetStep(step, nil)
		m.backprop(t)
		scale := 1 / float32(m.rows)
		clip := float32(min(1, 10/math.Sqrt(m.arena.GradNormSq(scale))))
		m.arena.Apply(optim.Step{N: step, Scale: scale, Clip: clip})
		m.x, m.label, m.grad = x, label, grad
	}
	for range 5 {
		run()
	}
	if n := testing.AllocsPerRun(20, run); n != 0 {
		t.Errorf("%v allocations per step", n)
	}
}

// TestHiddenWeightsStartAsTheirActivationNeeds: the range of initial weights follows from the
// activation and the init setting.
func TestHiddenWeightsStartAsTheirActivationNeeds(t *testing.T) {
	for _, x := range []struct {
		activation, init string
		limit            float64
	}{{"", "", math.Sqrt(6.0 / 50)}, {"tanh", "he", math.Sqrt(6.0 / 110)}, {"", "pytorch", math.Sqrt(1.0 / 50)}} {
		m := newModel(t, Spec{In: 50, Hidden: []int{60}, Activation: x.activation, Init: x.init, Out: 1}, 1, Config{})
		activation, limit := x.activation, x.limit
		if biased := m.arena.Param("deep/linear0/bias").Value[0] != 0; biased != (x.init == "pytorch") {
			t.Errorf("init %q: some bias is not 0 initially: %v", x.init, biased)
		}
		var largest float64
		for _, v := range m.arena.Param("deep/linear0/weight").Value {
			largest = max(largest, math.Abs(float64(v)))
		}
		if largest > limit || largest < 0.99*limit {
			t.Errorf("activation %q: the largest weight is %v, the limit %v", activation, largest, limit)
		}
	}
}
