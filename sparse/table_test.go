package sparse

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/wdlrun/wdlrun/optim"
)

func TestPlacementCoversEveryShardOnce(t *testing.T) {
	for _, shards := range []int{1, 2, 64, 1024} {
		for ranks := 1; ranks <= 33; ranks++ {
			counts, last := make([]int, ranks), 0
			for shard := range shards {
				r := OwnerOf(shard, shards, ranks)
				if r < last || r >= ranks {
					t.Fatalf("shard %d of %d goes to rank %d of %d after rank %d", shard, shards, r, ranks, last)
				}
				counts[r]++
				last = r
			}
			if d := slices.Max(counts) - slices.Min(counts); d > 1 {
				t.Fatalf("%d shards on %d ranks: %v", shards, ranks, counts)
			}
		}
	}
}

func TestShardsAreEven(t *testing.T) {
	const shards, keys = 64, 64 * 1000
	counts := make([]int, shards)
	for key := range uint64(keys) { // small consecutive ids, the usual input
		counts[ShardOf(Salt("user"), key, shards)]++
	}
	for shard, n := range counts {
		if n < 800 || n > 1200 {
			t.Errorf("shard %d has %d of %d keys", shard, n, keys)
		}
	}
	if got := ShardOf(Salt("user"), 12345, 1); got != 0 {
		t.Errorf("of one shard, number %d was chosen", got)
	}
	homes := map[int]bool{}
	for _, table := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		homes[ShardOf(Salt(table), 0, 1024)] = true
	}
	if len(homes) < 7 {
		t.Errorf("key 0 of 8 tables lives in only %d shards", len(homes))
	}
}

// TestPlacementIsForever holds the placement and the initial rows that saved
// models depend on.
func TestPlacementIsForever(t *testing.T) {
	if got := []int{ShardOf(Salt("user"), 0, 1024), ShardOf(Salt("user"), 1, 1024), ShardOf(Salt("item"), math.MaxUint64, 65536)}; !slices.Equal(got, []int{608, 113, 38092}) {
		t.Errorf("shards %v", got)
	}
	w := make([]float32, 3)
	in := newInitial(Init{Kind: "uniform", Scale: 1}, 42, "user", "deep")
	in.fill(7, w)
	if !slices.Equal(w, []float32{0.0028885296, -0.49750048, 0.6824183}) {
		t.Errorf("uniform row %v", w)
	}
	in = newInitial(Init{Kind: "normal", Scale: 1}, 42, "user", "deep")
	in.fill(7, w)
	if err := near(w, []float32{-0.009226226, 1.1749215, 0.39385882}, 1e-6); err != nil {
		t.Errorf("normal row: %v", err)
	}
}

func TestInitialRowsHaveTheirDistribution(t *testing.T) {
	const keys, dim, scale = 4000, 5, 0.2
	for kind, want := range map[string]float64{"zero": 0, "normal": scale, "uniform": scale / math.Sqrt(3)} {
		in := newInitial(Init{Kind: kind, Scale: scale}, 1, "t", "p")
		var sum, squares, product float64
		w := make([]float32, dim)
		for key := range uint64(keys) {
			in.fill(key, w)
			for _, x := range w {
				sum += float64(x)
				squares += float64(x) * float64(x)
				if kind == "uniform" && math.Abs(float64(x)) > scale {
					t.Fatalf("uniform value %v is outside ±%v", x, scale)
				}
			}
			product += float64(w[0]) * float64(w[1])
		}
		n := float64(keys * dim)
		if mean, std := sum/n, math.Sqrt(squares/n); math.Abs(mean) > 0.01*scale*2 || math.Abs(std-want) > 0.02*scale {
			t.Errorf("%s: mean %v, standard deviation %v, want 0 and %v", kind, mean, std, want)
		}
		if r := product / keys / (scale * scale); math.Abs(r) > 0.06 {
			t.Errorf("%s: first and second value correlate by %v", kind, r)
		}
	}
}

