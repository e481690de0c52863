package metrics

import (
	"math"
	"slices"
	"testing"
)

// TestHistogram: quantiles are correct to the width of a bin, an eighth, and no count is
// lost.
func TestHistogram(t *testing.T) {
	var c NormCounts
	var all []float64
	for i := range 1000 {
		x := float64(i*i) / 1e4
		all = append(all, x)
		c.Add(x)
	}
	h := HistogramOf(&c)
	total := int64(0)
	for i, n := range h.Counts {
		total += n
		if n != c[h.First+i] {
			t.Fatalf("bin %d has %d, want %d", h.First+i, n, c[h.First+i])
		}
	}
	if total != 1000 || h.Counts[0] == 0 || h.Counts[len(h.Counts)-1] == 0 {
		t.Errorf("%d norms in %v", total, h)
	}
	for _, q := range []float64{0.1, 0.5, 0.9, 1} {
		want := all[int(math.Ceil(q*1000))-1]
		if got := h.Quantile(q); math.Abs(got-want) > want/8 {
			t.Errorf("quantile %g is %g, want %g", q, got, want)
		}
	}
	if h := HistogramOf(new(NormCounts)); !slices.Equal(h.Counts, []int64{}) || h.First != 0 {
		t.Errorf("%v without norms", h)
	}
}
