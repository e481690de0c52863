package train

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
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

// TestRowsOfAPartition: the rows of a partition are counted, however some of them are held out.
func TestRowsOfAPartition(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.csv")
	fatal.If(t, os.WriteFile(path, []byte("y,x,t\n0,a,1\n1,b,2\n0,a,3\n1,c,4\n"), 0o644))
	for _, hold := range []string{"valid_fraction: 0", "valid_fraction: 0.5", "valid_fraction: 0.5, valid_time: t", "valid_fraction: 0.5, valid_group: x"} {
		c, err := config.Parse("c.yaml", fmt.Appendf(nil, "data: {train: [%q], header: true, %s}\nlabel: {field: y}\nfeatures: [{field: x, encode: hash}]\n", path, hold))
		fatal.If(t, err)
		if n, err := Rows(t.Context(), c); n != 4 || err != nil {
			t.Errorf("%s: %d rows, %v", hold, n, err)
		}
	}
}

// TestRowsWithoutAColumn: the rows of a partition from before a feature existed are counted.
func TestRowsWithoutAColumn(t *testing.T) {
	c, err := config.Parse("c.yaml", []byte(fmt.Sprintf(`
data: {train: [%q], header: true}
label: {field: y}
features: [{field: a, encode: vocabulary}, {field: later, encode: vocabulary}]
model: {embedding_dim: 2, hidden: [4]}
`, datatest.Write(t, "rows.csv", "y,a\n0,u\n1,v\n1,u\n"))))
	fatal.If(t, err)
	if n, err := Rows(t.Context(), c); n != 3 || err != nil {
		t.Errorf("%d rows, %v, want 3", n, err)
	}
}