func TestInitialRowsDependOnAllTheirNames(t *testing.T) {
	row := func(seed uint64, table, part string, key uint64) float32 {
		in, w := newInitial(Init{Kind: "normal", Scale: 1}, seed, table, part), make([]float32, 1)
		in.fill(key, w)
		return w[0]
	}
	seen := map[float32]bool{}
	for _, v := range []float32{row(1, "a", "p", 1), row(2, "a", "p", 1), row(1, "b", "p", 1), row(1, "a", "q", 1), row(1, "a", "p", 2)} {
		seen[v] = true
	}
	if len(seen) != 5 {
		t.Fatalf("only %d of 5 rows differ", len(seen))
	}
}

func TestKeySetEqualsAMap(t *testing.T) {
	var s keySet
	rapid.Check(t, func(rt *rapid.T) {
		if rapid.IntRange(0, 9).Draw(rt, "wrap") == 0 {
			s.epoch = math.MaxUint32 // the next reset wraps
		}
		s.reset()
		ids := map[uint64]uint32{}
		for range 3 {
			keys := rapid.SliceOfN(rapid.OneOf(rapid.Uint64Range(0, 50), rapid.Uint64()), 0, 300).Draw(rt, "keys")
			got := make([]uint32, len(keys))
			s.addAll(5, keys, got)
			for i, key := range keys {
				if _, ok := ids[key]; !ok {
					ids[key] = uint32(len(ids))
				}
				if got[i] != ids[key] || s.keys[got[i]] != key {
					rt.Fatalf("key %d has number %d, want %d", key, got[i], ids[key])
				}
			}
		}
		if len(s.keys) != len(ids) {
			rt.Fatalf("%d keys, want %d", len(s.keys), len(ids))
		}
	})
}

func TestRowsNeverMoveAndKeysStayFound(t *testing.T) {
	cfg := plainConfig(3)
	s := open(t, cfg)
	x := s.tables[0]
	rng := rand.New(rand.NewPCG(2, 2))
	rows, records := map[uint64]uint32{}, map[uint64]*float32{}
	for n := range 50_000 {
		key := rng.Uint64() >> (rng.Uint64() % 64)
		if n%2 == 0 { // keys that differ in one half only
			key = uint64(rng.IntN(100))<<32 | uint64(rng.IntN(100))
		}
		r := x.find(key)
		if have := rows[key]; r != have {
			t.Fatalf("key %d is in row %d, was put in row %d", key, r, have)
		}
		if r == 0 {
			rows[key] = x.insert(key)
			records[key] = &x.rows.row(rows[key])[0]
		}
	}
	for key, r := range rows {
		if x.find(key) != r || &x.rows.row(r)[0] != records[key] {
			t.Fatalf("key %d moved", key)
		}
	}
	if s.Rows(0) != len(rows) {
		t.Fatalf("%d rows, want %d", s.Rows(0), len(rows))
	}
}

// TestMemoryPerKey holds the promise of the package comment.
func TestMemoryPerKey(t *testing.T) {
	cfg := Config{Shards: 4, Tables: []Table{{Name: "x", Parts: []Part{
		{Name: "deep", Dim: 8, Rule: optim.Rule{Kind: "adam"}}, {Name: "wide", Dim: 1, Rule: optim.Rule{Kind: "ftrl"}},
	}}}}
	x := open(t, cfg).tables[0]
	thresholds, worst := map[int]bool{}, 0.0
	for key := range uint64(60_000) {
		x.insert(key)
		if key < 1000 {
			continue
		}
		var index int
		for i := range x.shards {
			index += indexSlotBytes * len(x.shards[i].slots)
			thresholds[x.shards[i].limit*64/len(x.shards[i].slots)] = true
		}
		worst = max(worst, float64(index)/float64(key+1))
	}
	if worst > 40 {
		t.Errorf("the index takes %.1f bytes a key, 40 are promised", worst)
	}
	if len(thresholds) < 4 {
		t.Errorf("4 shards grow at only %d thresholds", len(thresholds))
	}
	if rows := float64(x.rows.bytes()) / 60_000; rows > 4*27*1.02 {
		t.Errorf("a record takes %.1f bytes, want 108", rows)
	}
}

