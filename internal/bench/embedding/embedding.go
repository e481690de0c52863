// Package embedding measures the parts of an embedding table, each beside what a
// Go programmer would write instead, or beside what the machine can do, in one
// run: a ratio survives a noisy machine, a time does not.
package embedding

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/wdlrun/wdlrun/optim"
	"github.com/wdlrun/wdlrun/sparse/table"
)

// Result is one measurement: a part of the engine against something else. Times are
// the least of rounds that alternate between all that is measured: who else is at work
// on the machine slows down a median, that of the slower side more, and seldom the
// fastest of many rounds.
type Result struct {
	Bench     string  `json:"bench"`
	Keys      int     `json:"keys"`
	Ns        float64 `json:"ns_per_key"`
	Against   string  `json:"against"`
	AgainstNs float64 `json:"against_ns_per_key"`
	Ratio     float64 `json:"ratio"` // AgainstNs / Ns: above 1 the engine is faster

	// What the machine can do at best, measured in the same turns.
	Floor   string  `json:"floor,omitempty"`
	FloorNs float64 `json:"floor_ns_per_key,omitempty"`

	// Of hold, which has no other side: bytes of memory that a key takes, by the
	// system's account, and those of them that the table says its index takes.
	KeyBytes   float64 `json:"bytes_per_key,omitempty"`
	IndexBytes float64 `json:"index_bytes_per_key,omitempty"`
	Resident   int64   `json:"resident_bytes,omitempty"` // of the whole process
}

func (r Result) String() string {
	if r.Against == "" {
		return fmt.Sprintf("%-8s %9d keys %9.2f ns/key, %.1f bytes/key, of them index %.1f; resident %.2f GiB",
			r.Bench, r.Keys, r.Ns, r.KeyBytes, r.IndexBytes, float64(r.Resident)/(1<<30))
	}
	text := fmt.Sprintf("%-8s %9d keys %9.2f ns/key, %s %9.2f ns/key, ratio %.2f", r.Bench, r.Keys, r.Ns, r.Against, r.AgainstNs, r.Ratio)
	if r.Floor != "" {
		text += fmt.Sprintf("; at best %.2f (%s)", r.FloorNs, r.Floor)
	}
	return text
}

// Each side is measured at least leastRounds times, and up to mostRounds while all of
// it takes less than enough.
const (
	leastRounds, mostRounds = 9, 301
	enough                  = time.Second
)

// side is one of those that are measured.
type side struct {
	name string
	run  func()
}

// compare times sides, n keys each, in turns: the engine, what it is compared with,
// and bounds, of which the highest counts.
func compare(bench string, keys, n int, sides ...side) Result {
	ns := make([]float64, len(sides))
	for i, s := range sides {
		s.run()
		ns[i] = math.Inf(1)
	}
	for round, start := 0, time.Now(); round < leastRounds || round < mostRounds && time.Since(start) < enough; round++ {
		for i, s := range sides {
			ns[i] = min(ns[i], float64(clock(s.run).Nanoseconds())/float64(n))
		}
	}
	r := Result{Bench: bench, Keys: keys, Ns: ns[0], Against: sides[1].name, AgainstNs: ns[1], Ratio: ns[1] / ns[0]}
	for i := 2; i < len(sides); i++ {
		if ns[i] > r.FloorNs {
			r.Floor, r.FloorNs = sides[i].name, ns[i]
		}
	}
	return r
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
	return compare("unique", n, n, side{"", func() {
		set.Reset()
		set.Add(keys, ids)
	}}, side{"reused map", func() {
		clear(m)
		for i, key := range keys {
			id, ok := m[key]
			if !ok {
				id = uint32(len(m))
				m[key] = id
			}
			ids[i] = id
		}
	}})
}

// batch is how many keys are looked up in one call: those of a large batch.
const batch = 1 << 16

// spread is a bijection that makes keys of numbers.
func spread(i uint64) uint64 { return i * 0x9e3779b97f4a7c15 }

