package table

import (
	"bufio"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/kernel/f32"
	"github.com/wdlrun/wdlrun/internal/kernel/raw"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/optim"
)

// The benchmarks of this file compare a table, in alternation in one process, with what a Go
// programmer would write instead and with a bound given by the memory. Such a ratio is stable on
// a noisy machine, a time is not. The benchmarks report the least time of each side. ratio is
// the other side's time divided by the table's.
//
//	go test -run '^$' -bench 'Unique|Hold|FindLarge|Gather|Grow|Update' ./sparse/table -keys 50000000
var (
	benchKeys = flag.Int("keys", 1<<20, "benchmarks: `ROWS` of a table, at least 65536; a row takes up to 130 bytes")
	benchDim  = flag.Int("dim", 8, "benchmarks: `VALUES` of a row")
)

// side is one of the measured implementations.
type side struct {
	name string
	run  func()
}

// compare times the table, the implementation that it is compared with, and bounds, of which the
// highest is reported. Each side processes n keys per turn.
func compare(b *testing.B, n int, sides ...side) {
	b.Helper()
	ns := make([]float64, len(sides))
	for i, s := range sides {
		s.run()
		ns[i] = math.Inf(1)
	}
	for b.Loop() {
		for i, s := range sides {
			ns[i] = min(ns[i], float64(clock(s.run).Nanoseconds())/float64(n))
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ns[0], "ns/key")
	b.ReportMetric(ns[1], sides[1].name+"-ns/key")
	b.ReportMetric(ns[1]/ns[0], "ratio")
	if len(sides) > 2 {
		b.ReportMetric(slices.Max(ns[2:]), "bound-ns/key")
	}
}

func clock(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

// BenchmarkUnique numbers the distinct keys of a batch, compared with a Go map that is cleared
// and reused.
func BenchmarkUnique(b *testing.B) {
	const n = 1 << 18
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 1)), 1.05, 1, 1<<24)
	keys, ids := make([]uint64, n), make([]uint32, n)
	for i := range keys {
		keys[i] = zipf.Uint64()
	}
	set, m := NewSet(Salt("bench"), nil, 1), map[uint64]uint32{}
	compare(b, n, side{"", func() {
		set.Reset()
		set.Add(keys, ids)
	}}, side{"map", func() {
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

// benchBatch is the number of keys per call, as in a large batch.
const benchBatch = 1 << 16

// filled returns a table of n rows.
func filled(b testing.TB, n, dim int, rule string) *Table {
	b.Helper()
	t, err := Open(Config{Name: "bench", Parts: []Part{
		{Name: "deep", Dim: dim, Rule: optim.Rule{Kind: rule}, Init: Init{Kind: "normal"}},
	}}, 1, 1024)
	fatal.If(b, err)
	keys, rows := make([]uint64, benchBatch), make([]Row, benchBatch)
	for at := 0; at < n; at += benchBatch {
		part := keys[:min(benchBatch, n-at)]
		for i := range part {
			part[i] = uint64(at+i) * f32.Golden
		}
		fatal.If(b, t.insertAll(part, rows))
	}
	return t
}

// drawn returns sets of keys that are in a table of n rows.
func drawn(n int) [][]uint64 {
	rng := rand.New(rand.NewPCG(3, 3))
	all := make([][]uint64, 16)
	for i := range all {
		all[i] = make([]uint64, benchBatch)
		for j := range all[i] {
			all[i][j] = rng.Uint64N(uint64(n)) * f32.Golden
		}
	}
	return all
}

// BenchmarkFindLarge looks up keys that are in a table, and keys that are not, compared with a
// Go map of the same number of keys. The bound reads one cache line per key in a memory of the
// size of the index.
func BenchmarkFindLarge(b *testing.B) {
	n := *benchKeys
	t := filled(b, n, 1, "rowwise_adagrad")
	defer t.Close()
	m := make(map[uint64]Row)
	for i := range uint64(n) {
		m[i*f32.Golden] = Row(i)
	}
	index := randomLines(t.indexBytes())
	defer index.free()
	rows, present, absent := make([]Row, benchBatch), drawn(n), drawn(n)
	for _, keys := range absent {
		for i := range keys {
			keys[i] += uint64(n) * f32.Golden
		}
	}
	find := func(b *testing.B, sets [][]uint64) {
		mine, others := 0, 0
		compare(b, benchBatch, side{"", func() {
			fatal.If(b, t.Find(sets[mine%len(sets)], rows))
			mine++
		}}, side{"map", func() {
			for i, key := range sets[others%len(sets)] {
				rows[i] = m[key]
			}
			others++
		}}, side{"lines", index.read})
	}
	b.Run("present", func(b *testing.B) { find(b, present) })
	b.Run("absent", func(b *testing.B) { find(b, absent) })
}

// BenchmarkInsert applies steps with new keys, compared with looking up the same number of
// absent keys. The table grows by 4096 rows per turn.
func BenchmarkInsert(b *testing.B) {
	const batch = 4096
	t := filled(b, *benchKeys, *benchDim, "adagrad")
	defer t.Close()
	keys, rows := make([]uint64, batch), make([]Row, batch)
	grads := make([]float32, batch*t.Width())
	next, step := uint64(*benchKeys), int64(0)
	compare(b, batch, side{"", func() {
		for i := range keys {
			keys[i] = next * f32.Golden
			next++
		}
		clear(rows)
		step++
		if _, err := t.Apply(optim.Step{N: step, Rate: 1, Scale: 1}, Gradients{Keys: keys, Rows: rows, Epoch: t.Epoch(), Values: grads}); err != nil {
			b.Fatal(err)
		}
	}}, side{"find", func() {
		for i := range keys {
			keys[i] = (next + uint64(i)) * f32.Golden
		}
		fatal.If(b, t.Find(keys, rows))
	}})
}

// BenchmarkGather reads rows, compared with reading one word from each of the same number of
// random 64-byte lines. The bound also writes as many bytes as the rows have. A record often
// spans two lines, unless its size divides a line or is a multiple of one.
func BenchmarkGather(b *testing.B) {
	n, dim := *benchKeys, *benchDim
	t := filled(b, n, dim, "adagrad")
	defer t.Close()
	records := randomLines(int64(n) * int64(4*t.RecordLen()))
	defer records.free()
	sets := drawn(n)
	rows := make([][]Row, len(sets))
	for i, keys := range sets {
		rows[i] = make([]Row, benchBatch)
		fatal.If(b, t.Find(keys, rows[i]))
	}
	dst, other, turn := make([]float32, benchBatch*dim), make([]float32, benchBatch*dim), 0
	compare(b, benchBatch, side{"", func() {
		i := turn % len(sets)
		t.Read(sets[i], rows[i], dst, dim)
		turn++
	}}, side{"lines", records.read}, side{"lines, written", func() {
		records.read()
		clear(other)
	}})
}

// BenchmarkHold fills a table with keys. It reports the resident memory per key as the system
// counts it, and the memory of the index. Use -benchtime 1x.
func BenchmarkHold(b *testing.B) {
	n := float64(*benchKeys)
	for b.Loop() {
		before := residentBytes(b)
		t := filled(b, *benchKeys, *benchDim, "rowwise_adagrad")
		after := residentBytes(b)
		b.ReportMetric(float64(after-before)/n, "bytes/key")
		b.ReportMetric(float64(t.indexBytes())/n, "index-bytes/key")
		b.ReportMetric(float64(after)/(1<<30), "resident-GiB")
		fatal.If(b, t.Close())
	}
}

// residentBytes returns the resident memory of this process.
func residentBytes(b *testing.B) int64 {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		b.Skip(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var kib int64
		if n, _ := fmt.Sscanf(s.Text(), "VmRSS: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	b.Skip("the system does not report the memory in use")
	return 0
}

// BenchmarkGrow inserts keys batch by batch and compares the slowest batch with the slowest
// batch of a Go map. Each batch counts with its fastest round, so that a batch is only slow if
// it is slow in every round. Use -benchtime 3x.
func BenchmarkGrow(b *testing.B) {
	keys, rows := make([]uint64, benchBatch), make([]Row, benchBatch)
	fastest := [2][]time.Duration{make([]time.Duration, (*benchKeys+benchBatch-1)/benchBatch), make([]time.Duration, (*benchKeys+benchBatch-1)/benchBatch)}
	round := func(times []time.Duration, insert func() error) {
		for at := range times {
			for i := range keys {
				keys[i] = uint64(at*benchBatch+i) * f32.Golden
			}
			var err error
			if took := clock(func() { err = insert() }); times[at] == 0 || took < times[at] {
				times[at] = took
			}
			fatal.If(b, err)
		}
	}
	for b.Loop() {
		t := filled(b, 0, 8, "rowwise_adagrad")
		round(fastest[0], func() error { return t.insertAll(keys, rows) })
		fatal.If(b, t.Close())
		m := map[uint64]Row{}
		round(fastest[1], func() error {
			for _, key := range keys {
				if _, ok := m[key]; !ok {
					m[key] = Row(len(m) + 1)
				}
			}
			return nil
		})
	}
	mine, others := slices.Max(fastest[0]), slices.Max(fastest[1])
	b.ReportMetric(float64(mine.Nanoseconds())/benchBatch, "worst-ns/key")
	b.ReportMetric(float64(others.Nanoseconds())/benchBatch, "map-worst-ns/key")
	b.ReportMetric(float64(others)/float64(mine), "ratio")
}

// lines is memory like the memory of tables. In each turn one set of its lines, known in
// advance, is read or changed: no table can be faster.
type lines struct {
	words []uint64
	sets  [][]uint32 // numbers of lines
	turn  int
	sum   uint64 // keeps the compiler from omitting the reads
	free  func() error
}

// newWords returns n bytes of zeroed memory, as for tables, and a function that frees it.
func newWords(n int) (words []uint64, free func() error) {
	p := newPages(n)
	return raw.Of[uint64](p.mem), p.free
}

// newLines returns memory of the given size, with all pages touched.
func newLines(bytes int64, sets [][]uint32) *lines {
	words, free := newWords(int((bytes + lineBytes - 1) &^ (lineBytes - 1)))
	for i := range words {
		words[i] = uint64(i)
	}
	return &lines{words: words, sets: sets, free: free}
}

// randomLines returns sets of random lines, as many as a batch has keys.
func randomLines(bytes int64) *lines {
	l, rng := newLines(bytes, make([][]uint32, 16)), rand.New(rand.NewPCG(4, 4))
	for i := range l.sets {
		l.sets[i] = make([]uint32, benchBatch)
		for j := range l.sets[i] {
			l.sets[i][j] = uint32(rng.IntN(len(l.words) / 8))
		}
	}
	return l
}

// recordLines returns sets of the lines of n records of the given size, selected by their
// numbers.
func recordLines(n, size int, numbers [][]uint64) *lines {
	sets := make([][]uint32, len(numbers))
	for i, set := range numbers {
		for _, number := range set {
			first, last := int(number)*size/lineBytes, (int(number+1)*size-1)/lineBytes
			for at := first; at <= last; at++ {
				sets[i] = append(sets[i], uint32(at))
			}
		}
	}
	return newLines(int64(n)*int64(size), sets)
}

func (l *lines) next() []uint32 {
	l.turn++
	return l.sets[l.turn%len(l.sets)]
}

func (l *lines) read() {
	sum := uint64(0)
	for _, at := range l.next() {
		sum += l.words[8*int(at)]
	}
	l.sum += sum
}

func (l *lines) change() {
	for _, at := range l.next() {
		l.words[8*int(at)]++
	}
}
