package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/runs"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestMetricsAreThinned: a file of metrics stays below its limit. It keeps its first and last line, the best
// evaluations and all other events, and counts what it no longer has.
func TestMetricsAreThinned(t *testing.T) {
	dir := t.TempDir()
	m := openMetrics(dir, nil, 0, func(line string) { t.Error(line) })
	m.limit = 200 << 10
	write := func(l Line) {
		l.Time = "2026-11-20T10:00:00Z"
		b, err := json.Marshal(l)
		fatal.If(t, err)
		m.write(b)
	}
	auc := func(x float64) *metrics.Metrics { return &metrics.Metrics{AUC: &x, LogLoss: 1 - x/2} }
	const steps = 20000
	days := 0
	for step := int64(1); step <= steps; step++ {
		write(Line{Event: "train", Step: step, Samples: 250 * step, LogLoss: .5})
		if step%3 == 0 {
			write(Line{Event: "valid", Step: step, Metrics: auc(.7 + float64(step%1000)/1e6)})
		}
		if step == 5001 {
			write(Line{Event: "valid", Step: step, Metrics: auc(.9)})
		}
		if step%1000 == 0 {
			days++
			write(Line{Event: "day", Step: step})
		}
	}
	if info, err := os.Stat(filepath.Join(dir, rundir.FileMetrics)); err != nil || info.Size() > 200<<10 || info.Size() < 100<<10 {
		t.Errorf("%v, %v", info, err)
	}
	m.close()
	r, err := runs.Read(dir)
	fatal.If(t, err)
	if n := len(r.Train); n < 256 || r.Train[0].Step != 1 || r.Train[n-1].Step != steps || len(r.Faults) > 0 {
		t.Errorf("%d points of training, %v", n, r.Faults)
	}
	best := 0
	for i, p := range r.Valid {
		if *p.Metrics.AUC == .9 {
			best++
		}
		if i > 0 && p.Step <= r.Valid[i-1].Step && p.Step != 5001 {
			t.Fatalf("step %d after %d", p.Step, r.Valid[i-1].Step)
		}
	}
	b, _ := os.ReadFile(filepath.Join(dir, rundir.FileMetrics))
	kept := strings.Count(string(b), "\n") - 1
	if got := strings.Count(string(b), `"event":"day"`); best != 1 || got != days || r.Thinned.Lines != steps+steps/3+1+days-kept {
		t.Errorf("%d best evaluations, %d of %d days; %d lines are left and %d counted", best, got, days, kept, r.Thinned.Lines)
	}

	m = openMetrics(dir, nil, 400, func(line string) { t.Error(line) }) // resumes before the last thinned step
	m.close()
	again, err := runs.Read(dir)
	if err != nil || again.Thinned.Lines != r.Thinned.Lines || again.Train[len(again.Train)-1].Step > 400 {
		t.Errorf("%+v after a resume, %v", again.Thinned, err)
	}
}

// TestDistributionsAreThinned: the curves of the first and of the last evaluations are kept.
func TestDistributionsAreThinned(t *testing.T) {
	r := &Reporter{dir: t.TempDir()}
	const lines = 4000
	for i := range lines {
		fatal.If(t, r.appendDistributions(fmt.Appendf(nil, "{\"step\":%d,\"tables\":[],\"pr_curves\":[]%s}\n", i, strings.Repeat(" ", 2000))))
	}
	path := filepath.Join(r.dir, rundir.FileDistributions)
	info, err := os.Stat(path)
	if err != nil || info.Size() > maxDistributions {
		t.Fatal(info, err)
	}
	b, _ := os.ReadFile(path)
	if s := string(b); !strings.HasPrefix(s, `{"step":0,`) || !strings.Contains(s, fmt.Sprintf(`{"step":%d,`, lines-1)) {
		t.Errorf("it begins with %.20q and lacks the last line", s)
	}
}
