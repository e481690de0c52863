package report

import "testing"

// TestFewNumbersOutsideAreNotReported.
func TestFewNumbersOutsideAreNotReported(t *testing.T) {
	for _, c := range []struct {
		values, outside int64
		want            bool
	}{{9, 9, false}, {10, 10, true}, {1000, 49, false}, {1000, 50, true}} {
		o := Outside{Field: "x", Values: c.values, Outside: c.outside, Max: 1}
		if got := o.warning("the data") != ""; got != c.want {
			t.Errorf("%d of %d: %v, want %v", c.outside, c.values, got, c.want)
		}
	}
}
