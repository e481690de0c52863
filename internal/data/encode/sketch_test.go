package encode

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/wire"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

func sketchOf(values ...float64) *sketch {
	s := newSketch()
	for _, x := range values {
		s.add(x)
	}
	return s
}

// Rounding never goes up, is exact for points of the grid, and may be done in steps.
func TestRoundDown(t *testing.T) {
	for _, x := range []float64{0, math.Copysign(0, -1), 1, 4096, 8191, -8191, .5, -3, 5e-324, 1e15 + .125} {
		if got := math.Float64frombits(roundDown(x, 0)); got != x || math.Signbit(got) && x == 0 {
			t.Errorf("%v is rounded to %v", x, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64Range(-math.MaxFloat32, math.MaxFloat32).Draw(t, "x")
		drop := rapid.UintRange(0, coarsestDrop).Draw(t, "drop")
		first := math.Float64frombits(roundDown(x, drop))
		if ulps := math.Ldexp(1, int(drop)-52); first > x || math.Abs(x) > 1e-300 && x-first > math.Abs(x)*ulps {
			t.Fatalf("%v is rounded to %v", x, first)
		}
		more := rapid.UintRange(drop, coarsestDrop).Draw(t, "more")
		if a, b := roundDown(first, more), roundDown(x, more); a != b {
			t.Fatalf("rounding %v twice gives %x, once %x", x, a, b)
		}
	})
}

// columns are kinds of numbers, by how one is drawn.
var columns = map[string]func(*rand.Rand) float64{
	"one value":   func(*rand.Rand) float64 { return 7 },
	"hours":       func(d *rand.Rand) float64 { return float64(d.IntN(240) * 3600) },
	"seconds":     func(d *rand.Rand) float64 { return float64(d.IntN(86400 * 10)) },
	"uniform":     func(d *rand.Rand) float64 { return d.Float64() },
	"tiny range":  func(d *rand.Rand) float64 { return 1e-9 * d.Float64() },
	"normal":      func(d *rand.Rand) float64 { return 1e3 * d.NormFloat64() },
	"exponential": func(d *rand.Rand) float64 { return 100 * d.ExpFloat64() },
	"heavy tail":  func(d *rand.Rand) float64 { return 1 / (d.Float64() + 1e-6) },
	"mixed":       func(d *rand.Rand) float64 { return math.Ldexp(d.NormFloat64(), d.IntN(100)-50) },
	"denormal":    func(d *rand.Rand) float64 { return math.Float64frombits(d.Uint64N(1 << 40)) },
	"mostly zero": func(d *rand.Rand) float64 { return max(0, d.NormFloat64()-1) },
}

// For any values and offset, limits cut them into equal shares and moments are right,
// compared with sorting: exact up to maxEntries distinct values, otherwise nearly.
func TestSketchAgainstSorting(t *testing.T) {
	const values = 80000
	for name, draw := range columns {
		for _, offset := range []float64{0, 1.4e9, -1e15} {
			if name == "mixed" && offset != 0 {
				continue // most values are one point of the grid; see sketch
			}
			d := rand.New(rand.NewPCG(1, 2))
			s, all := newSketch(), make([]float64, values)
			for i := range all {
				all[i] = offset + draw(d)
				s.add(all[i])
			}
			slices.Sort(all)
			distinct := len(slices.Compact(slices.Clone(all)))
			if s.counts.n != distinct && (distinct <= maxEntries || s.counts.n <= maxEntries/2) {
				t.Errorf("%s from %v: %d of %d distinct values are left", name, offset, s.counts.n, distinct)
			}
			if got, want := s.extent(), []float64{all[0], all[values-1]}; !slices.Equal(got, want) {
				t.Errorf("%s from %v: from %v, want %v", name, offset, got, want)
			}
			checkMoments(t, name, offset, s, all)
			checkShares(t, name, offset, s, all)
		}
	}
}

// checkMoments compares the moments of a sketch with the moments of the sorted values.
func checkMoments(t *testing.T, name string, offset float64, s *sketch, all []float64) {
	t.Helper()
	origin, mean, squares, n := all[len(all)/3], 0.0, 0.0, float64(len(all)) // without the digits of the offset
	for _, x := range all {
		mean += (x - origin) / n
	}
	for _, x := range all {
		squares += (x - origin - mean) * (x - origin - mean)
	}
	mean += origin
	deviation := math.Sqrt(squares / n)
	gotMean, gotDeviation := s.moments(func(x float64) float64 { return x })
	if math.Abs(gotMean-mean) > 2e-3*deviation+1e-15*math.Abs(mean)+1e-300 || math.Abs(gotDeviation-deviation) > 2e-3*deviation {
		t.Errorf("%s from %v: mean %v, deviation %v, want %v and %v", name, offset, gotMean, gotDeviation, mean, deviation)
	}
}

// checkShares counts the sorted values in the intervals of a sketch.
func checkShares(t *testing.T, name string, offset float64, s *sketch, all []float64) {
	t.Helper()
	const q = 33
	common, run := 0, 0
	for i, x := range all {
		if run++; i > 0 && x != all[i-1] {
			run = 1
		}
		common = max(common, run)
	}
	limits, before := s.limits(q), 0
	for _, end := range append(limits, math.Inf(1)) {
		at, _ := slices.BinarySearch(all, end)
		if n := at - before; n == 0 || n > len(all)/q+common+len(all)/500 {
			t.Errorf("%s from %v: an interval up to %v holds %d of %d values", name, offset, end, n, len(all))
		}
		before = at
	}
}

// TestSketchDoesNotDependOnParts: merged sketches are the same for any partition of the values,
// also if many values make the grid coarser.
func TestSketchDoesNotDependOnParts(t *testing.T) {
	for _, n := range []int{100, patient.Size(150_000, 400_000)} {
		d := rand.New(rand.NewPCG(7, 7))
		values := make([]float64, n)
		for i := range values {
			values[i] = math.Exp(float64(d.IntN(1<<30))/(1<<30)*100-50) * float64(d.IntN(2)*2-1)
		}
		var want []byte
		for _, parts := range []int{1, 2, 5} {
			joint := newSketch()
			for p := parts - 1; p >= 0; p-- {
				part := newSketch()
				part.missing = int64(p)
				for i := p; i < n; i += parts {
					part.add(values[i])
				}
				joint.merge(sketchFrom(&wire.Reader{B: part.append(nil)}))
			}
			joint.missing = 0
			got := joint.append(nil)
			if want == nil {
				want = got
			}
			if !slices.Equal(got, want) {
				t.Errorf("%d values in %d parts give another sketch", n, parts)
			}
			if joint.counts.n > maxEntries || n > 1000 && joint.drop == 0 {
				t.Errorf("%d entries at drop %d", joint.counts.n, joint.drop)
			}
		}
	}
}

func TestMoments(t *testing.T) {
	same := func(x float64) float64 { return x }
	if m, d := sketchOf(2, 4, 4, 4, 5, 5, 7, 9).moments(same); m != 5 || d != 2 {
		t.Errorf("mean %v, deviation %v, want 5 and 2", m, d)
	}
	if m, d := sketchOf().moments(same); m != 0 || d != 0 {
		t.Errorf("of nothing: %v, %v", m, d)
	}
	if m, d := sketchOf(3, 3).moments(same); m != 3 || d != 0 {
		t.Errorf("of a constant: %v, %v", m, d)
	}
}

func TestLimits(t *testing.T) {
	var hundred []float64
	for i := range 100 {
		hundred = append(hundred, float64(i))
	}
	for _, x := range []struct {
		what   string
		values []float64
		q      int64
		want   []float64
	}{
		{"even", hundred, 4, []float64{25, 50, 75}},
		{"halves", []float64{1, 2, 3, 4}, 2, []float64{3}},
		{"a frequent value", []float64{0, 0, 0, 0, 0, 0, 0, 5, 6, 7}, 5, []float64{5, 6, 7}},
		{"a frequent value within", []float64{1, 2, 3, 4, 5, 5, 5, 5, 5, 5, 6, 7, 8, 9}, 5, []float64{3, 5, 6, 8}},
		{"negative", []float64{-3, -2, -1}, 3, []float64{-2, -1}},
		{"fewer values than quantiles", []float64{1, 2}, 33, []float64{2}},
		{"a constant", []float64{4, 4, 4}, 33, nil},
		{"none", nil, 33, nil},
	} {
		if got := sketchOf(x.values...).limits(x.q); !slices.Equal(got, x.want) {
			t.Errorf("%s: %v, want %v", x.what, got, x.want)
		}
	}
}

// No interval holds more than twice its share beyond one value, and none is empty.
func TestLimitsCutEvenly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(-1e6, 1e6), 1, 300).Draw(t, "values")
		q := rapid.Int64Range(2, 40).Draw(t, "q")
		s := sketchOf(values...)
		limits := s.limits(q)
		if int64(len(limits)) >= q || !slices.IsSorted(limits) {
			t.Fatalf("%d limits: %v", len(limits), limits)
		}
		counts := make([]int64, len(limits)+1)
		for _, x := range values {
			counts[interval(limits, x)]++
		}
		common := int64(0)
		for _, n := range s.counts.all {
			common = max(common, n)
		}
		for i, n := range counts {
			if n == 0 || n > 2*int64(len(values))/q+1+common {
				t.Fatalf("interval %d of %v holds %d of %d", i, limits, n, len(values))
			}
		}
	})
}

