package table

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/wdlrun/wdlrun/internal/kernel/raw"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/optim"
)

// valuesOf returns the contents of a table.
func valuesOf(t *Table) (map[uint64]string, error) {
	all := map[uint64]string{}
	for shard := range t.Shards() {
		err := t.Each(shard, func(key uint64, record []float32) error {
			all[key] = string(raw.Bytes(record[:t.Width()]))
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// follow applies the changes that a watch has taken to a copy of a table.
func follow(held map[uint64]string, c *Taken, width int) error {
	for _, key := range c.Removed {
		delete(held, key)
	}
	seen := map[uint64]bool{}
	for i, key := range c.Keys {
		if seen[key] {
			return fmt.Errorf("key %d occurs twice", key)
		}
		seen[key] = true
		held[key] = string(raw.Bytes(c.Values[i*width : (i+1)*width]))
	}
	return nil
}

// watchOnce takes the changes while steps run. It compares a copy that is maintained from the
// taken changes with the table at the time of the Take.
func (p *pair) watchOnce(w *Watch, held map[uint64]string) error {
	if p.rng.IntN(4) == 0 { // a publication that fails
		if err := w.Take(); err != nil {
			return err
		}
		for w.Copy(3) > 0 {
			if err := p.disturb(); err != nil {
				return err
			}
		}
		if err := w.Again(); err != nil {
			return err
		}
	}
	want, err := valuesOf(p.table)
	if err != nil {
		return err
	}
	if err := w.Take(); err != nil {
		return err
	}
	for {
		for range p.rng.IntN(3) {
			if err := p.disturb(); err != nil {
				return err
			}
		}
		if w.Copy(1+p.rng.IntN(8)) == 0 {
			break
		}
	}
	c, err := w.Taken()
	if err != nil {
		return err
	}
	if err := follow(held, c, p.table.Width()); err != nil {
		return err
	}
	if !maps.Equal(held, want) {
		return fmt.Errorf("%d rows, want %d, or their values differ", len(held), len(want))
	}
	return nil
}

func checkWatch(t *testing.T, rt *rapid.T) {
	cfg := drawConfig(rt)
	for i := range cfg.Parts {
		cfg.Parts[i].DenseL2 = false
	}
	p := &pair{t: t, shards: 1 << rapid.IntRange(0, 4).Draw(rt, "log shards"), rng: rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))}
	p.tiered = rapid.Bool().Draw(rt, "tiered")
	p.table = p.open(cfg)
	spec := p.open(cfg)
	p.twin = newTwin(spec)
	defer func() { p.table.Close(); spec.Close() }()
	w, err := NewWatch(p.table)
	fatal.If(rt, err)
	held := map[uint64]string{}
	for range rapid.IntRange(1, 6).Draw(rt, "rounds") {
		for range p.rng.IntN(5) {
			fatal.If(rt, p.disturb())
		}
		if p.rng.IntN(3) == 0 { // a checkpoint at the same time
			p.table.Snapshot(Everything, p.rng.Perm(p.table.Shards()))
		}
		fatal.If(rt, p.watchOnce(w, held))
		if err := p.twin.differ(p.table); err != nil {
			rt.Fatalf("the table after a watch: %v", err)
		}
	}
}

// TestWatchIsTheTableOfItsStep: a copy that is maintained from the changes of a watch equals the
// table at each Take. Steps, deletions, evictions and moves to disk may occur in between.
func TestWatchIsTheTableOfItsStep(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) { checkWatch(t, rt) })
}

// TestWatchTakesWhatChanged: a watch takes the changed rows and no others, so its cost does not
// depend on the size of the table.
func TestWatchTakesWhatChanged(t *testing.T) {
	x := openAs(t, Config{})
	w, err := NewWatch(x)
	fatal.If(t, err)
	train(t, x, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8)
	take := func() []uint64 {
		t.Helper()
		fatal.If(t, w.Take())
		for w.Copy(1) > 0 {
		}
		c, err := w.Taken()
		fatal.If(t, err)
		return slices.Sorted(slices.Values(c.Keys))
	}
	take()
	train(t, x, 2, 1, 3, 5)
	train(t, x, 3, 1, 5)
	if got := take(); !slices.Equal(got, []uint64{3, 5}) {
		t.Errorf("taken: %v, want 3 and 5", got)
	}
	if got := take(); len(got) != 0 {
		t.Errorf("taken again: %v", got)
	}
}

// TestWatchLosesWhatIsLoaded: after rows were loaded, a watch reports that it does not know all
// changes.
func TestWatchLosesWhatIsLoaded(t *testing.T) {
	for name, change := range map[string]func(x *Table){
		"reset": func(x *Table) { x.Reset() },
		"load":  func(x *Table) { x.LoadShard(bytes.NewReader(nil), 0) },
	} {
		t.Run(name, func(t *testing.T) {
			x := openAs(t, Config{})
			w, err := NewWatch(x)
			fatal.If(t, err)
			train(t, x, 1, 1, 1, 2, 3)
			fatal.If(t, w.Take())
			change(x)
			train(t, x, 2, 1, 4)
			if w.Copy(9); w.err == nil {
				t.Error("the watch has no error")
			}
			if _, err := w.Taken(); !errors.Is(err, errChanged) {
				t.Errorf("taken: %v", err)
			}
			if err := w.Take(); !errors.Is(err, errChanged) {
				t.Errorf("take: %v", err)
			}
		})
	}
	dense, err := Open(Config{Name: "d", Parts: []Part{{Name: "p", Dim: 1, Rule: optim.Rule{Kind: "sgd"}, DenseL2: true}}}, 1, 4)
	fatal.If(t, err)
	defer dense.Close()
	if _, err := NewWatch(dense); err == nil || !strings.Contains(err.Error(), "every row") {
		t.Errorf("a DenseL2 part: %v", err)
	}
}

// TestWatchedStepsDoNotAllocate: once its memory is allocated, steps with a watch allocate
// nothing.
func TestWatchedStepsDoNotAllocate(t *testing.T) {
	x := openAs(t, Config{})
	keys := make([]uint64, 3000)
	for i := range keys {
		keys[i] = uint64(i)
	}
	w, err := NewWatch(x)
	fatal.If(t, err)
	g := Gradients{Keys: keys, Values: make([]float32, len(keys)*x.Width())}
	n := int64(1)
	step := func() {
		if _, err := x.Apply(optim.Step{N: n, Scale: 1, Rate: 1}, g); err != nil {
			t.Fatal(err)
		}
		n++
	}
	round := func() {
		step()
		fatal.If(t, w.Take())
		for w.Copy(1000) > 0 {
			step()
		}
	}
	round()
	round()
	if allocs := testing.AllocsPerRun(20, round); allocs > 0 {
		t.Errorf("%v allocations per round", allocs)
	}
}
