package runs

import (
	"math"
	"testing"

	"github.com/wdlrun/wdlrun/internal/runs/rundir"
)

// TestMetricsOfKnownRowsAreMissing: of a partition that the model before was trained on, only the
// numbers of rows count.
func TestMetricsOfKnownRowsAreMissing(t *testing.T) {
	x := 0.75
	for _, seen := range []bool{false, true} {
		r := &Run{Summary: Summary{Name: "a"}}
		r.Days.Days = []rundir.Day{{Run: "a", Rows: 5, AUC: &x, LogLoss: &x, Calib: &x, Entropy: &x, Seen: seen}}
		found := 0
		for _, c := range totals {
			switch c.name {
			case "day_rows":
				if n := c.of(r, nil, Point{}); n != 5 {
					t.Errorf("seen %v: %v rows", seen, n)
				}
			case "day_auc", "day_logloss", "day_calibration", "day_entropy":
				found++
				if got := c.of(r, nil, Point{}); math.IsNaN(got) != seen || !seen && got != x {
					t.Errorf("seen %v: %s is %v", seen, c.name, got)
				}
			}
		}
		if found != 4 {
			t.Errorf("%d metrics", found)
		}
	}
}
