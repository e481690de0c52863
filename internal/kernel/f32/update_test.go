package f32

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"
)

var rules = []struct {
	name string
	rule Rule
}{{"sgd", SGD}, {"adagrad", Adagrad}, {"rowwise", RowwiseAdagrad}, {"adam", Adam}, {"ftrl", FTRL}}

func testUpdate(r Rule) Update {
	return Update{Rule: r, Rate: 0.05, Epsilon: 1e-8, Beta1: 0.9, Beta2: 0.999, Unbias1: 3, Unbias2: 500, Keep: 0.99, Beta: 1, L1: 0.1, L2: 0.01}
}

// records is a table of n records of which a part holds dim values, and one
// gradient for each.
type records struct {
	part  Part
	data  [][]float32
	rows  []Record
	marks []uint32
	grads []float32
}

func newRecords(rng *rand.Rand, r Rule, n, dim int, place func([]float32) []float32) *records {
	before, between := rng.IntN(3), rng.IntN(3)
	if place != nil {
		before, between = 0, 0
	}
	t := &records{part: Part{Dim: dim, Value: before, State: before + dim + between}}
	for range n {
		rec := make([]float32, t.part.State+r.StateLen(dim))
		for i := range rec {
			rec[i] = float32(rng.NormFloat64())
			if i >= t.part.State && (r != Adam && r != FTRL || i >= t.part.State+dim) {
				rec[i] = float32(math.Abs(float64(rec[i]))) // a sum of squares
			}
		}
		if place != nil {
			rec = place(rec)
		}
		t.data, t.rows = append(t.data, rec), append(t.rows, Record{At: &rec[0]})
	}
	t.marks = make([]uint32, n)
	for i := range t.rows {
		t.rows[i].Mark = &t.marks[i]
	}
	t.grads = make([]float32, n*dim)
	for i := range t.grads {
		if t.grads[i] = float32(rng.NormFloat64()); rng.IntN(5) == 0 {
			t.grads[i] = 0
		}
	}
	return t
}

// step updates the records but the last third, which only come next, by the package
// and copies of them by the plain loop, and describes the first difference.
func (t *records) step(u *Update, m Gradient) string {
	want, k, n := make([][]float32, len(t.data)), u.constants(m), len(t.data)-len(t.data)/3
	for i, rec := range t.data {
		want[i] = slices.Clone(rec)
		if i >= n {
			continue
		}
		p, r := t.part, want[i]
		k.plain(u.Rule, r[p.Value:p.Value+p.Dim], t.grads[i*p.Dim:(i+1)*p.Dim], r[p.State:p.State+u.Rule.StateLen(p.Dim)])
	}
	clear(t.marks)
	u.Rows(t.rows, n, 77, t.part, t.grads, t.part.Dim, m)
	for i := range want {
		if got, want := t.marks[i], map[bool]uint32{true: 77}[i < n]; got != want {
			return fmt.Sprintf("%s: rule %d: row %d of %d, dim %d, has the mark %d, want %d", Backend(), u.Rule, i, n, t.part.Dim, got, want)
		}
		for j, v := range want[i] {
			if got := t.data[i][j]; math.Float32bits(got) != math.Float32bits(v) && (got == got || v == v) {
				return fmt.Sprintf("%s: rule %d: row %d of %d, dim %d: float %d of %+v is %v, the plain loop's %v",
					Backend(), u.Rule, i, len(want), t.part.Dim, j, t.part, got, v)
			}
		}
	}
	return ""
}

func TestRowUpdatesAreThePlainLoops(t *testing.T) {
	eachBackend(func(string) {
		rng := rand.New(rand.NewPCG(3, 1))
		for _, r := range rules {
			u := testUpdate(r.rule)
			for dim := 1; dim < 70; dim++ {
				recs := newRecords(rng, r.rule, 1+rng.IntN(60), dim, nil)
				for _, m := range []Gradient{{1, 0, 1}, {0.25, 0.01, 0.5}} {
					if d := recs.step(&u, m); d != "" {
						t.Fatal(d)
					}
				}
			}
		}
	})
}

func FuzzRowUpdates(f *testing.F) {
	f.Add(uint64(1), uint8(3), uint8(16), uint8(4), float32(1), float32(0), float32(1))
	f.Fuzz(func(t *testing.T, seed uint64, n, dim, rule uint8, scale, decay, clip float32) {
		if n == 0 || dim == 0 {
			return
		}
		u := testUpdate(rules[int(rule)%len(rules)].rule)
		eachBackend(func(string) {
			recs := newRecords(rand.New(rand.NewPCG(seed, 0)), u.Rule, int(n), int(dim), nil)
			if d := recs.step(&u, Gradient{scale, decay, clip}); d != "" {
				t.Fatal(d)
			}
		})
	})
}

