package plural

import (
	"math"
	"testing"
)

// TestOf: only 1 has a singular noun.
func TestOf(t *testing.T) {
	for n, want := range map[int]string{0: "0 ranks", 1: "1 rank", 2: "2 ranks", -1: "-1 ranks"} {
		if got := Of(n, "rank"); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestAre(t *testing.T) {
	for n, want := range map[int]string{0: "0 ranks are ready", 1: "1 rank is ready", 2: "2 ranks are ready"} {
		if got := Are(n, "rank", "ready"); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestGrouped(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -999: "-999", -1000: "-1,000", 1234567: "1,234,567", math.MinInt64: "-9,223,372,036,854,775,808"} {
		if got := Grouped(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
