package table

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/wdlrun/wdlrun/optim"
)

// BenchmarkFind looks keys up as a training step does: a few hundred in each of many
// tables, whose shards have one segment each.
//
//	go test -run '^$' -bench Find ./sparse/table
func BenchmarkFind(b *testing.B) {
	const tables, held, asked = 60, 64 << 10, 309
	all := make([]*Table, tables)
	keys, rows := make([]uint64, held), make([]Row, held)
	for i := range all {
		x, err := Open(Config{Name: fmt.Sprint(i), Parts: []Part{{Name: "deep", Dim: 10, Rule: optim.Rule{Kind: "adagrad"}}}}, 1, 1024)
		if err != nil {
			b.Fatal(err)
		}
		defer x.Close()
		for j := range keys {
			keys[j] = uint64(j) * stride
		}
		if err := x.insertAll(keys, rows); err != nil {
			b.Fatal(err)
		}
		all[i] = x
	}
	rng := rand.New(rand.NewPCG(1, 1))
	sets := make([][]uint64, 1000)
	for i := range sets {
		sets[i] = make([]uint64, asked)
		for j := range sets[i] {
			sets[i][j] = rng.Uint64N(held) * stride
		}
	}
	turn := 0
	for b.Loop() {
		for _, x := range all {
			turn++
			if err := x.Find(sets[turn%len(sets)], rows); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/tables/asked, "ns/key")
}
