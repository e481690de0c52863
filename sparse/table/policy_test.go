package table

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/wdlrun/wdlrun/internal/kernel/f32"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/golden"
	"github.com/wdlrun/wdlrun/optim"
)

// openAs opens a table with one row-wise part and the given configuration.
func openAs(t testing.TB, cfg Config) *Table {
	t.Helper()
	cfg.Name, cfg.Parts = "x", []Part{{Name: "p", Dim: 3, Rule: optim.Rule{Kind: "adagrad"}}}
	x, err := Open(cfg, 1, 4)
	fatal.If(t, err)
	t.Cleanup(func() { x.Close() })
	return x
}

// train performs steps with the same keys, beginning at step first.
func train(t testing.TB, x *Table, first, steps int, keys ...uint64) (done Applied) {
	t.Helper()
	g := Gradients{Keys: keys, Values: make([]float32, len(keys)*x.Width())}
	for i := range g.Values {
		g.Values[i] = float32(i%7) - 3
	}
	for n := range steps {
		d, err := x.Apply(optim.Step{N: int64(first + n), Scale: 1, Rate: 1}, g)
		fatal.If(t, err)
		done.Inserted, done.Refused, done.Steps = done.Inserted+d.Inserted, done.Refused+d.Refused, done.Steps+d.Steps
	}
	return done
}

// TestAdmissionWaitsForSightings: a key gets a row at the occurrence that Admit.After sets, and
// not before.
func TestAdmissionWaitsForSightings(t *testing.T) {
	x := openAs(t, Config{Admit: Admit{After: 3}})
	if d := train(t, x, 1, 2, 5, 6); d != (Applied{Refused: 4}) || x.Rows() != 0 {
		t.Fatalf("after two occurrences %+v, %d rows", d, x.Rows())
	}
	initial := read(t, x, 5)
	if d := train(t, x, 3, 1, 5); d != (Applied{Inserted: 1, Steps: 1}) || x.Rows() != 1 {
		t.Fatalf("at the third %+v, %d rows", d, x.Rows())
	}
	if slices.Equal(read(t, x, 5), initial) {
		t.Fatal("the admitted key took no step")
	}
	if c := x.Counters(); c.Refused != 4 || c.Inserted != 1 {
		t.Fatalf("counters %+v", c)
	}
}

// one counts an occurrence of a key in a step of its own and returns the count so far.
func (s *sketch) one(h uint64) int {
	n := s.times(h)
	s.count(h, n)
	s.fade()
	return int(n) + 1
}

// TestSketchNeverUndercounts: a sketch never counts fewer occurrences than there were, and
// halves its counts when it is full.
func TestSketchNeverUndercounts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s, counts := newSketch(rapid.IntRange(0, 4096).Draw(rt, "counters")), map[uint64]int{}
		for range rapid.IntRange(0, len(s.counts)-1).Draw(rt, "occurrences") { // one less than the number that halves all counts
			h := f32.Mix(uint64(rapid.IntRange(0, 300).Draw(rt, "key")))
			counts[h]++
			if n := s.one(h); n < min(255, counts[h]) {
				rt.Fatalf("%d occurrences counted as %d", counts[h], n)
			}
		}
	})
	s := newSketch(1 << 14)
	for i := range uint64(1000) {
		s.one(f32.Mix(i))
	}
	if n := s.one(f32.Mix(1 << 40)); n != 1 {
		t.Errorf("with 1000 keys in 16384 counters, a new key is counted as %d", n)
	}
	s.seen = len(s.counts) - 2
	s.one(f32.Mix(1))
	if n := s.one(f32.Mix(1)); n != 3 { // the count is then halved to 1
		t.Errorf("the third occurrence of a key is counted as %d", n)
	}
	if n := s.one(f32.Mix(1)); n != 2 {
		t.Errorf("after the counts were halved, the next occurrence is counted as %d", n)
	}
}

