package report

import (
	"bytes"
	"encoding/binary"
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

// TestEventFilesAreBounded: the event files of a training that writes for ever stay below a limit, also when it
// is resumed. They keep the first step and the last one, and no step twice.
func TestEventFilesAreBounded(t *testing.T) {
	dir := t.TempDir()
	warn := func(line string) { t.Error(line) }
	tb := filepath.Join(dir, rundir.FolderEvents)
	size := func() (sum int64) {
		filepath.WalkDir(tb, func(_ string, d os.DirEntry, err error) error {
			if info, err := d.Info(); err == nil && !d.IsDir() {
				sum += info.Size()
			}
			return err
		})
		return sum
	}
	const limit, steps = 300 << 10, 10000
	var most int64
	for job := range int64(2) {
		m, e := openMetrics(dir, nil, job*steps, warn), openEvents(dir, nil, job*steps, warn)
		m.limit, e.limit = 50<<10, limit
		for step := job*steps + 1; step <= (job+1)*steps; step++ {
			b, err := json.Marshal(Line{Event: "train", Time: "2026-11-20T10:00:00Z", Step: step, Samples: 250 * step, LogLoss: .5})
			fatal.If(t, err)
			m.write(b)
			e.line(b)
			if step%100 == 0 {
				most = max(most, size())
			}
		}
		m.close()
		e.close()
	}
	if most > limit+1000 || most < limit/2 {
		t.Errorf("the event files have up to %d bytes", most)
	}
	paths, err := filepath.Glob(filepath.Join(tb, "*/train/*"))
	if err != nil || len(paths) != 1 {
		t.Fatalf("%q, %v", paths, err)
	}
	b, err := os.ReadFile(paths[0])
	fatal.If(t, err)
	seen := map[uint64]int{}
	for len(b) > 0 {
		n := binary.LittleEndian.Uint64(b)
		if event := b[12 : 12+n]; event[9] == 2<<3 && bytes.Contains(event, []byte("logloss")) { // after the time
			step, _ := binary.Uvarint(event[10:])
			seen[step]++
		}
		b = b[16+n:]
	}
	if len(seen) < 256 || seen[1] != 1 || seen[2*steps] != 1 {
		t.Errorf("%d steps; the first %d times, the last %d times", len(seen), seen[1], seen[2*steps])
	}
	for step, n := range seen {
		if n > 1 {
			t.Errorf("step %d is there %d times", step, n)
		}
	}
}
