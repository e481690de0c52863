package train

import (
	"testing"

	"github.com/wdlrun/wdlrun/internal/runs/rundir"
)

// TestRetires: rows that were last seen in partitions that ended days before the next one are
// removed. A partition that was trained on again late does not protect the rows of those before it,
// and rows of later trainings stay.
func TestRetires(t *testing.T) {
	const day = 24 * 60 * 60
	done := &rundir.Days{Days: []rundir.Day{{End: 1 * day, Step: 4}, {End: 2 * day, Step: 8}, {End: 3 * day, Step: 12}, {End: 1 * day, Step: 16}}}
	for _, x := range []struct {
		begin int64
		days  int
		want  int64
	}{{3 * day, 3, 0}, {3 * day, 2, 4}, {3 * day, 1, 8}, {4 * day, 2, 8}, {9 * day, 2, 16}} {
		if got := Retires(done, x.begin, x.days); got != x.want {
			t.Errorf("begin %d, %d days: step %d, want %d", x.begin/day, x.days, got, x.want)
		}
	}
}
