package plan

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/optim"
	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/sparse/table"
)

// TestRowsOfASample: a sample of a thirtieth predicts the number of keys to within a fifth
// for several kinds of keys, and exactly for a closed set.
func TestRowsOfASample(t *testing.T) {
	const all, part, batch = 300_000, 10_000, 500
	for name, draw := range map[string]func(*rand.Rand, *rand.Zipf) uint64{
		"zipf":   func(_ *rand.Rand, z *rand.Zipf) uint64 { return z.Uint64() },
		"unique": func(r *rand.Rand, _ *rand.Zipf) uint64 { return r.Uint64() },
		"closed": func(r *rand.Rand, _ *rand.Zipf) uint64 { return r.Uint64N(100) },
	} {
		rng := rand.New(rand.NewPCG(1, 2))
		zipf := rand.NewZipf(rng, 1.2, 1, 1<<40)
		l := layout.Layout{Tables: []sparse.Table{{Name: "x"}}, Features: []layout.Feature{{}}}
		s, seen := newSample(l, 2, layout.Shards), map[uint64]bool{}
		for i := 0; i < all; i += batch {
			j := encode.Jagged{Offsets: []int32{0}}
			for n := range batch {
				j.Values, j.Offsets = append(j.Values, draw(rng, zipf)), append(j.Offsets, int32(n+1))
				seen[j.Values[n]] = true
			}
			if i < part {
				s.add(&encode.Batch{Rows: batch, Sparse: []encode.Jagged{j}}, []int{0, batch / 2, batch})
			}
		}
		if got, want := float64(s.grown(0, all)), float64(len(seen)); math.Abs(got/want-1) > 0.2 {
			t.Errorf("%s: %.0f keys are planned, there are %.0f", name, got, want)
		}
	}
}

// TestMemoryOfRows compares the planned memory with a table's memory.
func TestMemoryOfRows(t *testing.T) {
	for _, cfg := range []sparse.Table{
		{Name: "x", Parts: []sparse.Part{{Name: "deep", Dim: 8, Rule: optim.Rule{Kind: "adam"}}, {Name: "wide", Dim: 1, Rule: optim.Rule{Kind: "ftrl"}}}},
		{Name: "x", Parts: []sparse.Part{{Name: "deep", Dim: 16, Rule: optim.Rule{Kind: "rowwise_adagrad"}}}, Values: "bfloat16"},
		{Name: "x", Parts: []sparse.Part{{Name: "wide", Dim: 1, Rule: optim.Rule{Kind: "sgd"}}}}, // most of the memory is the index
	} {
		for _, rows := range []int{10, 700, 5000, 40_000} {
			s, err := sparse.Open(sparse.Local{}, sparse.Config{Tables: []sparse.Table{cfg}})
			fatal.If(t, err)
			b := sparse.Bags{Offsets: []int32{0, int32(rows)}}
			for i := range rows {
				b.Values = append(b.Values, uint64(i))
			}
			l := s.NewLookup()
			for _, err := range []error{s.Pull(l, []sparse.Bags{b}, true), s.Push(l), s.Apply(sparse.Step{N: 1, Scale: 1, Rate: 1})} {
				fatal.If(t, err)
			}
			if is, planned := float64(s.Table(0).Bytes), float64(sparse.MemoryBytes(cfg, int64(rows), layout.Shards)); math.Abs(is/planned-1) > 0.12 {
				t.Errorf("%d rows take %.0f bytes, %.0f are planned", rows, is, planned)
			}
			fatal.If(t, s.Close())
		}
	}
}

// TestMemoryOfSightings: a table that has admitted no key uses the memory of its counters.
func TestMemoryOfSightings(t *testing.T) {
	for _, keys := range []int{3, 100, 5000} {
		cfg := sparse.Table{Name: "x", Parts: []sparse.Part{{Name: "deep", Dim: 8, Rule: optim.Rule{Kind: "sgd"}}}, Admit: table.Admit{After: 2}}
		s, err := sparse.Open(sparse.Local{}, sparse.Config{Tables: []sparse.Table{cfg}})
		fatal.If(t, err)
		defer s.Close()
		b := sparse.Bags{Offsets: []int32{0, int32(keys)}}
		for i := range keys {
			b.Values = append(b.Values, uint64(i))
		}
		l := s.NewLookup()
		for _, err := range []error{s.Pull(l, []sparse.Bags{b}, true), s.Push(l), s.Apply(sparse.Step{N: 1, Scale: 1, Rate: 1})} {
			fatal.If(t, err)
		}
		is, planned := s.Table(0).Bytes, sparse.SightingBytes(cfg, int64(keys), layout.Shards, layout.Shards)
		if is < planned || float64(is) > 1.1*float64(planned)+100_000 {
			t.Errorf("%d keys without rows take %d bytes, %d are planned", keys, is, planned)
		}
	}
}

