package export

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// BenchmarkRead reports the time per key of a lookup without a server: 40 tables are asked for
// one key and 20 for 100 keys each, like a request of 100 rows of which 40 features are shared.
// Rows have 11 values. In "cached" the tables fit into a third-level cache, in "memory" they do
// not. Keys are chosen at random, and the queries of 512 requests repeat.
//
//	go test -run '^$' -bench Read -cpu 1 ./internal/export
func BenchmarkRead(b *testing.B) {
	for _, size := range []struct {
		name string
		rows int
	}{{"cached", 2_000}, {"memory", 40_000}} {
		m := benchTables(b, size.rows)
		for _, c := range []struct {
			name string
			from uint64 // the least key that is asked for
		}{{"present", 0}, {"absent", uint64(size.rows)}} {
			queries, keys := benchQueries(c.from, size.rows)
			b.Run(size.name+"/"+c.name, func(b *testing.B) {
				i := 0
				for b.Loop() {
					fatal.If(b, m.Read(queries[i%len(queries)]))
					i++
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*keys), "ns/key")
			})
		}
	}
}

const (
	benchSingle, benchMany = 40, 20 // tables
	benchRows              = 100
)

// benchTables returns a model of tables with the keys 0 to rows-1.
func benchTables(b *testing.B, rows int) *Model {
	keys := make([]uint64, rows)
	for i := range keys {
		keys[i] = uint64(i)
	}
	m := modelOf(mapped{})
	m.base.tables, m.layers = nil, make([][]mapped, benchSingle+benchMany)
	one, _ := openKeys(b, keys, float32s, shape(10, 1))
	for range m.layers {
		t := one // with memory of its own
		t.records, t.index = slices.Clone(one.records), slices.Clone(one.index)
		m.base.tables = append(m.base.tables, t)
	}
	return m
}

// benchQueries returns requests for random keys from one on, and the number of keys of each.
func benchQueries(from uint64, rows int) (requests [][]step.Query, keys int) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 512 {
		keys = 0
		queries := make([]step.Query, benchSingle+benchMany)
		for t := range queries {
			n := benchRows
			if t < benchSingle {
				n = 1
			}
			q := step.Query{Table: t, Keys: make([]uint64, n), Values: make([]float32, 11*n)}
			for i := range q.Keys {
				q.Keys[i] = from + rng.Uint64N(uint64(rows))
			}
			queries[t], keys = q, keys+n
		}
		requests = append(requests, queries)
	}
	return requests, keys
}