// TestSightingsHaveNoOrder: the order of the keys in a step depends on the number of ranks. The
// same keys get a row in any order, even if the sketch is far too small.
func TestSightingsHaveNoOrder(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 9))
		a, b := openAs(t, Config{Admit: Admit{After: 3, Counters: 256}}), openAs(t, Config{Admit: Admit{After: 3, Counters: 256}})
		for n := range 30 {
			var keys []uint64
			for range rng.IntN(200) {
				keys = append(keys, rng.Uint64N(2000))
			}
			slices.Sort(keys)
			keys = slices.Compact(keys)
			one := train(t, a, n+1, 1, keys...)
			slices.Reverse(keys)
			other := train(t, b, n+1, 1, keys...)
			if one.Inserted != other.Inserted {
				t.Fatalf("step %d: %+v, in another order %+v", n+1, one, other)
			}
			for shard := range a.Shards() {
				if x, y := seenOf(t, a, shard), seenOf(t, b, shard); !bytes.Equal(x, y) {
					t.Fatalf("step %d: shard %d: the occurrences are\n%x\nin another order\n%x", n+1, shard, x, y)
				}
			}
		}
	}
}

// seenOf returns the output of SaveSeen.
func seenOf(t testing.TB, x *Table, shard int) []byte {
	t.Helper()
	var b bytes.Buffer
	fatal.If(t, x.SaveSeen(&b, shard))
	return b.Bytes()
}

// sighted returns a table that has counted keys but has no rows.
func sighted(t testing.TB) *Table {
	x := openAs(t, Config{Admit: Admit{After: 200, Counters: 4 * 256}})
	var keys []uint64
	for i := range uint64(300) {
		keys = append(keys, i)
	}
	train(t, x, 1, 2, keys...)
	train(t, x, 3, 5, keys[:7]...)
	return x
}

// TestSightingsGoOn: a table that has loaded occurrences continues to count like the table that
// saved them.
func TestSightingsGoOn(t *testing.T) {
	x, y := sighted(t), openAs(t, Config{Admit: Admit{After: 200, Counters: 4 * 256}})
	other, all := openAs(t, Config{Admit: Admit{After: 200, Counters: 4 * 512}}), openAs(t, Config{})
	for shard := range x.Shards() {
		b := seenOf(t, x, shard)
		for _, to := range []*Table{y, other, all} {
			fatal.If(t, to.LoadSeen(bytes.NewReader(b), shard))
		}
		if !x.Seen(shard) || !bytes.Equal(seenOf(t, y, shard), b) {
			t.Fatalf("shard %d: the occurrences changed by saving and loading", shard)
		}
		if other.Seen(shard) || all.Seen(shard) {
			t.Fatalf("shard %d: occurrences with another number of counters were accepted", shard)
		}
	}
	var keys []uint64
	for i := range uint64(200) {
		keys = append(keys, i*7)
	}
	train(t, x, 8, 3, keys...)
	train(t, y, 8, 3, keys...)
	for shard := range x.Shards() {
		if !bytes.Equal(seenOf(t, x, shard), seenOf(t, y, shard)) {
			t.Fatalf("shard %d: the table counts differently after loading", shard)
		}
	}
}

