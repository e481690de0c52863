package embedding

import (
	"errors"
	"flag"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/sparse/table"
)

var keys = flag.Int("keys", 1<<20, "rows of the tables that are measured")

func TestResultsAreComplete(t *testing.T) {
	done, begun := 0, []string(nil)
	all, err := Run(Options{Keys: batch, Dim: 4, Batch: 1000, Progress: func() { done++ }, Begin: func(op string, n, of int) {
		if begun = append(begun, op); n != len(begun) || of != len(Ops()) {
			t.Errorf("%s is number %d of %d", op, n, of)
		}
	}})
	var want []string
	for _, op := range Ops() {
		want = append(want, op)
		if slices.Contains(UpdateRules(), op) {
			want = append(want, op) // in a cache, and not
		}
	}
	if err != nil || len(all) != len(want) || done < len(all) || !slices.Equal(begun, Ops()) {
		t.Fatalf("%d results, %d told, begun %v: %v", len(all), done, begun, err)
	}
	for i, r := range all {
		if r.Bench != want[i] || !(r.Ns > 0) || (r.AgainstNs > 0) != (r.Against != "") || r.Keys < 1000 {
			t.Errorf("implausible: %+v", r)
		}
		if bounded := !slices.Contains([]string{"unique", "hold", "grow"}, r.Bench); bounded != (r.FloorNs > 0) || bounded != (r.Floor != "") {
			t.Errorf("%s has the bound %q of %v ns", r.Bench, r.Floor, r.FloorNs)
		}
		if r.Bench == "hold" && (r.Against != "" || !(r.IndexBytes > 16) || !(r.IndexBytes < 40)) {
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

// TestMemoryIsAskedFirst wants to be told before the kernel ends the process.
func TestMemoryIsAskedFirst(t *testing.T) {
	o := Options{Ops: []string{"unique", "hold", "gather"}, Keys: 100_000_000}.Default()
	if err := o.lacks(17 << 30); err != nil {
		t.Error(err)
	}
	if err := o.lacks(0); err != nil {
		t.Errorf("where nothing is known: %v", err)
	}
	err := o.lacks(8 << 30)
	for _, want := range []string{"gather takes some 15.0 GiB", "8.0 GiB of memory are free", "at most 53353631 keys", "leave gather out"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q in it", err, want)
		}
	}
	if o.Ops = []string{"hold"}; o.lacks(8<<30) != nil {
		t.Error("100 million keys of dim 8 do not fit 8 GiB")
	}
}

// BenchmarkEmbedding prints every measurement:
//
//	go test -run '^$' -bench . -benchtime 1x ./bench/embedding -keys 50000000
func BenchmarkEmbedding(b *testing.B) {
	for name, f := range map[string]func() (Result, error){
		"unique": func() (Result, error) { return Unique(1<<18, 1.05), nil },
		"find":   func() (Result, error) { return Find(*keys, func() {}) },
		"gather": func() (Result, error) { return Gather(*keys, 8, "adagrad", func() {}) },
		"grow":   func() (Result, error) { return Grow(*keys, func() {}) },
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

// TestLoopsAreTheRules compares what the plain loops leave behind with the rows of
// a table: otherwise their times could not be compared.
func TestLoopsAreTheRules(t *testing.T) {
	const n, dim = batch, 5
	for _, rule := range UpdateRules() {
		x, err := Open(n, dim, rule, func() {})
		if err != nil {
			t.Fatal(err)
		}
		p, err := newPlain(n, dim, rule)
		if err != nil {
			t.Fatal(err)
		}
		numbers := distinct(n)[0][:100]
		keys, grads := make([]uint64, len(numbers)), make([]float32, len(numbers)*dim)
		for i, number := range numbers {
			keys[i] = spread(number)
		}
		for step := int64(1); step <= 3; step++ {
			for i := range grads {
				grads[i] = float32((int(step)*31+i*7)%15-7) / 8
			}
			if _, err := x.Apply(table.Step{N: step, Scale: 1, Rate: 1}, table.Gradients{Keys: keys, Values: grads}); err != nil {
				t.Fatal(err)
			}
			p.update(step, numbers, grads)
		}
		record := make([]float32, x.RecordLen())
		for i, key := range keys {
			if held, err := x.Get(key, record); !held || err != nil {
				t.Fatal(held, err)
			}
			for j, v := range p.records[int(numbers[i])*p.size:][:p.size] {
				if math.Abs(float64(v-record[j])) > 1e-6*(1+math.Abs(float64(v))) {
					t.Errorf("%s: key %d: float %d is %v in the table and %v by the loop", rule, key, j, record[j], v)
				}
			}
		}
		if err := errors.Join(x.Close(), p.free()); err != nil {
			t.Error(err)
		}
	}
}
