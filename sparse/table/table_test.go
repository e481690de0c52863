package table

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/optim"
)

// open opens a table that is closed when the test ends.
func open(t testing.TB, shards int, parts ...Part) *Table {
	t.Helper()
	x, err := Open(Config{Name: "x", Parts: parts}, 1, shards)
	fatal.If(t, err)
	t.Cleanup(func() { x.Close() })
	return x
}

// read returns the values of one key.
func read(t testing.TB, x *Table, key uint64) []float32 {
	t.Helper()
	row, dst := make([]Row, 1), make([]float32, x.Width())
	fatal.If(t, x.Find([]uint64{key}, row))
	x.Read([]uint64{key}, row, dst, x.Width())
	return dst
}

// TestInitialRowsAreForever compares initial rows with stored values, because saved models
// depend on them.
func TestInitialRowsAreForever(t *testing.T) {
	w := make([]float32, 3)
	in := newInitial(Init{Kind: "uniform", Scale: 1}, 42, "user", "deep")
	in.fill(7, w)
	if !slices.Equal(w, []float32{0.0028885296, -0.49750048, 0.6824183}) {
		t.Errorf("uniform row %v", w)
	}
	in = newInitial(Init{Kind: "normal", Scale: 1}, 42, "user", "deep")
	in.fill(7, w)
	for i, want := range []float64{-0.009226226, 1.1749215, 0.39385882} {
		if math.Abs(float64(w[i])-want) > 1e-6 { // the results of Log and Sincos depend on the machine
			t.Errorf("normal row %v", w)
		}
	}
}

// TestInitialRowsHaveTheirDistribution: initial values have the documented range, mean and
// deviation and are uncorrelated.
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
			t.Errorf("%s: the correlation of the first and second value is %v", kind, r)
		}
	}
}

// TestInitialRowsDependOnAllTheirNames: the initial row depends on the seed, the table, the part
// and the key.
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

// TestSetsThatShareSlots: three sets that share one memory, filled in alternation, number their
// keys like separate sets.
func TestSetsThatShareSlots(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var sets, alone [3]*Set
		for i := range sets {
			sets[i], alone[i] = NewSet(uint64(i), nil, 1), NewSet(uint64(i), nil, 1)
			sets[i].Share(sets[0])
		}
		for range 12 {
			i := rapid.IntRange(0, 2).Draw(rt, "set")
			keys := rapid.SliceOfN(rapid.Uint64Range(0, 400), 0, 300).Draw(rt, "keys")
			got, want := make([]uint32, len(keys)), make([]uint32, len(keys))
			switch rapid.IntRange(0, 3).Draw(rt, "call") {
			case 0:
				sets[i].Reset()
				alone[i].Reset()
			case 1: // new keys
				fresh := slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(keys))), alone[i].Has)
				sets[i].Append(fresh)
				alone[i].Add(fresh, make([]uint32, len(fresh)))
			default:
				sets[i].Add(keys, got)
				alone[i].Add(keys, want)
			}
			if !slices.Equal(got, want) || !slices.Equal(sets[i].Keys(), alone[i].Keys()) || sets[i].Counts()[0] != alone[i].Counts()[0] {
				rt.Fatalf("numbers %v of keys %v, want %v", got, sets[i].Keys(), want)
			}
			for _, key := range keys {
				n, ok := sets[i].Number(key)
				m, has := alone[i].Number(key)
				if n != m || ok != has {
					rt.Fatalf("key %d is %d, %t; want %d, %t", key, n, ok, m, has)
				}
			}
		}
	})
}