// TestDamagedSightingsAreRefused: damaged files of occurrences are rejected.
func TestDamagedSightingsAreRefused(t *testing.T) {
	b := seenOf(t, sighted(t), 1)
	refused := func(what string, file []byte) {
		t.Helper()
		x := openAs(t, Config{Admit: Admit{After: 200, Counters: 4 * 256}})
		err := x.LoadSeen(bytes.NewReader(file), 1)
		if err == nil || !strings.HasPrefix(err.Error(), `table "x": occurrences of shard 1: `) {
			t.Fatalf("%s: %v", what, err)
		}
		if x.Seen(1) {
			t.Fatalf("%s: the file was accepted", what)
		}
	}
	for n := range b {
		refused(fmt.Sprintf("cut at byte %d", n), b[:n])
		file := slices.Clone(b)
		file[n] ^= 0x10
		refused(fmt.Sprintf("byte %d flipped", n), file)
	}
	head := 16 + int(binary.LittleEndian.Uint32(b[12:]))
	for what, change := range map[string]func(b []byte){
		"too many counters":    func(b []byte) { binary.LittleEndian.PutUint64(b[head+8:], maxCounters+8) },
		"occurrences to halve": func(b []byte) { binary.LittleEndian.PutUint64(b[head:], 256) },
		"no whole group":       func(b []byte) { binary.LittleEndian.PutUint64(b[head+8:], 255) },
		"packed beyond reason": func(b []byte) { binary.LittleEndian.PutUint64(b[head+16:], 256/8+257) },
		"a counted zero":       func(b []byte) { b[head+24] |= 1; b[head+25] = 0 },
		"fewer than it tells":  func(b []byte) { b[head+24] ^= 0xff },
	} {
		file := slices.Clone(b)
		change(file)
		binary.LittleEndian.PutUint32(file[len(file)-4:], crc32.Checksum(file[:len(file)-4], castagnoli))
		refused(what, file)
	}
}

// FuzzLoadSeen: a file of occurrences that is accepted is saved with the same bytes.
func FuzzLoadSeen(f *testing.F) {
	b := seenOf(f, sighted(f), 1)
	f.Add(b)
	f.Add(b[:40])
	f.Fuzz(func(t *testing.T, file []byte) {
		x := openAs(t, Config{Admit: Admit{After: 200, Counters: 4 * 256}})
		r := bytes.NewReader(file)
		if err := x.LoadSeen(r, 1); err != nil || !x.Seen(1) {
			return
		}
		if again := seenOf(t, x, 1); !bytes.Equal(again, file[:len(file)-r.Len()]) {
			t.Fatalf("%x is saved again as %x", file, again)
		}
	})
}

// TestRowsGivenUpMakeRoom: a table with MaxRows reuses the memory of evicted rows.
func TestRowsGivenUpMakeRoom(t *testing.T) {
	x := openAs(t, Config{Evict: Evict{MaxRows: 4000}})
	keys := make([]uint64, 500)
	for n := range 100 {
		for i := range keys {
			keys[i] = uint64(n*len(keys) + i)
		}
		train(t, x, n+1, 1, keys...)
		if x.Rows() > 4000 {
			t.Fatalf("%d rows", x.Rows())
		}
	}
	if x.used > 5000 {
		t.Errorf("%d row numbers were used, although there were at most 4500 rows at a time", x.used)
	}
	if c := x.Counters(); c.Inserted-c.Evicted != int64(x.Rows()) || c.Evicted < 45_000 {
		t.Errorf("%d rows, counters %+v", x.Rows(), c)
	}
}

// TestAgeCountsFromTheLastGradient: rows are evicted Age steps after their last gradient, not
// after their insertion.
func TestAgeCountsFromTheLastGradient(t *testing.T) {
	x := openAs(t, Config{Evict: Evict{Age: 100}})
	train(t, x, 1, 1, 1, 2)
	train(t, x, 90, 1, 2)
	train(t, x, 91, 2*sweepEvery-30, 3)
	if n := x.Rows(); n != 3-1 && n != 3 {
		t.Fatalf("%d rows", n)
	}
	train(t, x, 300, sweepEvery, 3)
	rows := make([]Row, 3)
	if err := x.Find([]uint64{1, 2, 3}, rows); err != nil || rows[0] != 0 || rows[1] != 0 || rows[2] == 0 {
		t.Fatalf("rows of keys with age 363, 273 and 0: %v: %v", rows, err)
	}
}

