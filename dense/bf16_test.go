package dense

import (
	"math"
	"slices"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/optim"
)

// TestBF16IsNearFloat32: outputs and gradients differ from float32 only by the rounding to eight
// bits, for any chunk.
func TestBF16IsNearFloat32(t *testing.T) {
	for _, rows := range []int{1, 7, 70} {
		s := Spec{In: 45, Hidden: []int{40, 33}, Out: 1, Init: "pytorch"}
		exact := newModel(t, s, rows, adam())
		s.BF16 = true
		half := newModel(t, s, rows, adam())
		for step := range 2 { // the second step uses weights changed by Apply
			exact.arena.ZeroGrad()
			half.arena.ZeroGrad()
			loss, dx := exact.backprop(t)
			got, gotDx := half.backprop(t)
			if math.Abs(loss-got) > 2e-3*loss {
				t.Errorf("%d rows, step %d: loss %v, in float32 %v", rows, step, got, loss)
			}
			for name, pair := range map[string][2][]float32{"x": {gotDx, dx}, "parameters": {half.arena.Grads(), exact.arena.Grads()}} {
				if d := distance(pair[0], pair[1]); d > 0.1 {
					t.Errorf("%d rows, step %d: gradients of %s are off by %.3f of their norm", rows, step, name, d)
				}
			}
			copy(half.arena.Grads(), exact.arena.Grads())
			exact.arena.Apply(optim.Step{N: int64(step + 1)})
			half.arena.Apply(optim.Step{N: int64(step + 1)})
		}
	}
}

// distance returns ‖a−b‖/‖b‖.
func distance(a, b []float32) float64 {
	var off, norm float64
	for i := range b {
		d := float64(a[i] - b[i])
		off, norm = off+d*d, norm+float64(b[i])*float64(b[i])
	}
	return math.Sqrt(off / norm)
}

// TestBF16KeepsMasterWeights: changes too small for bfloat16 are kept in the float32 weights.
func TestBF16KeepsMasterWeights(t *testing.T) {
	m := newModel(t, Spec{In: 4, Hidden: []int{4}, Out: 1, BF16: true}, 3, adam())
	before := slices.Clone(m.arena.Values())
	m.backprop(t)
	m.arena.Apply(optim.Step{N: 1, Rate: 1e-3}) // changes of 1e-6
	if slices.Equal(before, m.arena.Values()) {
		t.Error("the weights did not change")
	}
}

// TestBF16Refuses: layers without bfloat16 kernels are rejected.
func TestBF16Refuses(t *testing.T) {
	for _, s := range []Spec{
		{In: 2, Hidden: []int{3}, Out: 1, BatchNorm: true}, {In: 2, Hidden: []int{3}, Out: 1, Dropout: 0.5},
		{In: 2, Hidden: []int{3}, Out: 1, Activation: "tanh"}, {In: 2, Hidden: []int{3}},
	} {
		if s.BF16 = true; len(s.validate()) == 0 {
			t.Errorf("%+v was accepted", s)
		}
	}
}

// TestPrefixOfBF16: with shared columns, the outputs of a bfloat16 MLP are as close to float32
// as without them.
func TestPrefixOfBF16(t *testing.T) {
	const rows, cols = 37, 17
	s := Spec{In: 45, Hidden: []int{40, 33}, Out: 1, Init: "pytorch"}
	exact := newModel(t, s, rows, adam())
	s.BF16 = true
	half := newModel(t, s, rows, adam())
	for i := 1; i < rows; i++ {
		copy(half.x[i*s.In:i*s.In+cols], half.x[:cols])
	}
	want, err := exact.mlp.Forward(half.x, rows, false)
	fatal.If(t, err)
	var rest []float32
	for i := range rows {
		rest = append(rest, half.x[i*s.In+cols:(i+1)*s.In]...)
	}
	p := half.mlp.NewPrefix()
	if !p.Takes(cols) {
		t.Fatal("the columns were rejected")
	}
	got, err := p.Forward(half.x[:cols], rest, rows)
	fatal.If(t, err)
	if d := distance(got, want); d > 0.02 || d == 0 {
		t.Errorf("the outputs are off by %v of their norm", d)
	}
}
