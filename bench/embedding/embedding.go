// Package embedding measures the parts of an embedding table, each beside what a
// Go programmer would write instead, or beside what the machine can do, in one
// run: a ratio survives a noisy machine, a time does not.
package embedding

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/wdlrun/wdlrun/optim"
	"github.com/wdlrun/wdlrun/sparse/table"
)

// Result is one measurement: a part of the engine against something else. Times
// are medians over rounds that alternate between the two.
type Result struct {
	Bench     string  `json:"bench"`
	Keys      int     `json:"keys"`
	Ns        float64 `json:"ns_per_key"`
	Against   string  `json:"against"`
	AgainstNs float64 `json:"against_ns_per_key"`
	Ratio     float64 `json:"ratio"` // AgainstNs / Ns: above 1 the engine is faster
}

func (r Result) String() string {
	return fmt.Sprintf("%-8s %9d keys %9.2f ns/key, %s %9.2f ns/key, ratio %.2f", r.Bench, r.Keys, r.Ns, r.Against, r.AgainstNs, r.Ratio)
}

// rounds is how often each side is measured.
const rounds = 9

// compare times a and b, n keys each, in turns.
func compare(bench, against string, keys, n int, a, b func()) Result {
	var ta, tb []time.Duration
	a()
	b()
	for range rounds {
		ta, tb = append(ta, clock(a)), append(tb, clock(b))
	}
	slices.Sort(ta)
	slices.Sort(tb)
	ns := func(t []time.Duration) float64 { return float64(t[len(t)/2].Nanoseconds()) / float64(n) }
	return Result{bench, keys, ns(ta), against, ns(tb), ns(tb) / ns(ta)}
}

func clock(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

// Unique numbers the distinct ones of n keys drawn by Zipf's law, against a Go
// map that is cleared and used again.
func Unique(n int, exponent float64) Result {
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 1)), exponent, 1, 1<<24)
	keys, ids := make([]uint64, n), make([]uint32, n)
	for i := range keys {
		keys[i] = zipf.Uint64()
	}
	set, m := table.NewSet(table.Salt("bench"), nil, 1), map[uint64]uint32{}
	return compare("unique", "reused map", n, n, func() {
		set.Reset()
		set.Add(keys, ids)
	}, func() {
		clear(m)
		for i, key := range keys {
			id, ok := m[key]
			if !ok {
				id = uint32(len(m))
				m[key] = id
			}
			ids[i] = id
		}
	})
}

// batch is how many keys are looked up in one call: those of a large batch.
const batch = 1 << 16

// spread is a bijection that makes keys of numbers.
func spread(i uint64) uint64 { return i * 0x9e3779b97f4a7c15 }

// Open returns a table of n rows of dim values with that update rule.
func Open(n, dim int, rule string) (*table.Table, error) {
	t, err := table.Open(table.Config{Name: "bench", Parts: []table.Part{
		{Name: "deep", Dim: dim, Rule: optim.Rule{Kind: rule}, Init: table.Init{Kind: "uniform"}},
	}}, 1, 1024)
	if err != nil {
		return nil, err
	}
	keys, rows := make([]uint64, batch), make([]table.Row, batch)
	for at := 0; at < n; at += batch {
		part := keys[:min(batch, n-at)]
		for i := range part {
			part[i] = spread(uint64(at + i))
		}
		if err := t.Insert(part, rows); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// draws returns sets of keys that the table of n rows holds.
func draws(n int) [][]uint64 {
	rng := rand.New(rand.NewPCG(3, 3))
	all := make([][]uint64, 16)
	for i := range all {
		all[i] = make([]uint64, batch)
		for j := range all[i] {
			all[i][j] = spread(rng.Uint64N(uint64(n)))
		}
	}
	return all
}

// Find looks up keys that a table of n rows holds, against a Go map of as many
// keys to row numbers.
func Find(n int) (Result, error) {
	t, err := Open(n, 1, "rowwise_adagrad")
	if err != nil {
		return Result{}, err
	}
	defer t.Close()
	m := make(map[uint64]table.Row)
	for i := range uint64(n) {
		m[spread(i)] = table.Row(i)
	}
	rows, sets, a, b := make([]table.Row, batch), draws(n), 0, 0
	return compare("find", "map", n, batch, func() {
		if e := t.Find(sets[a%len(sets)], rows); e != nil {
			err = e
		}
		a++
	}, func() {
		for i, key := range sets[b%len(sets)] {
			rows[i] = m[key]
		}
		b++
	}), err
}

// Gather reads rows of a table of n rows of dim values, against reading one word
// of each of as many random lines of 64 bytes in memory of the same size: what
// the machine can do at best. Both know beforehand where to read. A record whose
// size neither divides a line nor is a multiple of one often lies on two.
func Gather(n, dim int, rule string) (Result, error) {
	t, err := Open(n, dim, rule)
	if err != nil {
		return Result{}, err
	}
	defer t.Close()
	size := int64(n) * int64(4*t.RecordLen())
	lines, free := table.Pages(int(size) &^ 63)
	defer free()
	for i := range lines {
		lines[i] = uint64(i)
	}
	sets := draws(n)
	rows, places := make([][]table.Row, len(sets)), make([][]uint32, len(sets))
	rng := rand.New(rand.NewPCG(4, 4))
	for i, keys := range sets {
		rows[i], places[i] = make([]table.Row, batch), make([]uint32, batch)
		if err := t.Find(keys, rows[i]); err != nil {
			return Result{}, err
		}
		for j := range places[i] {
			places[i][j] = uint32(rng.IntN(len(lines) / 8))
		}
	}
	dst, a, b, sum := make([]float32, batch*dim), 0, 0, uint64(0)
	r := compare("gather", "random lines", n, batch, func() {
		i := a % len(sets)
		t.Read(sets[i], rows[i], dst, dim)
		a++
	}, func() {
		for _, p := range places[b%len(sets)] {
			sum += lines[8*int(p)]
		}
		b++
	})
	runtime.KeepAlive(sum)
	return r, nil
}

// Grow inserts n keys, batch by batch, and compares the worst batch with the
// worst of a Go map. The times are those of the worst batches, by key.
func Grow(n int) (Result, error) {
	t, err := Open(0, 8, "rowwise_adagrad")
	if err != nil {
		return Result{}, err
	}
	defer t.Close()
	keys, rows := make([]uint64, batch), make([]table.Row, batch)
	var worst, worstMap time.Duration
	each := func(f func()) (longest time.Duration) {
		for at := 0; at < n; at += batch {
			for i := range keys {
				keys[i] = spread(uint64(at + i))
			}
			longest = max(longest, clock(f))
		}
		return longest
	}
	worst = each(func() {
		if e := t.Insert(keys, rows); e != nil {
			err = e
		}
	})
	m := map[uint64]table.Row{}
	worstMap = each(func() {
		for _, key := range keys {
			if _, ok := m[key]; !ok {
				m[key] = table.Row(len(m) + 1)
			}
		}
	})
	ns := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / batch }
	return Result{"grow", n, ns(worst), "map", ns(worstMap), ns(worstMap) / ns(worst)}, err
}