func TestOrderFreeSum(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		xs := rapid.SliceOfN(rapid.Float64Range(0, math.MaxFloat64/1000), 0, 50).Draw(rt, "numbers")
		xs = append(xs, 0, 5e-324, 1e-310, 1, 1e-16)
		total := func() float64 {
			var s orderFreeSum
			for _, x := range xs {
				s.add(x)
			}
			return s.total()
		}
		got := total()
		exact := new(big.Float).SetPrec(4000)
		for _, x := range xs {
			exact.Add(exact, new(big.Float).SetFloat64(x))
		}
		if want, _ := exact.Float64(); math.Abs(got-want) > 1e-14*want {
			rt.Fatalf("%v sum to %v, exactly %v", xs, got, want)
		}
		rand.New(rand.NewPCG(1, 2)).Shuffle(len(xs), func(i, k int) { xs[i], xs[k] = xs[k], xs[i] })
		if again := total(); again != got {
			rt.Fatalf("shuffled, the sum is %v, was %v", again, got)
		}
	})
	var s orderFreeSum
	s.add(math.Inf(1))
	if !math.IsInf(s.total(), 1) {
		t.Fatal("an infinity is lost")
	}
	s.add(math.NaN())
	if !math.IsNaN(s.total()) {
		t.Fatal("a NaN is lost")
	}
	s.reset()
	for range 1 << 13 { // more mantissas than 64 bits hold
		s.add(0x1.fffffffffffffp0)
	}
	if got, want := s.total(), 0x1.fffffffffffffp13; got != want {
		t.Fatalf("sum %x, want %x", got, want)
	}
}

func TestValidateReportsEveryFault(t *testing.T) {
	bad := Config{Shards: 3, MaxKeysPerExchange: -1, Tables: []Table{
		{Name: "x", Parts: []Part{
			{Name: "p", Dim: 0, L2: -1, Init: Init{Kind: "ones", Scale: math.NaN()}, Rule: optim.Rule{Kind: "lion"}},
			{Name: "p", Dim: MaxDim + 1, L2: math.Inf(1)},
		}},
		{Name: "x"},
		{Name: strings.Repeat("n", 256), Parts: make([]Part, MaxParts+1)},
	}}
	err := bad.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{
		"3 shards", "-1 keys", `table 0 ("x"): part 0 ("p"): dim 0`, "L2 -1", `kind "ones"`, "scale NaN", `"lion"`,
		`part 1: the name "p" is taken`, "dim 4097", "L2 +Inf", `the name "x" is taken`, "0 parts", "1 to 255 bytes", "17 parts",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no word of %q in\n%v", want, err)
		}
	}
	if err := (Config{}).Validate(); err == nil || !strings.Contains(err.Error(), "0 tables") {
		t.Errorf("an empty configuration: %v", err)
	}
	if _, err := Open(Local{}, bad); err == nil {
		t.Error("opened with faults")
	}
	if _, err := Open(nil, plainConfig(1)); err == nil {
		t.Error("opened without an Exchanger")
	}
	if _, err := Open(member{newGroup(2), 2}, plainConfig(1)); err == nil {
		t.Error("opened as rank 2 of 2")
	}
}

func TestDefaults(t *testing.T) {
	cfg := Config{Tables: []Table{{Name: "x", Parts: []Part{{Name: "deep", Dim: 8}, {Name: "wide", Dim: 1}}}}}
	got := open(t, cfg).Config()
	deep, wide := got.Tables[0].Parts[0], got.Tables[0].Parts[1]
	if got.Shards != 1024 || deep.Init != (Init{"normal", 0.01}) || wide.Init.Kind != "zero" || deep.Rule.Kind != "sgd" {
		t.Fatalf("defaults %+v", got)
	}
	if cfg.Tables[0].Parts[0].Rule.Kind != "" {
		t.Fatal("Default changed the caller's configuration")
	}
}

func TestTooManyRowsIsAnError(t *testing.T) {
	s := open(t, plainConfig(1))
	l := s.NewLookup()
	if err := errors.Join(s.Pull(l, oneBag(1), true), s.Push(l)); err != nil {
		t.Fatal(err)
	}
	s.tables[0].rows.n = maxRows
	if err := s.Apply(Step{N: 1, Scale: 1, Rate: 1}); err == nil || !strings.Contains(err.Error(), "use more ranks") {
		t.Fatalf("applied past the last row number: %v", err)
	}
}
