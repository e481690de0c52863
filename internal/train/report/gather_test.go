package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/train/shared"
	"github.com/wdlrun/wdlrun/trace"
)

// TestLinesAboutRanks have the mean times of the steps since the line before. After a
// recovery, the time of earlier steps does not count. Lines that are too close are left out.
func TestLinesAboutRanks(t *testing.T) {
	for _, c := range []struct {
		since int64 // first step that the totals include
		want  []string
	}{
		{100, []string{`"step":110,"phases":["input","pull","compute","push","sync","update"],"seconds":[[0,0,0.7,0,0,0.03333]]`, `"step":120,"phases":["input","pull","compute","push","sync","update"],"seconds":[[0,0,0.2,0,0,0]]`}},
		{0, []string{`"step":120,"phases":["input","pull","compute","push","sync","update"],"seconds":[[0,0,0.2,0,0,0]]`}},
	} {
		dir := t.TempDir()
		r := New(shared.Rank{Comm: collective.New(mem.New(1, 2)[0]), Rec: trace.New(0), PrintWarning: func(line string) { t.Error(line) }})
		r.Begin(Since{Step: c.since})
		r.Open(dir, nil, nil, 100, Effort{})
		r.slow.words = make([]int64, ownWords)
		at := func(step int64, compute time.Duration, last bool) {
			r.slow.words[effortWords+1+int(trace.Compute)] = int64(compute)
			r.slow.words[effortWords+1+int(trace.Update)] = int64(time.Second / 3)
			r.times(step, last)
		}
		at(110, 7*time.Second, true)
		at(115, 8*time.Second, false)
		at(120, 9*time.Second, true)
		at(120, 9*time.Second, true)
		r.Close()
		b, err := os.ReadFile(filepath.Join(dir, rundir.FileMetrics))
		lines := strings.Split(strings.TrimSpace(string(b)), "\n")
		if err != nil || len(lines) != len(c.want) {
			t.Fatalf("%q, %v", lines, err)
		}
		for i, line := range lines {
			if !strings.Contains(line, c.want[i]) {
				t.Errorf("since step %d: line %s, want %s", c.since, line, c.want[i])
			}
		}
	}
}
