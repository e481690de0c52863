package step

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/config/network"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/trace"
)

// kinds are the models in tests of all models.
var kinds = []config.Model{
	{Kind: "wide_deep"},
	{Kind: "deepfm"},
	{Kind: "dcn_v2", Cross: config.Cross{Layers: 2}},
	{Kind: "dcn_v2", Cross: config.Cross{Layers: 2, Rank: 3, Structure: "parallel"}, Wide: new(bool)},
	{Kind: "masknet", Mask: network.Mask{Blocks: 2, Width: 7, Hidden: 5}},
	{Kind: "xdeepfm", CIN: []int{3, 2}}, // as in testdata/xdeepfm.py
}

// kindConfig returns the fixture's configuration for another kind of model, with an
// activation whose slope is nowhere zero.
func kindConfig(m config.Model) (*config.Config, []encode.SparseColumn) {
	c, columns := parityConfig("sgd")
	c.Model.Kind, c.Model.Cross, c.Model.CIN, c.Model.Mask, c.Model.Activation = m.Kind, m.Cross, m.CIN, m.Mask, "tanh"
	c.Model.Init.Scale = 0.5 // large enough for products of embeddings to matter
	if m.Wide != nil {
		c.Model.Wide = m.Wide
		for i := range columns {
			columns[i].Wide = false
		}
		for i := range c.Features {
			c.Features[i].Wide = m.Wide
		}
	}
	c.Fill()
	return c, columns
}

func kindTrainer(t *testing.T, comm *collective.Comm, kind config.Model, threads, chunk int) *Trainer {
	c, columns := kindConfig(kind)
	c.Train.Threads = threads
	tr, err := NewTrainer(comm, trace.New(0), c, layout.New(c, columns, []string{"d0", "d1"}), Tables{})
	fatal.If(t, err)
	tr.model.chunk = chunk
	rng := rand.New(rand.NewPCG(2, 3))
	for i := range tr.model.arena.Values() { // the same for any number of threads, with biases other than 0
		tr.model.arena.Values()[i] = float32(0.4 * rng.NormFloat64())
	}
	tr.model.arena.Changed()
	return tr
}

// TestGradientsOfEveryKind compares the gradients of dense parameters and of the
// embeddings with central differences of the loss.
func TestGradientsOfEveryKind(t *testing.T) {
	for _, kind := range kinds {
		t.Run(fmt.Sprintf("%+v", kind), func(t *testing.T) {
			tr := kindTrainer(t, single(), kind, 1, 4)
			defer tr.Close()
			checkGradients(t, tr, loadParity(t).batch(0, 6))
		})
	}
}

// checkGradients compares the gradients of a trainer's model with central differences.
func checkGradients(t *testing.T, tr *Trainer, b *encode.Batch) {
	t.Helper()
	m := tr.model
	loss := func() float64 {
		l, err := m.compute(b, 1, false)
		fatal.If(t, err)
		return l
	}
	fatal.If(t, m.pull(b, true))
	if _, err := m.compute(b, 1, true); err != nil {
		t.Fatal(err)
	}
	const h = 1.0 / 256
	for _, p := range m.arena.Params() {
		for i, got := range slices.Clone(p.Grad) {
			v := p.Value[i]
			p.Value[i] = v + h
			m.arena.Changed()
			up := loss()
			p.Value[i] = v - h
			m.arena.Changed()
			slope := (up - loss()) / (2 * h)
			p.Value[i] = v
			m.arena.Changed()
			if math.Abs(float64(got)-slope) > 2e-3*(1+math.Abs(slope)) {
				t.Errorf("gradient of %s[%d] is %v, central differences give %v", p.Name, i, got, slope)
			}
		}
	}
	embeddingSlope(t, tr, b)
}

// embeddingSlope changes only the rows by a small step along their gradient and expects the
// loss to fall by the rate times the squared norm of the gradient.
func embeddingSlope(t *testing.T, tr *Trainer, b *encode.Batch) {
	m := tr.model
	fatal.If(t, m.pull(b, true))
	before, err := m.compute(b, 1, true)
	fatal.If(t, err)
	fatal.If(t, m.store.Push(m.lookup))
	norm := m.store.GradNormSq(1)
	const rate = 1e-3 // of sgd's .1
	fatal.If(t, m.store.Apply(sparse.Step{N: 1, Scale: 1, Rate: rate}))
	fatal.If(t, m.pull(b, false))
	after, err := m.compute(b, 1, false)
	fatal.If(t, err)
	want := 0.1 * rate * norm
	if fell := before - after; math.Abs(fell-want) > 0.02*want {
		t.Errorf("the loss fell by %v, the gradient of the rows says %v", fell, want)
	}
}

// TestThreadsComputeTheSame: several threads and chunks of any size give the result of one
// thread and one chunk, except for rounding. The same number of threads gives the same bits.
func TestThreadsComputeTheSame(t *testing.T) {
	for _, kind := range kinds {
		want := trained(t, kind, 1, 256)
		for _, x := range []struct{ threads, chunk int }{{1, 1}, {1, 4}, {2, 256}, {3, 2}, {8, 256}} {
			got := trained(t, kind, x.threads, x.chunk)
			for i := range got {
				if math.Abs(float64(got[i]-want[i])) > 1e-5 {
					t.Fatalf("%+v, %d threads, chunks of %d: value %d is %v, one thread and chunk give %v", kind, x.threads, x.chunk, i, got[i], want[i])
				}
			}
			if again := trained(t, kind, x.threads, x.chunk); !slices.Equal(got, again) {
				t.Errorf("%+v, %d threads: other bits in another run", kind, x.threads)
			}
		}
	}
}

// trained returns the dense parameters and logits after three steps.
func trained(t *testing.T, kind config.Model, threads, chunk int) []float32 {
	tr := kindTrainer(t, single(), kind, threads, chunk)
	defer tr.Close()
	b := loadParity(t).batch(0, 6)
	for step := int64(1); step <= 3; step++ {
		if _, err := tr.Step(coming(step, b, b)); err != nil {
			t.Fatal(err)
		}
	}
	return append(slices.Clone(tr.model.arena.Values()), tr.model.logit...)
}
