package dense

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/optim"
)

var savedSpec = Spec{In: 3, Hidden: []int{4}, BatchNorm: true, Dropout: 0.2, Out: 1}

// train performs the steps of a range, including both ends.
func (m *model) train(t testing.TB, from, to int64) {
	for step := from; step <= to; step++ {
		m.arena.ZeroGrad()
		m.mlp.SetStep(step, nil)
		m.backprop(t)
		m.arena.Apply(optim.Step{N: step, Scale: 1 / float32(m.rows)})
	}
}

func save(t testing.TB, a *Arena) []byte {
	t.Helper()
	var b bytes.Buffer
	fatal.If(t, a.Save(&b))
	return b.Bytes()
}

// TestALoadedModelTrainsOnWithTheSameBits: for every rule, a model that was saved and loaded
// trains to the bits of an uninterrupted one.
func TestALoadedModelTrainsOnWithTheSameBits(t *testing.T) {
	for _, kind := range optim.Kinds() {
		c := Config{Seed: 3, Groups: []Group{{Rule: optim.Rule{Kind: kind}, L2: 0.01}}}
		m := newModel(t, savedSpec, 9, c)
		m.train(t, 1, 4)
		b := save(t, m.arena)
		m.train(t, 5, 8)

		c.Seed = 3 // the sequence of dropout masks continues
		n := newModel(t, savedSpec, 9, c)
		r := bytes.NewReader(append(b, "what follows"...))
		fatal.If(t, n.arena.Load(iotest.OneByteReader(r)))
		if rest, _ := io.ReadAll(r); string(rest) != "what follows" {
			t.Errorf("%s: Load left %q", kind, rest)
		}
		n.train(t, 5, 8)
		if !same(n.arena.Values(), m.arena.Values()) || !same(n.arena.state, m.arena.state) {
			t.Errorf("%s: the loaded model trained to other values", kind)
		}
	}
}

// TestEvaluationIgnoresTheState: a model can be loaded without the state of its optimizer.
func TestEvaluationIgnoresTheState(t *testing.T) {
	m := newModel(t, savedSpec, 9, adam())
	m.train(t, 1, 3)
	n := newModel(t, savedSpec, 9, Config{Seed: 8})
	r := bytes.NewReader(save(t, m.arena))
	if err := n.arena.Load(r); err != nil || r.Len() != 0 {
		t.Fatal(err, r.Len())
	}
	if !same(n.arena.Values(), m.arena.Values()) {
		t.Error("values differ")
	}
}

// TestLoadNamesBothSides: if a file does not match the model, the error describes both.
func TestLoadNamesBothSides(t *testing.T) {
	m := newModel(t, savedSpec, 9, adam())
	b := save(t, m.arena)
	wider, deeper, plain := savedSpec, savedSpec, savedSpec
	wider.Hidden, deeper.Hidden, plain.BatchNorm = []int{5}, []int{4, 2}, false
	for _, c := range []struct {
		spec Spec
		rule string
		want []string
	}{
		{wider, "adam", []string{"deep/linear0/weight 3×4", "deep/linear0/weight 3×5"}},
		{deeper, "adam", []string{"8 entries", "has 14"}},
		{plain, "adam", []string{"8 entries", "has 4"}},
		{savedSpec, "adagrad", []string{`"adam"`, `"adagrad"`}},
	} {
		n := newModel(t, c.spec, 9, Config{Groups: []Group{{Rule: optim.Rule{Kind: c.rule}}}})
		err := n.arena.Load(bytes.NewReader(b))
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, %s: error %v does not contain %s", c.spec, c.rule, err, want)
			}
		}
	}
	n := newModel(t, savedSpec, 9, Config{})
	if err := m.arena.Load(bytes.NewReader(save(t, n.arena))); err == nil || !strings.Contains(err.Error(), `rule ""`) {
		t.Errorf("a model saved without state: %v", err)
	}
}

// TestDamageIsFoundAndChangesNothing: a truncated file and a flipped byte are rejected and
// change nothing.
func TestDamageIsFoundAndChangesNothing(t *testing.T) {
	m := newModel(t, savedSpec, 9, adam())
	m.train(t, 1, 2)
	b := save(t, m.arena)
	n := newModel(t, savedSpec, 9, adam())
	values, state := append([]float32(nil), n.arena.Values()...), append([]float32(nil), n.arena.state...)
	for i := range b {
		if err := n.arena.Load(bytes.NewReader(b[:i])); err == nil || !strings.Contains(err.Error(), "cut short") {
			t.Fatalf("truncated at %d of %d: %v", i, len(b), err)
		}
		bad := bytes.Clone(b)
		bad[i] ^= 0x10
		if err := n.arena.Load(bytes.NewReader(bad)); err == nil || !strings.HasPrefix(err.Error(), "dense: load: ") {
			t.Fatalf("byte %d flipped: %v", i, err)
		}
	}
	if !same(n.arena.Values(), values) || !same(n.arena.state, state) {
		t.Error("a rejected load changed the model")
	}
	broken := errors.New("device gone")
	if err := n.arena.Load(io.MultiReader(bytes.NewReader(b[:90]), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("a failing reader: %v", err)
	}
}

// full is a writer with room for n bytes.
type full int

var errFull = errors.New("no space left")

func (f *full) Write(b []byte) (int, error) {
	if len(b) > int(*f) {
		return 0, errFull
	}
	*f -= full(len(b))
	return len(b), nil
}

// TestAFullDiskIsAnError: Save returns the error of a write that fails.
func TestAFullDiskIsAnError(t *testing.T) {
	m := newModel(t, savedSpec, 9, adam())
	for size := range len(save(t, m.arena)) {
		f := full(size)
		if err := m.arena.Save(&f); !errors.Is(err, errFull) {
			t.Fatalf("room for %d bytes: %v", size, err)
		}
	}
}

// TestAnEmptyArenaIsSaved: an arena without parameters can be saved and loaded.
func TestAnEmptyArenaIsSaved(t *testing.T) {
	a := new(Arena)
	fatal.If(t, a.Build(Config{}))
	if err := a.Load(bytes.NewReader(save(t, a))); err != nil {
		t.Error(err)
	}
}

// FuzzLoad: a file that is rejected changes nothing, and one that is accepted is saved with the
// same bytes.
func FuzzLoad(f *testing.F) {
	m := newModel(f, savedSpec, 9, adam())
	b := save(f, m.arena)
	f.Add(b)
	f.Add(b[:40])
	f.Add([]byte(saveMagic))
	reader := newModel(f, savedSpec, 9, Config{}) // without state, so it skips the sections of state
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, a := range []*Arena{m.arena, reader.arena} {
			before := append([]float32(nil), a.Values()...)
			if err := a.Load(bytes.NewReader(b)); err != nil && !same(before, a.Values()) {
				t.Errorf("a rejected load changed the model: %v", err)
			}
		}
		if m.arena.Load(bytes.NewReader(b)) == nil && !bytes.HasPrefix(b, save(t, m.arena)) {
			t.Error("the loaded bytes differ from the saved ones")
		}
	})
}