func TestInterval(t *testing.T) {
	limits := []float64{18, 50}
	for x, want := range map[float64]int{-1: 0, 17.9: 0, 18: 1, 49: 1, 50: 2, 1e9: 2} {
		if got := interval(limits, x); got != want {
			t.Errorf("%v is in interval %d, want %d", x, got, want)
		}
	}
}

func TestVocabularyIsBounded(t *testing.T) {
	v := newVocabulary()
	v.bytes = maxWordBytes - 2
	if err := v.add([]byte("ab"), 1); err != nil {
		t.Error(err)
	}
	if err := v.add([]byte("c"), 1); err == nil || !strings.Contains(err.Error(), "hash") {
		t.Errorf("over the limit: %v", err)
	}
	if err := v.add([]byte("ab"), 1); err != nil {
		t.Errorf("a known word: %v", err)
	}
}

// fitted returns a schema with a standardised field and a vocabulary.
func fitted() schema.Schema {
	return schema.Schema{Label: schema.Label{Field: "y"}, Features: []schema.Feature{{Field: "score", Encode: "standardise"}, {Field: "city", Encode: "vocabulary"}}}
}

func FuzzMergeFit(f *testing.F) {
	fit := NewFit(fitted())
	fit.numbers[0].sketch.add(-2.5)
	fit.numbers[0].sketch.add(7)
	_ = fit.words[0].vocabulary.add([]byte("Bern"), 2)
	f.Add(fit.Marshal())
	f.Fuzz(func(t *testing.T, b []byte) {
		fit := NewFit(fitted())
		if fit.Merge(b) != nil {
			return
		}
		if _, err := NewEncoder(fit); err != nil {
			t.Fatalf("statistics that were accepted give no encoder: %v", err)
		}
		if err := NewFit(fitted()).Merge(fit.Marshal()); err != nil {
			t.Fatalf("what was accepted is refused: %v", err)
		}
	})
}
