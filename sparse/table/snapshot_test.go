package table

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/optim"
)

// changes returns the rows of a shard that changed after a step, and whether all of them are
// known.
func changes(x *Table, shard int, since int64) (list []entry, known bool) {
	gone, known := x.removed.since(since)
	list, _ = x.asItIs().entries(shard, since, gone)
	return list, known
}

// saveChanges saves the rows of a shard that changed after a step, while nothing changes.
func saveChanges(x *Table, w io.Writer, shard int, since int64) error {
	list, known := changes(x, shard, since)
	if !known {
		return fmt.Errorf("shard %d since step %d: too many rows were removed", shard, since)
	}
	return x.asItIs().saveDelta(w, shard, since, list)
}

// stopped saves every shard while nothing changes. The result is nil for a shard that has
// nothing to save.
func stopped(x *Table, since int64) ([][]byte, error) {
	all := make([][]byte, x.Shards())
	for shard := range all {
		var b bytes.Buffer
		if x.Seen(shard) && x.sketches[shard].last > since {
			if err := x.SaveSeen(&b, shard); err != nil {
				return nil, err
			}
		}
		var err error
		list, known := changes(x, shard, since)
		switch changed := len(list) - countGone(list); {
		case !known, x.ShardRows(shard) > 0 && changed == x.ShardRows(shard):
			if x.ShardRows(shard) > 0 || since != Everything {
				err = x.SaveShard(&b, shard)
			}
		case len(list) > 0:
			err = saveChanges(x, &b, shard, since)
		}
		if err != nil {
			return nil, err
		}
		all[shard] = b.Bytes()
	}
	return all, nil
}

// savedBy returns the bytes that a snapshot saves for a shard.
func savedBy(s *Snapshot, shard int) ([]byte, error) {
	var b bytes.Buffer
	err := s.Save(shard, func(of Content, write func(io.Writer) error) error {
		at := b.Len()
		err := write(&b)
		if magic := [...]string{Rows: shardMagic, Changes: deltaMagic, Sightings: seenMagic}[of]; err == nil && !bytes.HasPrefix(b.Bytes()[at:], []byte(magic)) {
			return fmt.Errorf("content %d, written: %q", of, b.Bytes()[at:][:magicBytes])
		}
		return err
	})
	return b.Bytes(), err
}

// snapshotOnce saves the shards of a pair's table one by one, in any order, while steps run, and
// compares them with a save during which nothing changes.
func (p *pair) snapshotOnce() error {
	since := Everything
	switch p.rng.IntN(4) {
	case 0:
		since = p.table.Now()
	case 1, 2:
		since = p.rng.Int64N(p.table.Now() + 1)
	}
	want, err := stopped(p.table, since)
	if err != nil {
		return err
	}
	order := p.rng.Perm(p.table.Shards())
	pending := slices.Clone(order[:p.rng.IntN(len(order)+1)])
	s := p.table.Snapshot(since, pending)
	for _, shard := range order {
		if p.rng.IntN(16) == 0 {
			return s.Close() // abandoned; the next snapshot reuses its memory
		}
		for range p.rng.IntN(4) {
			if err := p.disturb(); err != nil {
				return err
			}
		}
		got, err := savedBy(s, shard)
		if err != nil {
			return err
		}
		expect := want[shard]
		if !slices.Contains(pending, shard) {
			expect = nil
		}
		if !bytes.Equal(got, expect) {
			return fmt.Errorf("shard %d since step %d: %d bytes\n%x\nwant %d\n%x", shard, since, len(got), got, len(expect), expect)
		}
	}
	return s.Close()
}

// disturb performs a random operation that changes the table.
func (p *pair) disturb() error {
	switch p.rng.IntN(6) {
	case 0:
		return p.delete()
	case 1:
		return p.read()
	case 2:
		p.table.Forget(p.rng.Int64N(p.table.Now() + 2))
		return nil
	case 3:
		return p.put()
	}
	return p.apply()
}

// put copies the record of a key to another key, or to itself.
func (p *pair) put() error {
	keys := p.keys()
	if len(keys) < 2 || p.table.Config().Evict != (Evict{}) { // the twin does not count what Put stamps
		return nil
	}
	record := slices.Clone(p.twin.row(keys[0]))
	if err := p.table.Put(keys[1], record); err != nil {
		return err
	}
	p.twin.rows[keys[1]] = &twinRow{record: record, stamp: p.twin.step + 1}
	return nil
}