// TestDeltasNeedTheirPast: the changes since a step are known if its removals are listed.
func TestDeltasNeedTheirPast(t *testing.T) {
	x := openAs(t, Config{})
	train(t, x, 1, 5, 1, 2, 3)
	x.Delete([]uint64{2})
	train(t, x, 6, 1, 1)
	x.Forget(3)
	var keys []uint64
	for shard := range x.Shards() {
		if _, known := changes(x, shard, 2); known {
			t.Error("the changes since a forgotten step are known")
		}
		list, known := changes(x, shard, 5)
		for _, e := range list {
			if !known || e.isGone() != (e.key == 2) {
				t.Errorf("key %d: removed %v, known %v", e.key, e.isGone(), known)
			}
			keys = append(keys, e.key)
		}
	}
	if slices.Sort(keys); !slices.Equal(keys, []uint64{1, 2}) {
		t.Errorf("keys %d have changed since step 5, want 1 and 2", keys)
	}
	x.Forget(6)
	if x.removed.bytes() > 24 && len(x.removed.keys) != 0 {
		t.Error("removed keys are still recorded after Forget")
	}
}

// TestDeltasStayReadable compares deltas of every format version with stored bytes, and loads
// them.
func TestDeltasStayReadable(t *testing.T) {
	for version, halfLife := range map[int]int{1: 0, 2: 100} {
		cfg := Config{Name: "user", Evict: Evict{HalfLife: halfLife}, Parts: []Part{
			{Name: "deep", Dim: 2, Rule: optim.Rule{Kind: "adam"}, DenseL2: true}, {Name: "wide", Dim: 1, Rule: optim.Rule{Kind: "ftrl"}},
		}}
		var tables [2]*Table
		for i := range tables {
			var err error
			tables[i], err = Open(cfg, 0, 1)
			fatal.If(t, err)
			defer tables[i].Close()
		}
		x, loaded := tables[0], tables[1]
		for _, key := range []uint64{math.MaxUint64, 0, 1000} {
			record := make([]float32, x.RecordLen())
			for i := range record {
				record[i] = float32(key%97) + float32(i)/8
			}
			fatal.If(t, x.Put(key, record))
		}
		x.Delete([]uint64{0})
		x.SetNow(5)
		var b bytes.Buffer
		fatal.If(t, saveChanges(x, &b, 0, 0))
		golden.Check(t, fmt.Sprintf("delta-v%d.hex", version), hex.Dump(b.Bytes()))
		if now, err := loaded.LoadDelta(iotest.OneByteReader(&b), 0); err != nil || now != 5 || !bytes.Equal(saved(t, loaded), saved(t, x)) {
			t.Errorf("version %d: a delta to step %d, want 5: %v", version, now, err)
		}
	}
}

// TestTablesThatEvictGoOnAfterADelta: a table that has loaded a delta evicts the same rows at
// the same steps as the table that was trained.
func TestTablesThatEvictGoOnAfterADelta(t *testing.T) {
	for _, cfg := range []Config{
		{Evict: Evict{MaxRows: 400, HalfLife: 7}}, {Evict: Evict{Age: 30}}, {Evict: Evict{HalfLife: 5, MinScore: 0.2}}, {Evict: Evict{MaxRows: 300}},
	} {
		lived, loaded := openAs(t, cfg), openAs(t, cfg)
		rng := rand.New(rand.NewPCG(1, 2))
		draw := func() (keys []uint64) {
			for range 60 {
				keys = append(keys, rng.Uint64N(1+rng.Uint64N(3000)))
			}
			slices.Sort(keys)
			return slices.Compact(keys)
		}
		pass := func(first, last int, to ...*Table) {
			for n := first; n <= last; n++ {
				keys := draw()
				for _, x := range to {
					train(t, x, n, 1, keys...)
				}
			}
		}
		pass(1, 40, lived)
		for shard := range lived.Shards() {
			var b bytes.Buffer
			fatal.If(t, errors.Join(lived.SaveShard(&b, shard), loaded.LoadShard(&b, shard)))
		}
		loaded.SetNow(40)
		pass(41, 90, lived)
		for shard := range lived.Shards() {
			var b bytes.Buffer
			fatal.If(t, saveChanges(lived, &b, shard, 40))
			if _, err := loaded.LoadDelta(&b, shard); err != nil {
				t.Fatal(err)
			}
		}
		loaded.SetNow(90)
		pass(91, 200, lived, loaded)
		if !bytes.Equal(saved(t, lived), saved(t, loaded)) {
			t.Errorf("%+v: the tables have different rows, %d and %d", cfg.Evict, lived.Rows(), loaded.Rows())
		}
		if lived.Counters().Evicted < 100 {
			t.Errorf("%+v: only %d rows were evicted: too few for this test", cfg.Evict, lived.Counters().Evicted)
		}
	}
}