// Open returns a table of n rows of dim values with that update rule. It calls told
// with every batch of rows, so that somebody who looks sees that it continues.
func Open(n, dim int, rule string, told func()) (*table.Table, error) {
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
		told()
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
// keys to row numbers. At best it reads a line of its index for each.
func Find(n int, told func()) (Result, error) {
	t, err := Open(n, 1, "rowwise_adagrad", told)
	if err != nil {
		return Result{}, err
	}
	defer t.Close()
	m := make(map[uint64]table.Row)
	for i := range uint64(n) {
		if m[spread(i)] = table.Row(i); i%batch == 0 {
			told()
		}
	}
	index := randomLines(t.IndexBytes())
	defer index.free()
	rows, sets, a, b := make([]table.Row, batch), draws(n), 0, 0
	return compare("find", n, batch, side{"", func() {
		if e := t.Find(sets[a%len(sets)], rows); e != nil {
			err = e
		}
		a++
	}}, side{"map", func() {
		for i, key := range sets[b%len(sets)] {
			rows[i] = m[key]
		}
		b++
	}}, side{"random lines", index.read}), err
}

// Gather reads rows of a table of n rows of dim values, against reading one word
// of each of as many random lines of 64 bytes in memory of the same size. Both know
// beforehand where to read. Besides, rows are written somewhere, 4·dim bytes each:
// the machine can do at best what reading such lines and then writing as many bytes
// takes. A record whose size neither divides a line nor is a multiple of one often
// is on two.
func Gather(n, dim int, rule string, told func()) (Result, error) {
	t, err := Open(n, dim, rule, told)
	if err != nil {
		return Result{}, err
	}
	defer t.Close()
	records := randomLines(int64(n) * int64(4*t.RecordLen()))
	defer records.free()
	sets := draws(n)
	rows := make([][]table.Row, len(sets))
	for i, keys := range sets {
		rows[i] = make([]table.Row, batch)
		if err := t.Find(keys, rows[i]); err != nil {
			return Result{}, err
		}
	}
	dst, other, a := make([]float32, batch*dim), make([]float32, batch*dim), 0
	return compare("gather", n, batch, side{"", func() {
		i := a % len(sets)
		t.Read(sets[i], rows[i], dst, dim)
		a++
	}}, side{"random lines", records.read}, side{"random lines, then as many bytes written", func() {
		records.read()
		clear(other)
	}}), nil
}

// Hold fills a table with n keys and says what they take.
func Hold(n, dim int, rule string, told func()) (Result, error) {
	before, start := residentBytes(), time.Now()
	t, err := Open(n, dim, rule, told)
	if err != nil {
		return Result{}, err
	}
	defer t.Close()
	if t.Rows() != n {
		return Result{}, fmt.Errorf("%d rows are held of %d", t.Rows(), n)
	}
	took, after := time.Since(start), residentBytes()
	each := func(x int64) float64 { return float64(x) / float64(n) }
	return Result{
		Bench: "hold", Keys: n, Ns: each(took.Nanoseconds()),
		KeyBytes: each(after - before), IndexBytes: each(t.IndexBytes()), Resident: after,
	}, nil
}

// growRounds is how often each side of Grow grows from nothing.
const growRounds = 3

// Grow inserts n keys, batch by batch, and compares the worst batch with the
// worst of a Go map. The times are those of the worst batches, by key. Every round
// inserts the same batches, and a batch takes what it does in its best round: one that
// is slow for what it does is so in all of them, and another program's turn on the core
// is in one.
func Grow(n int, told func()) (Result, error) {
	keys, rows := make([]uint64, batch), make([]table.Row, batch)
	worst := func(begin func() (insert func())) time.Duration {
		times := make([]time.Duration, (n+batch-1)/batch)
		for round := range growRounds {
			insert := begin()
			for b := range times {
				for i := range keys {
					keys[i] = spread(uint64(b*batch + i))
				}
				if took := clock(insert); round == 0 || took < times[b] {
					times[b] = took
				}
				told()
			}
		}
		return slices.Max(times)
	}
	var t *table.Table
	var failed error
	worstTable := worst(func() func() {
		if t != nil {
			failed = errors.Join(failed, t.Close())
		}
		var err error
		if t, err = Open(0, 8, "rowwise_adagrad", told); err != nil {
			failed = errors.Join(failed, err)
			return func() {}
		}
		return func() {
			if err := t.Insert(keys, rows); err != nil {
				failed = err
			}
		}
	})
	if t != nil {
		failed = errors.Join(failed, t.Close())
	}
	worstMap := worst(func() func() {
		m := map[uint64]table.Row{}
		return func() {
			for _, key := range keys {
				if _, ok := m[key]; !ok {
					m[key] = table.Row(len(m) + 1)
				}
			}
		}
	})
	ns := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / batch }
	return Result{Bench: "grow", Keys: n, Ns: ns(worstTable), Against: "map", AgainstNs: ns(worstMap), Ratio: ns(worstMap) / ns(worstTable)}, failed
}