func checkSnapshot(t *testing.T, rt *rapid.T) {
	cfg := drawConfig(rt)
	p := &pair{t: t, shards: 1 << rapid.IntRange(0, 4).Draw(rt, "log shards"), rng: rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))}
	p.table = p.open(cfg)
	p.tiered = !p.table.dense && rapid.Bool().Draw(rt, "tiered")
	p.table.Close()
	p.table = p.open(cfg)
	spec := p.open(Config{Name: cfg.Name, Parts: cfg.Parts, Values: cfg.Values, Admit: cfg.Admit, Evict: cfg.Evict})
	p.twin = newTwin(spec)
	defer func() { p.table.Close(); spec.Close() }()
	for range rapid.IntRange(1, 5).Draw(rt, "rounds") {
		for range p.rng.IntN(5) {
			fatal.If(rt, p.disturb())
		}
		fatal.If(rt, p.snapshotOnce())
		if err := p.twin.differ(p.table); err != nil {
			rt.Fatalf("the table after a snapshot: %v", err)
		}
	}
}

// TestSnapshotIsTheTableOfItsStep performs steps, deletions, evictions and moves to disk between
// the shards of a snapshot. The result has the bytes of a save at its start.
func TestSnapshotIsTheTableOfItsStep(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) { checkSnapshot(t, rt) })
}

// FuzzSnapshot: runs the same checks on fuzzed sequences of operations.
func FuzzSnapshot(f *testing.F) {
	f.Fuzz(func(t *testing.T, seed []byte) { rapid.MakeFuzz(func(rt *rapid.T) { checkSnapshot(t, rt) })(t, seed) })
}

// TestSnapshotOfUnknownStamps: rows that were saved without stamps get one when they are first
// considered for eviction. A snapshot that began earlier must not contain it.
func TestSnapshotOfUnknownStamps(t *testing.T) {
	from, to := openAs(t, Config{}), openAs(t, Config{Evict: Evict{Age: 5}})
	train(t, from, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8)
	for shard := range from.Shards() {
		var b bytes.Buffer
		fatal.If(t, from.SaveShard(&b, shard))
		fatal.If(t, to.LoadShard(&b, shard))
	}
	to.SetNow(1)
	want, err := stopped(to, Everything)
	fatal.If(t, err)
	s := to.Snapshot(Everything, []int{0, 1, 2, 3})
	train(t, to, 2, sweepEvery, 100)
	for shard := range want {
		if got, err := savedBy(s, shard); err != nil || !bytes.Equal(got, want[shard]) {
			t.Fatalf("shard %d: %v:\n%x\nwant\n%x", shard, err, got, want[shard])
		}
	}
}

// TestSnapshotOfForgottenRemovals: if the removed rows are no longer known, a shard without rows
// is saved as an empty one. Otherwise its old rows would return.
func TestSnapshotOfForgottenRemovals(t *testing.T) {
	x := openAs(t, Config{})
	train(t, x, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8)
	x.Delete([]uint64{1, 2, 3, 4, 5, 6, 7, 8})
	x.Forget(x.Now())
	s := x.Snapshot(0, []int{0, 1, 2, 3})
	for shard := range 4 {
		got, err := savedBy(s, shard)
		if err != nil || len(got) == 0 {
			t.Fatalf("shard %d: %d bytes: %v", shard, len(got), err)
		}
		if err := openAs(t, Config{}).LoadShard(bytes.NewReader(got), shard); err != nil {
			t.Errorf("shard %d: %v", shard, err)
		}
	}
}

// TestSnapshotEnds: another snapshot, loading or forgetting rows, and a failing disk end a
// snapshot.
func TestSnapshotEnds(t *testing.T) {
	for name, end := range map[string]func(x *Table, s *Snapshot){
		"another snapshot": func(x *Table, s *Snapshot) { x.Snapshot(Everything, nil) },
		"all forgotten":    func(x *Table, s *Snapshot) { x.Reset() },
		"rows were loaded": func(x *Table, s *Snapshot) { x.LoadShard(strings.NewReader(""), 0) },
		"closed":           func(x *Table, s *Snapshot) { s.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			x := openAs(t, Config{})
			train(t, x, 1, 1, 1, 2, 3)
			s := x.Snapshot(Everything, []int{0, 1, 2, 3})
			kept := s.kept
			end(x, s)
			if x.saving == kept {
				t.Error("steps still keep rows for the ended snapshot")
			}
			if _, err := savedBy(s, 0); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("error of the ended snapshot: %v", err)
			}
		})
	}
}

// TestSnapshotOfATornDisk: if a row that must be kept for a snapshot cannot be read, the
// snapshot ends with an error and the training continues.
func TestSnapshotOfATornDisk(t *testing.T) {
	x := openAs(t, Config{})
	fatal.If(t, x.OpenTier(t.TempDir(), 1))
	train(t, x, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8)
	if err := x.Find([]uint64{9}, make([]Row, 1)); err != nil || x.tier.rows() == 0 {
		t.Fatal("no row is on disk", err)
	}
	disk := x.tier.store
	x.tier.store = tornStore{disk}
	s := x.Snapshot(Everything, []int{0, 1, 2, 3})
	if n := x.Delete([]uint64{1, 2, 3, 4, 5, 6, 7, 8}); n != 8 {
		t.Fatalf("%d keys deleted", n)
	}
	if _, err := savedBy(s, 0); !errors.Is(err, syscall.EIO) {
		t.Errorf("error of the snapshot: %v", err)
	}
	x.tier.store = disk
	train(t, x, 2, 1, 1)
}

