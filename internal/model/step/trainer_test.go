package step

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/kernel/f32"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/trace"
)

// TestNonFiniteLoss: the error names the table and the key.
func TestNonFiniteLoss(t *testing.T) {
	c, columns := parityConfig("sgd")
	tr, err := NewTrainer(single(), trace.New(0), c, layout.New(c, columns, []string{"d0", "d1"}), Tables{})
	fatal.If(t, err)
	defer tr.Close()
	p := loadParity(t)
	fatal.If(t, p.start(t, tr))
	b := p.batch(0, 6)
	b.Dense[3] = float32(math.NaN())
	if _, err := tr.Step(coming(1, b, nil)); err == nil || !strings.Contains(err.Error(), "dense input d1 of row 1 is NaN") {
		t.Errorf("NaN input: %v", err)
	}
	b = p.batch(0, 6)
	tr.model.arena.Param("deep/linear1/weight").Value[2] = float32(math.Inf(1))
	tr.model.arena.Changed()
	if _, err := tr.Step(coming(1, b, nil)); err == nil || !strings.Contains(err.Error(), "deep/linear1/weight") {
		t.Errorf("infinite weight: %v", err)
	}
	fatal.If(t, tr.model.pull(b, true))
	tr.model.lookup.PoolGrad(1, 0, slices.Repeat([]float32{3e38}, 6*parityE), parityE)
	tr.model.lookup.PoolGrad(1, 0, slices.Repeat([]float32{3e38}, 6*parityE), parityE)
	fatal.If(t, tr.model.store.Push(tr.model.lookup))
	if err := tr.update(1, 1, 6); err == nil || !strings.Contains(err.Error(), "f1") || !strings.Contains(err.Error(), "key") {
		t.Errorf("infinite gradient of a row: %v", err)
	}
}

// TestStepAllocatesNothing: a step of any model allocates nothing in the steady state.
func TestStepAllocatesNothing(t *testing.T) {
	for _, kind := range kinds {
		for threads := range 3 {
			t.Run(fmt.Sprintf("%v, %d threads", kind, 1+threads), func(t *testing.T) { allocatesNothing(t, kind, 1+threads) })
		}
	}
}

func allocatesNothing(t *testing.T, kind config.Model, threads int) {
	c, columns := kindConfig(kind)
	c.Train.Threads = threads
	tr, err := NewTrainer(single(), trace.New(16), c, layout.New(c, columns, []string{"d0", "d1"}), Tables{})
	fatal.If(t, err)
	defer tr.Close()
	tr.model.chunk = 2
	next := coming(0, loadParity(t).batch(0, 6), nil)
	step := func() {
		next.N++
		if _, err := tr.Step(next); err != nil {
			t.Fatal(err)
		}
	}
	step()
	if allocs := testing.AllocsPerRun(50, step); allocs != 0 {
		t.Errorf("%v allocations a step", allocs)
	}
}

// TestEvaluationLeavesNoTrace: an evaluation inserts no keys and changes no parameters.
func TestEvaluationLeavesNoTrace(t *testing.T) {
	c, columns := parityConfig("adam")
	tr, err := NewTrainer(single(), trace.New(0), c, layout.New(c, columns, []string{"d0", "d1"}), Tables{})
	fatal.If(t, err)
	b := []*encode.Batch{loadParity(t).batch(0, 6), nil}
	before := slices.Clone(tr.model.arena.Values())
	if _, err := tr.Evaluate(func() (*encode.Batch, error) { next := b[0]; b = b[1:]; return next, nil }); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(before, tr.model.arena.Values()) || tr.model.store.Counters().RowsHeld != 0 {
		t.Error("the evaluation has changed the model")
	}
}

// TestSamplesAreSummedExactly: the number of samples of a step, which is sent with the
// float32 gradients, is exact above 2²⁴ too.
func TestSamplesAreSummedExactly(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 5))
	for _, most := range []int{3, 5000, 1 << 24, math.MaxInt32} {
		const ranks = 16
		sum, want := make([]float32, tailWidth), int64(0)
		for range ranks {
			rows, tail := 1+rng.IntN(most), make([]float32, tailWidth)
			want += int64(rows)
			putRows(tail, rows)
			f32.AddTo(sum, tail)
		}
		if got := rowsIn(sum); got != want {
			t.Errorf("%d ranks with up to %d samples: %d, want %d", ranks, most, got, want)
		}
	}
}
