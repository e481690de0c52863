package embedding

import (
	"flag"
	"testing"
)

var keys = flag.Int("keys", 1<<20, "rows of the tables that are measured")

// BenchmarkEmbedding prints every measurement:
//
//	go test -run '^$' -bench . -benchtime 1x ./bench/embedding -keys 50000000
func BenchmarkEmbedding(b *testing.B) {
	for name, f := range map[string]func() (Result, error){
		"unique": func() (Result, error) { return Unique(1<<18, 1.05), nil },
		"find":   func() (Result, error) { return Find(*keys) },
		"gather": func() (Result, error) { return Gather(*keys, 8, "adagrad") },
		"grow":   func() (Result, error) { return Grow(*keys) },
	} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				r, err := f()
				if err != nil {
					b.Fatal(err)
				}
				b.Log(r)
				b.ReportMetric(r.Ratio, "ratio")
				b.ReportMetric(r.Ns, "ns/key")
			}
		})
	}
}