// someDelta returns a table at step 3 and the delta to step 5 of one shard.
func someDelta(t testing.TB, cfg Config) (*Table, []byte, int) {
	x, behind := openAs(t, cfg), openAs(t, cfg)
	train(t, x, 1, 3, 1, 2, 3, 4, 5, 6)
	train(t, behind, 1, 3, 1, 2, 3, 4, 5, 6)
	train(t, x, 4, 1, 1, 2, 3, 4, 9)
	x.Delete([]uint64{5, 6})
	train(t, x, 5, 1, 2)
	shard := x.ShardOf(5)
	var b bytes.Buffer
	fatal.If(t, saveChanges(x, &b, shard, 3))
	return behind, b.Bytes(), shard
}

func saved(t testing.TB, x *Table) (all []byte) {
	for shard := range x.Shards() {
		var b bytes.Buffer
		fatal.If(t, x.SaveShard(&b, shard))
		all = append(all, b.Bytes()...)
	}
	return all
}

// TestDamagedDeltasChangeNothing: a damaged delta, or one of another shard or step, is rejected
// and changes nothing.
func TestDamagedDeltasChangeNothing(t *testing.T) {
	for _, cfg := range []Config{{}, {Evict: Evict{HalfLife: 9}}} {
		damageDelta(t, cfg)
	}
}

func damageDelta(t *testing.T, cfg Config) {
	x, b, shard := someDelta(t, cfg)
	before := saved(t, x)
	refused := func(what string, file []byte) {
		if _, err := x.LoadDelta(bytes.NewReader(file), shard); err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf(`table "x": delta of shard %d: `, shard)) {
			t.Fatalf("%s: %v", what, err)
		}
		if !bytes.Equal(saved(t, x), before) {
			t.Fatalf("%s: the table has changed", what)
		}
	}
	for n := range b {
		refused(fmt.Sprintf("cut at byte %d", n), b[:n])
		file := slices.Clone(b)
		file[n] ^= 4
		refused(fmt.Sprintf("byte %d flipped", n), file)
	}
	if _, err := x.LoadDelta(bytes.NewReader(b), (shard+1)%4); err == nil || !strings.Contains(err.Error(), "the file holds shard") {
		t.Errorf("the delta of another shard: %v", err)
	}
	if now, err := x.LoadDelta(bytes.NewReader(b), shard); err != nil || now != 5 {
		t.Fatalf("the intact delta: %v", err)
	}
	if bytes.Equal(saved(t, x), before) {
		t.Fatal("the intact delta changed nothing")
	}
	x.SetNow(9)
	if _, err := x.LoadDelta(bytes.NewReader(b), shard); err == nil || !strings.Contains(err.Error(), "it contains steps 3 to 5, the table is at step 9") {
		t.Errorf("a delta of the past: %v", err)
	}
}

// FuzzLoadDelta loads files with a valid checksum. A file that is rejected changes nothing.
func FuzzLoadDelta(f *testing.F) {
	for _, cfg := range []Config{{}, {Evict: Evict{HalfLife: 9}}} {
		_, b, _ := someDelta(f, cfg)
		f.Add(b[:len(b)-4])
		f.Add(b[:50])
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		x, _, shard := someDelta(t, Config{Evict: Evict{HalfLife: 9}})
		before := saved(t, x)
		file = binary.LittleEndian.AppendUint32(slices.Clip(file), crc32.Checksum(file, castagnoli))
		if _, err := x.LoadDelta(bytes.NewReader(file), shard); err != nil && !bytes.Equal(saved(t, x), before) {
			t.Fatalf("the table has changed: %v", err)
		}
	})
}

