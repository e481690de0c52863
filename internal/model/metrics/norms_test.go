package metrics

import (
	"math"
	"testing"
)

// TestNormBins: every bin begins where the one before ends, and counts the norms between.
func TestNormBins(t *testing.T) {
	last := math.Ldexp(1, -24)
	for bin := 1; bin < NormBins; bin++ {
		low, high := NormBin(bin)
		if low != last || high <= low {
			t.Fatalf("bin %d is from %g to %g, the one before ends at %g", bin, low, high, last)
		}
		var c NormCounts
		c.Add(low)
		c.Add(math.Nextafter(high, 0))
		if c[bin] != 2 {
			t.Fatalf("bin %d has %d norms", bin, c[bin])
		}
		last = high
	}
	var c NormCounts
	for _, x := range []float64{0, 1e-30, 1e30} {
		c.Add(x)
	}
	if last != math.Ldexp(1, 24) || c[0] != 1 || c[1] != 1 || c[NormBins-1] != 1 {
		t.Errorf("the last bin ends at %g; %v", last, c)
	}
}
