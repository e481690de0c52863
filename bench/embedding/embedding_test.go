package embedding

import (
	"flag"
	"strings"
	"testing"
)

var keys = flag.Int("keys", 1<<20, "rows of the tables that are measured")

func TestResultsAreComplete(t *testing.T) {
	done := 0
	all, err := Run(Options{Keys: batch, Batch: 1000, Progress: func() { done++ }})
	if err != nil || len(all) != len(Ops()) || done != len(all) {
		t.Fatalf("%d results, %d told: %v", len(all), done, err)
	}
	for i, r := range all {
		if r.Bench != Ops()[i] || !(r.Ns > 0) || !(r.AgainstNs > 0) || r.Against == "" || r.Keys < 1000 {
			t.Errorf("implausible: %+v", r)
		}
	}
}

func TestOptionsReportAllFaults(t *testing.T) {
	err := Options{Ops: []string{"fly"}, Keys: 1, Dim: -1, Batch: -1, Zipf: 1}.Validate()
	for _, want := range []string{`"fly"`, "1 keys", "dim -1", "batch of -1", "exponent 1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q in it", err, want)
		}
	}
	if err := (Options{}).Validate(); err != nil {
		t.Error(err)
	}
}

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