func TestVectorUpdatesAreThePlainLoops(t *testing.T) {
	eachBackend(func(name string) {
		rng := rand.New(rand.NewPCG(4, 1))
		for _, r := range rules {
			u, m := testUpdate(r.rule), Gradient{0.5, 0.1, 0.7}
			for n := range 70 {
				rec := newRecords(rng, r.rule, 1, max(n, 1), nil)
				w, g := rec.data[0][rec.part.Value:][:n], rec.grads[:n]
				state := rec.data[0][rec.part.State:][:r.rule.StateLen(n)]
				wantW, wantState, k := slices.Clone(w), slices.Clone(state), u.constants(m)
				if n > 0 {
					k.plain(u.Rule, wantW, g, wantState)
				}
				if u.Vector(w, g, state, m); !same(w, wantW) || !same(state, wantState) {
					t.Fatalf("%s: %s of %d values differs from the plain loop", name, r.name, n)
				}
			}
		}
	})
}

func TestZeroStrideGivesEveryRowTheSameGradient(t *testing.T) {
	u := Update{Rule: SGD, Rate: 1}
	a, b, mark := []float32{1, 2, 3}, []float32{4, 5, 6}, uint32(0)
	u.Rows([]Record{{&a[0], &mark}, {&b[0], &mark}}, 2, 1, Part{Dim: 2, Value: 1}, []float32{1, 2}, 0, Gradient{1, 0, 1})
	if !same(a, []float32{1, 1, 1}) || !same(b, []float32{4, 4, 4}) {
		t.Errorf("rows are %v and %v", a, b)
	}
}

func TestUpdatesRefuseWrongShapes(t *testing.T) {
	u, v := testUpdate(Adam), make([]float32, 8)
	for name, f := range map[string]func(){
		"gradients": func() { u.Vector(v[:2], v[:3], v[:4], Gradient{}) },
		"state":     func() { u.Vector(v[:2], v[:2], v[:2], Gradient{}) },
		"rows":      func() { u.Rows([]Record{{At: &v[0]}, {At: &v[4]}}, 2, 1, Part{Dim: 1, State: 1}, v[:2], 3, Gradient{}) },
		"count":     func() { u.Rows([]Record{{At: &v[0]}}, 2, 1, Part{Dim: 1, State: 1}, v, 1, Gradient{}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("wrong %s did not panic", name)
				}
			}()
			f()
		}()
	}
}

func TestUpdatesAllocateNothing(t *testing.T) {
	for _, r := range rules {
		recs := newRecords(rand.New(rand.NewPCG(1, 1)), r.rule, 5, 16, nil)
		if n := testing.AllocsPerRun(10, func() {
			u := testUpdate(r.rule)
			u.Rows(recs.rows, len(recs.rows), 1, recs.part, recs.grads, 16, Gradient{1, 0, 1})
		}); n != 0 {
			t.Errorf("%s: %v allocations", r.name, n)
		}
	}
}

// BenchmarkRows updates rows in random order that the second-level cache holds, by the
// kernel and by the plain loop in turns, and reports the fastest turns of both: ns a
// row, and how many times as fast the kernel is.
//
//	go test -run '^$' -bench Rows/ -cpu 1 ./internal/kernel/f32
func BenchmarkRows(b *testing.B) {
	const batch = 4096
	for _, r := range rules {
		for _, dim := range []int{1, 4, 8, 16} {
			rng := rand.New(rand.NewPCG(1, 1))
			size := dim + r.rule.StateLen(dim)
			slab := make([]float32, batch*size)
			rows, marks, grads := make([]Record, batch), make([]uint32, batch), make([]float32, batch*dim)
			for i, at := range rng.Perm(batch) {
				rows[i] = Record{&slab[at*size], &marks[at]}
			}
			for i := range grads {
				grads[i] = float32(rng.NormFloat64())
			}
			u, m, part := testUpdate(r.rule), Gradient{0.5, 1e-6, 1}, Part{Dim: dim, State: dim}
			k := u.constants(m)
			eachBackend(func(name string) {
				b.Run(fmt.Sprintf("%s/dim=%d/%s", r.name, dim, name), func(b *testing.B) {
					fastest, plain := time.Hour, time.Hour
					for b.Loop() {
						start := time.Now()
						u.Rows(rows, batch, 1, part, grads, dim, m)
						fastest = min(fastest, time.Since(start))
						start = time.Now()
						for i, row := range rows {
							record := unsafe.Slice(row.At, size)
							k.plain(u.Rule, record[:dim], grads[i*dim:][:dim], record[dim:])
						}
						plain = min(plain, time.Since(start))
					}
					b.ReportMetric(0, "ns/op") // of both together: no use
					b.ReportMetric(float64(fastest.Nanoseconds())/batch, "ns/row")
					b.ReportMetric(float64(plain)/float64(fastest), "×plain")
				})
			})
		}
	}
}