type tornStore struct{ store }

func (tornStore) get([]Row, func(int, []byte) error) error { return syscall.EIO }

// TestStepsDuringASnapshotDoNotAllocate: once the memory for a snapshot is allocated, steps
// during a snapshot allocate nothing.
func TestStepsDuringASnapshotDoNotAllocate(t *testing.T) {
	x := openAs(t, Config{})
	keys := make([]uint64, 3000)
	for i := range keys {
		keys[i] = uint64(i)
	}
	train(t, x, 1, 1, keys...)
	g := Gradients{Keys: keys, Values: make([]float32, len(keys)*x.Width())}
	s := x.Snapshot(Everything, []int{0, 1, 2, 3})
	n := int64(2)
	step := func() {
		if _, err := x.Apply(optim.Step{N: n, Scale: 1, Rate: 1}, g); err != nil {
			t.Fatal(err)
		}
		n++
	}
	step() // keeps every row
	if allocs := testing.AllocsPerRun(20, step); allocs > 0 {
		t.Errorf("%v allocations per step", allocs)
	}
	s.Close()
}

// TestSavingAgainFindsNoMemory: a snapshot reuses the memory of the previous one, except for a
// few words per section.
func TestSavingAgainFindsNoMemory(t *testing.T) {
	const shards, sections = 1024, 40
	x, err := Open(Config{Name: "x", Parts: []Part{{Name: "p", Dim: 1, Rule: optim.Rule{Kind: "sgd"}}}}, 1, shards)
	fatal.If(t, err)
	defer x.Close()
	all := make([]int, shards)
	for i := range all {
		all[i] = i
	}
	keys := make([]uint64, sections)
	for i := range keys {
		keys[i] = uint64(i)
	}
	train(t, x, 1, 1, keys...)
	section := func(_ Content, write func(io.Writer) error) error { return write(io.Discard) }
	save := func() {
		s := x.Snapshot(Everything, all)
		for _, shard := range all {
			fatal.If(t, s.Save(shard, section))
		}
		s.Close()
	}
	save()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	save()
	runtime.ReadMemStats(&after)
	if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 256*sections {
		t.Errorf("saving %d sections again took %d bytes of new memory", sections, bytes)
	}
}

// BenchmarkSnapshot measures steps during a snapshot. In "kept" every row has been kept for the
// snapshot already. In "first" each is kept for the first time.
func BenchmarkSnapshot(b *testing.B) {
	const rows, batch = 1 << 17, 1 << 12
	x, err := Open(Config{Name: "x", Parts: []Part{{Name: "p", Dim: 16, Rule: optim.Rule{Kind: "adagrad"}}}}, 1, 64)
	fatal.If(b, err)
	defer x.Close()
	keys := make([]uint64, rows)
	for i := range keys {
		keys[i] = uint64(i)
	}
	train(b, x, 1, 1, keys...)
	shards := make([]int, 64)
	for i := range shards {
		shards[i] = i
	}
	g := Gradients{Values: make([]float32, batch*x.Width())}
	n := int64(2)
	step := func(i int) {
		g.Keys = keys[i*batch%rows:][:batch]
		if _, err := x.Apply(optim.Step{N: n, Scale: 1, Rate: 1}, g); err != nil {
			b.Fatal(err)
		}
		n++
	}
	b.Run("without", func(b *testing.B) {
		for i := range b.N {
			step(i)
		}
	})
	b.Run("kept", func(b *testing.B) {
		s := x.Snapshot(Everything, shards)
		for i := range rows / batch {
			step(i)
		}
		b.ResetTimer()
		for i := range b.N {
			step(i)
		}
		s.Close()
	})
	b.Run("first", func(b *testing.B) {
		var s *Snapshot
		for i := range b.N {
			if i%(rows/batch) == 0 {
				b.StopTimer()
				if s != nil {
					s.Close()
				}
				s = x.Snapshot(Everything, shards)
				b.StartTimer()
			}
			step(i)
		}
		s.Close()
	})
}

// BenchmarkSave writes the rows of a table that is larger than the caches, in the order of keys.
func BenchmarkSave(b *testing.B) {
	const rows = 1 << 20
	for _, shards := range []int{64, 4096} {
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) {
			x, err := Open(Config{Name: "x", Parts: []Part{{Name: "p", Dim: 8, Rule: optim.Rule{Kind: "adagrad"}}}}, 1, shards)
			fatal.If(b, err)
			defer x.Close()
			keys := make([]uint64, rows)
			for i := range keys {
				keys[i] = uint64(i) * 0x9e3779b97f4a7c15
			}
			train(b, x, 1, 1, keys...)
			b.SetBytes(rows * int64(8+4*x.words()+4))
			for b.Loop() {
				for shard := range shards {
					fatal.If(b, x.SaveShard(io.Discard, shard))
				}
			}
		})
	}
}