// TestSetEqualsAMap: a Set numbers random keys as a Go map does.
func TestSetEqualsAMap(t *testing.T) {
	s := NewSet(5, nil, 1)
	rapid.Check(t, func(rt *rapid.T) {
		if rapid.IntRange(0, 9).Draw(rt, "wrap") == 0 {
			s.epoch = math.MaxUint32 // the next reset wraps
		}
		s.Reset()
		ids := map[uint64]uint32{}
		for range 3 {
			keys := rapid.SliceOfN(rapid.OneOf(rapid.Uint64Range(0, 50), rapid.Uint64()), 0, 300).Draw(rt, "keys")
			got := make([]uint32, len(keys))
			s.Add(keys, got)
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

// TestRowsNeverMoveAndKeysStayFound: while the table grows, every key keeps its row.
func TestRowsNeverMoveAndKeysStayFound(t *testing.T) {
	x := open(t, 4, Part{Name: "p", Dim: 3})
	rng := rand.New(rand.NewPCG(2, 2))
	rows, records := map[uint64]Row{}, map[uint64]*float32{}
	for n := range 100_000 {
		key := rng.Uint64() >> (rng.Uint64() % 64)
		if n%2 == 0 { // keys that differ only in one half
			key = uint64(rng.IntN(100))<<32 | uint64(rng.IntN(100))
		}
		r, err := x.find(key)
		if have := rows[key]; err != nil || r != have {
			t.Fatalf("key %d is in row %d, want row %d: %v", key, r, have, err)
		}
		if r == 0 {
			rows[key] = x.insert(key)
			records[key] = &x.at(rows[key])[0]
		}
	}
	for key, r := range rows {
		if have, _ := x.find(key); have != r || &x.at(r)[0] != records[key] {
			t.Fatalf("key %d moved", key)
		}
	}
	if x.Rows() != len(rows) {
		t.Fatalf("%d rows, want %d", x.Rows(), len(rows))
	}
}

// TestMemoryPerKey checks the memory per key that the package comment documents, for every size.
func TestMemoryPerKey(t *testing.T) {
	x := open(t, 4, Part{Name: "deep", Dim: 8, Rule: optim.Rule{Kind: "adam"}}, Part{Name: "wide", Dim: 1, Rule: optim.Rule{Kind: "ftrl"}})
	worst, limits := 0.0, map[int]bool{}
	for key := range uint64(200_000) {
		x.insert(key)
		if key >= 1000 {
			worst = max(worst, float64(x.indexBytes())/float64(key+1))
		}
	}
	held, large := flatBytes*int64(len(x.index.flat)-len(x.index.shards)), 0
	for shard := range x.index.shards {
		d := &x.index.shards[shard]
		held += shardBytes - 8 + 8*int64(len(d.segments))
		for i := 0; i < len(d.segments); i += len(d.segments) >> d.segments[i].depth {
			s := d.segments[i]
			held += bucketBytes*int64(len(s.buckets)) + segmentBytes
			if len(s.buckets) == maxSegment {
				large++
				limits[s.limit] = true
			}
		}
	}
	if worst > 32 {
		t.Errorf("the index uses %.1f bytes per key, about 30 are documented", worst)
	}
	if held != x.index.bytes {
		t.Errorf("the index has %d bytes but reports %d", held, x.index.bytes)
	}
	if large < 20 || len(limits) < 5 {
		t.Errorf("%d large segments grow at only %d thresholds", large, len(limits))
	}
	if rows := float64(x.Bytes()-x.indexBytes()) / 200_000; rows > 4*27+4+0.1 {
		t.Errorf("a row uses %.1f bytes, want 112", rows)
	}
}

// TestGrowthIsEven: segments do not all grow at once, so no batch allocates much more than the
// mean of 29 bytes per key. It was up to 91 when the limits of segments were within a fifth of
// each other.
func TestGrowthIsEven(t *testing.T) {
	const batch, many = 10_000, 60
	x := open(t, 1024, Part{Name: "deep", Dim: 1, Rule: optim.Rule{Kind: "sgd"}})
	for b := range many {
		before := x.indexBytes()
		for i := range uint64(batch) {
			x.insert(uint64(b*batch) + i)
		}
		if each := float64(x.indexBytes()-before) / batch; b >= 10 && each > 40 {
			t.Errorf("the index grows by %.1f bytes per key from key %d on", each, b*batch)
		}
	}
}

// TestSumDoesNotDependOnOrder: a Sum is nearly exact, has the same bits in any order of its
// terms, and preserves infinities and NaNs.
func TestSumDoesNotDependOnOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		xs := rapid.SliceOfN(rapid.Float64Range(0, math.MaxFloat64/1000), 0, 50).Draw(rt, "numbers")
		xs = append(xs, 0, 5e-324, 1e-310, 1, 1e-16)
		total := func() float64 {
			var s Sum
			for _, x := range xs {
				s.add(x)
			}
			return s.Total()
		}
		got := total()
		exact := new(big.Float).SetPrec(4000)
		for _, x := range xs {
			exact.Add(exact, new(big.Float).SetFloat64(x))
		}
		if want, _ := exact.Float64(); math.Abs(got-want) > 1e-14*want {
			rt.Fatalf("the sum of %v is %v, want %v", xs, got, want)
		}
		rand.New(rand.NewPCG(1, 2)).Shuffle(len(xs), func(i, k int) { xs[i], xs[k] = xs[k], xs[i] })
		if again := total(); again != got {
			rt.Fatalf("in another order the sum is %v, want %v", again, got)
		}
	})
	var s Sum
	s.add(math.Inf(1))
	if !math.IsInf(s.Total(), 1) {
		t.Fatal("the sum with an infinity is finite")
	}
	s.add(math.NaN())
	if !math.IsNaN(s.Total()) {
		t.Fatal("the sum with a NaN is a number")
	}
	s.Reset()
	for range 1 << 13 { // more mantissas than fit in 64 bits
		s.add(0x1.fffffffffffffp0)
	}
	if got, want := s.Total(), 0x1.fffffffffffffp13; got != want {
		t.Fatalf("sum %x, want %x", got, want)
	}
}

// FuzzDescription: a description that is accepted is encoded as the same bytes.
func FuzzDescription(f *testing.F) {
	f.Add(open(f, 1, Part{Name: "deep", Dim: 2, Rule: optim.Rule{Kind: "adam"}}, Part{Name: "wide", Dim: 1}).describe(0).encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := decodeDescription(b)
		if err == nil && !bytes.Equal(d.encode(), b) {
			t.Fatalf("%x decodes to %v, which encodes to %x", b, d, d.encode())
		}
	})
}

// TestTooManyRowsIsAnError: Apply returns an error if a table has no row number left.
func TestTooManyRowsIsAnError(t *testing.T) {
	x := open(t, 1, Part{Name: "p", Dim: 1})
	x.used = maxRows
	_, err := x.Apply(optim.Step{N: 1, Scale: 1, Rate: 1}, Gradients{Keys: []uint64{1}, Rows: []Row{0}, Values: []float32{1}})
	if want := fmt.Sprintf("one rank can hold %d: use more ranks", maxRows); err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("applied past the last row number: %v", err)
	}
}