func TestBytesHaveThreeDigits(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 999: "999 B", 1000: "1.00 kB", 6672: "6.67 kB", 9_994: "9.99 kB", 9_996: "10.0 kB", 24_400: "24.4 kB", 99_960: "100 kB",
		200_400: "200 kB", 999_499: "999 kB", 999_500: "1.00 MB", 1<<63 - 1: "9.22 EB",
	} {
		if got := Bytes(n); got != want {
			t.Errorf("%d bytes are %q, want %q", n, got, want)
		}
	}
}

// TestStrategiesPayForTheirExchanges: the total saving of the tables counts, and a table that
// has the strategy anyway pays for the exchanges of all.
func TestStrategiesPayForTheirExchanges(t *testing.T) {
	const cost = 3 * 2 * sparse.MessageBytes // two ranks
	tables := func(n int, saved int64, first string) *Plan {
		p := &Plan{WorldSize: 2}
		for range n {
			p.Tables = append(p.Tables, Table{Asked: "auto", Strategy: sparse.Pooled, StepBytes: 1000,
				ByStrategy: []StrategyBytes{{sparse.Rows, 1000 + saved}}})
		}
		p.Tables[0].Asked = first
		p.weigh()
		return p
	}
	for _, c := range []struct {
		n     int
		saved int64
		first string
		want  sparse.Strategy
	}{
		{1, cost, "auto", sparse.Pooled}, {1, cost - 1, "auto", sparse.Rows}, {4, cost / 4, "auto", sparse.Pooled},
		{4, cost/4 - 1, "auto", sparse.Rows}, {2, 1, "pooled", sparse.Pooled},
	} {
		p := tables(c.n, c.saved, c.first)
		last := p.Tables[c.n-1]
		if last.Strategy != c.want {
			t.Errorf("%+v: %v: %s", c, last.Strategy, last.Why)
		}
		if last.Strategy == sparse.Rows && (last.StepBytes != 1000+c.saved || !strings.Contains(last.Why, "3 more exchanges")) {
			t.Errorf("%+v: %d bytes a step: %s", c, last.StepBytes, last.Why)
		}
	}
}

// TestRowsOfALimitedTable: a plan limits rows per shard like the table, whether the sample
// has all keys or a part of them. Shards that evict leave a sixteenth of their share free for
// new rows, which a plan does not take into account.
func TestRowsOfALimitedTable(t *testing.T) {
	const all, batch = 40_000, 500
	for _, c := range []struct {
		limit  int
		keys   uint64
		sample int
	}{
		{3, 33, all}, {100, 480, all}, {1500, 480, all}, {500, 30_000, all}, {1500, 30_000, all}, {10_000, 9_000, all}, {9_000, 9_000, all},
		{100, 1 << 60, 5000}, {20_000, 1 << 60, 5000}, {42_000, 1 << 60, 5000}, {39_000, 1 << 60, 5000}, {1 << 60, 1 << 60, 5000},
	} {
		tb := sparse.Table{Name: "x", Parts: []sparse.Part{{Name: "deep", Dim: 1, Rule: optim.Rule{Kind: "sgd"}}}, Evict: table.Evict{MaxRows: c.limit}}
		store, err := sparse.Open(sparse.Local{}, sparse.Config{Tables: []sparse.Table{tb}})
		fatal.If(t, err)
		s, rng := newSample(layout.Layout{Tables: []sparse.Table{tb}, Features: []layout.Feature{{}}}, 2, layout.Shards), rand.New(rand.NewPCG(1, 2))
		most := int64(0)
		for i := 0; i < all; i += batch {
			j := encode.Jagged{Offsets: []int32{0}}
			for n := range batch {
				j.Values, j.Offsets = append(j.Values, rng.Uint64N(c.keys)), append(j.Offsets, int32(n+1))
			}
			if i < c.sample {
				s.add(&encode.Batch{Rows: batch, Sparse: []encode.Jagged{j}}, []int{0, batch / 2, batch})
			}
			l := store.NewLookup()
			b := sparse.Bags{Values: j.Values, Offsets: j.Offsets}
			for _, err := range []error{store.Pull(l, []sparse.Bags{b}, true), store.Push(l), store.Apply(sparse.Step{N: int64(1 + i/batch), Scale: 1, Rate: 1})} {
				fatal.If(t, err)
			}
			most = max(most, int64(store.Table(0).Rows))
		}
		got := s.kept(0, s.grown(0, all))
		if is := float64(got) / float64(most); is < 0.98 || is > 1.02+1./16 || most > int64(max(c.limit, layout.Shards)) {
			t.Errorf("limit %d of %d keys: %d rows are planned, there were up to %d", c.limit, c.keys, got, most)
		}
		fatal.If(t, store.Close())
	}
}