// TestRoundingToBFloat16: rounding to nearest gives the expected values. Stochastic rounding
// gives one of the two neighbours and is exact in the mean.
func TestRoundingToBFloat16(t *testing.T) {
	round := func(v float32, by func(w, v []float32)) float32 {
		words, out := make([]float32, 1), make([]float32, 1)
		by(words, []float32{v})
		expand(out, words)
		return out[0]
	}
	for v, want := range map[float32]float32{
		1: 1, 1 + 1./512: 1, 1 + 3./256: 1 + 1./64, -1 - 1./256: -1, 3e38: 0x1.c4p127, 0: 0,
	} {
		if got := round(v, nearest); got != want {
			t.Errorf("%v is rounded to %v, want %v", v, got, want)
		}
	}
	inf := float32(math.Inf(1))
	for _, by := range []func(w, v []float32){nearest, func(w, v []float32) { stochastic(w, v, 3) }} {
		if v := round(float32(math.NaN()), by); v == v {
			t.Errorf("a NaN is rounded to %v", v)
		}
		if v := round(math.Float32frombits(0x7f800001), by); v == v {
			t.Errorf("a NaN with only low bits set is rounded to %v", v)
		}
		if v := round(inf, by); v != inf {
			t.Errorf("infinity is rounded to %v", v)
		}
	}
	const v, n = 1 + 0.3/128, 20_000
	sum := 0.0
	for seed := range uint64(n) {
		x := round(v, func(w, v []float32) { stochastic(w, v, f32.Mix(seed)) })
		if x != 1 && x != 1+1./128 {
			t.Fatalf("%v is rounded to %v", v, x)
		}
		sum += float64(x)
	}
	if mean := sum / n; math.Abs(mean-v) > 0.0001 {
		t.Errorf("%v is rounded to %v on average", v, mean)
	}
	if x := round(math.MaxFloat32, func(w, v []float32) { stochastic(w, v, 1) }); math.IsInf(float64(x), 0) {
		t.Error("the largest number is rounded to infinity")
	}
}

// TestSetCountsByOwner: a Set counts its keys by owner.
func TestSetCountsByOwner(t *testing.T) {
	owner := []int32{2, 0, 2, 1}
	s := NewSet(9, owner, 3)
	keys, ids := make([]uint64, 1000), make([]uint32, 1000)
	for i := range keys {
		keys[i] = rand.New(rand.NewPCG(uint64(i), 1)).Uint64N(300)
	}
	for range 2 {
		s.Reset()
		s.Add(keys, ids)
		counts := make([]int, 3)
		for i, key := range s.Keys() {
			if want := owner[ShardOf(9, key, 4)]; s.Owners()[i] != want {
				t.Fatalf("key %d belongs to %d, want %d", key, s.Owners()[i], want)
			}
			counts[s.Owners()[i]]++
		}
		if !slices.Equal(counts, s.Counts()) || s.Len() != len(s.Keys()) {
			t.Fatalf("counts %v, want %v", s.Counts(), counts)
		}
	}
}

// TestFaultsOfPoliciesAreNamed: invalid settings of admission, eviction and precision are
// reported.
func TestFaultsOfPoliciesAreNamed(t *testing.T) {
	faults := fmt.Sprint(Config{Name: "x", Values: "float16", Parts: []Part{{Name: "p", Dim: 1}},
		Admit: Admit{After: 256, Counters: -1}, Evict: Evict{Age: -1, MaxRows: -1, MinScore: 2}}.Validate())
	for _, want := range []string{`values "float16"`, "after 256", "-1 counters", "age -1", "-1 rows", "needs a half-life"} {
		if !strings.Contains(faults, want) {
			t.Errorf("no %q in %s", want, faults)
		}
	}
	if faults := (Config{Name: "x", Values: BFloat16, Parts: []Part{{Name: "p", Dim: 1, DenseL2: true}}}).Validate(); len(faults) != 1 {
		t.Errorf("bfloat16 under DenseL2: %v", faults)
	}
}

// TestSharesSumToTheLimit distributes limits over shards. A table that was saved under another
// limit is reduced to its share.
func TestSharesSumToTheLimit(t *testing.T) {
	for _, limit := range []int{1, 3, 1023, 1024, 1025, 1500, 2048, 10_000, math.MaxInt} {
		sum, least, most := 0, math.MaxInt, 0
		for shard := range 1024 {
			n := Evict{MaxRows: limit}.Share(shard, 1024)
			sum, least, most = sum+n, min(least, n), max(most, n)
		}
		if sum != max(limit, 1024) || most-least > 1 {
			t.Errorf("limit %d: shares of %d to %d rows, sum %d", limit, least, most, sum)
		}
	}
	was, now := openAs(t, Config{Evict: Evict{MaxRows: 4000}}), openAs(t, Config{Evict: Evict{MaxRows: 301}})
	keys := make([]uint64, 1000)
	for i := range keys {
		keys[i] = uint64(i)
	}
	train(t, was, 1, 1, keys...)
	for shard := range was.Shards() {
		var b bytes.Buffer
		fatal.If(t, errors.Join(was.SaveShard(&b, shard), now.LoadShard(&b, shard)))
	}
	now.SetNow(1)
	if now.Rows() < 900 {
		t.Fatalf("%d of %d rows were loaded", now.Rows(), was.Rows())
	}
	train(t, now, 2, 1, 1)
	if n := now.Rows(); n > 301 || n < 301*15/16 {
		t.Errorf("%d rows are left under a limit of 301", n)
	}
}

// TestKeysThatAreNotAdmittedHaveNoNorm: the norm for clipping counts only gradients that the
// step uses. Gradients of keys that are not admitted yet are dropped and do not count.
func TestKeysThatAreNotAdmittedHaveNoNorm(t *testing.T) {
	x := openAs(t, Config{Admit: Admit{After: 3}})
	g := Gradients{Keys: []uint64{5}, Values: []float32{3, 0, 4}}
	for n, want := range []float64{0, 0, 25, 25} {
		var sum Sum
		x.NormSq(1, g, &sum)
		if got := sum.Total(); got != want {
			t.Errorf("step %d: the squared norm is %v, want %v", n+1, got, want)
		}
		if _, err := x.Apply(optim.Step{N: int64(n + 1), Scale: 1, Rate: 1}, g); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEvictedKeysWaitAgain: a key whose row was evicted or deleted needs as many occurrences as
// a new key. This also holds after the occurrences were saved and loaded.
func TestEvictedKeysWaitAgain(t *testing.T) {
	for _, loses := range []func(x *Table){
		func(x *Table) { train(t, x, 4, 200) },
		func(x *Table) { x.Delete([]uint64{5}) },
	} {
		x := openAs(t, Config{Admit: Admit{After: 3}, Evict: Evict{Age: 100}})
		if train(t, x, 1, 3, 5); x.Rows() != 1 {
			t.Fatal("the key is not admitted")
		}
		if loses(x); x.Rows() != 0 {
			t.Fatal("the key still has its row")
		}
		shard := x.ShardOf(5)
		loaded := openAs(t, x.Config())
		var seen bytes.Buffer
		fatal.If(t, errors.Join(x.SaveSeen(&seen, shard), loaded.LoadSeen(&seen, shard)))
		for _, of := range []*Table{x, loaded} {
			if train(t, of, 300, 2, 5); of.Rows() != 0 {
				t.Error("the key has a row again after two occurrences")
			}
			if train(t, of, 302, 1, 5); of.Rows() != 1 {
				t.Error("the key has no row after three occurrences")
			}
		}
	}
}
