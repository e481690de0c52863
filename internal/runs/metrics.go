package runs

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
)

// The series of points in metrics.jsonl.
const (
	Train = "train"
	Valid = "valid"
	Test  = "test"
)

// maxPoints is the maximum number of points of a series. In a longer one, every
// second point is dropped, as often as needed. The last point is kept.
const maxPoints = 1 << 14

// maxLine is the maximum length of a line of metrics.jsonl.
const maxLine = 1 << 20

// maxFaults is the maximum number of faulty lines of metrics.jsonl reported.
const maxFaults = 3

func (r *Run) readMetrics() {
	f, err := regular.Open(filepath.Join(r.Dir, rundir.FileMetrics))
	if err != nil {
		r.fault(rundir.FileMetrics, err)
		return
	}
	defer f.Close()
	r.scan(io.LimitReader(f, maxMetrics))
}

// scan reads lines of metrics. The last may be truncated, because a training may be
// writing it.
func (r *Run) scan(from io.Reader) {
	lines := bufio.NewReaderSize(from, 1<<16)
	series := map[string]*Series[Point]{Train: {Most: maxPoints}, Valid: {Most: maxPoints}, Test: {Most: maxPoints}}
	faults := 0
	for n := 1; ; n++ {
		line, whole, err := readLine(lines)
		if err != nil {
			break
		}
		why := ""
		if len(line) > maxLine {
			why = fmt.Sprintf("it is longer than %d bytes", maxLine)
		} else if isRankTimes(line) {
			continue // see RankTimes
		} else if p, event, err := ParsePoint(line); err != nil {
			why = err.Error()
		} else if s := series[event]; s != nil {
			s.Add(p)
		} else if event == ThinEvent && json.Unmarshal(line, &r.Thinned) != nil {
			r.Thinned = Thinned{}
		} // otherwise an event of another version
		if why != "" && whole {
			if faults++; faults <= maxFaults {
				r.Faults = append(r.Faults, fmt.Sprintf("%s: line %d: %s", rundir.FileMetrics, n, why))
			}
		}
	}
	if faults > maxFaults {
		r.Faults = append(r.Faults, fmt.Sprintf("%s: %d more lines cannot be read", rundir.FileMetrics, faults-maxFaults))
	}
	r.Train, r.Valid, r.Test = series[Train].Points(), series[Valid].Points(), series[Test].Points()
}

// readLine returns the next line, without its bytes after maxLine, and whether it ends
// with a line feed.
func readLine(lines *bufio.Reader) (line []byte, whole bool, err error) {
	for {
		part, err := lines.ReadSlice('\n')
		if len(line) <= maxLine {
			line = append(line, part...)
		}
		switch {
		case err == nil:
			return bytes.TrimSuffix(line, []byte("\n")), true, nil
		case err != bufio.ErrBufferFull:
			if len(line) > 0 {
				err = nil
			}
			return line, false, err
		}
	}
}

// ParsePoint parses a line of metrics.jsonl. series is Train, Valid, Test, or another event.
func ParsePoint(line []byte) (p Point, series string, err error) {
	var l struct {
		Event   string    `json:"event"`
		Time    time.Time `json:"time"`
		Step    int64     `json:"step"`
		Epoch   int64     `json:"epoch"`
		Samples int64     `json:"samples"`
		Rate    *float64  `json:"rate"`
		Speed   *float64  `json:"samples_per_second"`
		LogLoss *float64  `json:"logloss"`
		Metrics *Metrics  `json:"metrics"`
		Data    string    `json:"data"`
	}
	if err := json.Unmarshal(line, &l); err != nil {
		return p, "", fmt.Errorf("no metrics: %w", err)
	}
	return Point{l.Time, l.Step, l.Epoch, l.Samples, Value(l.LogLoss), Value(l.Rate), Value(l.Speed), l.Metrics, short(l.Data)}, l.Event, nil
}

// Series is a series of at most Most points. Beyond that, every second point is dropped,
// as often as needed. The last point is kept.
type Series[P any] struct {
	Most  int
	kept  []P
	every int
	next  int
	last  P
	loose bool // last is not in kept
}

// Add appends a point.
func (s *Series[P]) Add(p P) {
	s.every = max(s.every, 1)
	s.last, s.loose = p, true
	if s.next++; s.next < s.every {
		return
	}
	s.next, s.loose = 0, false
	s.kept = append(s.kept, p)
	if len(s.kept) < s.Most {
		return
	}
	half := s.kept[:0]
	for i := 0; i < len(s.kept); i += 2 {
		half = append(half, s.kept[i])
	}
	s.kept, s.every = half, 2*s.every
}

// Points returns the kept points, and the last. The caller must not change them.
func (s *Series[P]) Points() []P {
	if s.loose {
		return append(s.kept[:len(s.kept):len(s.kept)], s.last)
	}
	return s.kept
}

// Column is a metric of an evaluation and its name.
type Column struct {
	Name string
	of   func(*Metrics) *float64
}

// Value returns the metric, NaN if it is missing. m may be nil.
func (c Column) Value(m *Metrics) float64 {
	if m == nil {
		return math.NaN()
	}
	return Value(c.of(m))
}

// columns lists the metrics of an evaluation.
var columns = []Column{
	{"auc", func(m *Metrics) *float64 { return m.AUC }},
	{"logloss", func(m *Metrics) *float64 { return m.LogLoss }},
	{"accuracy", func(m *Metrics) *float64 { return m.Accuracy }},
	{"pr_auc", func(m *Metrics) *float64 { return m.PRAUC }},
	{"normalised_entropy", func(m *Metrics) *float64 { return m.NormalisedEntropy }},
	{"calibration", func(m *Metrics) *float64 { return m.Calibration }},
	{"rmse", func(m *Metrics) *float64 { return m.RMSE }},
	{"mae", func(m *Metrics) *float64 { return m.MAE }},
}

// Columns returns the metrics of an evaluation.
func Columns() []Column { return slices.Clone(columns) }

// totals lists the metrics of a whole run.
var totals = []struct {
	name string
	of   func(r *Run, res *Result, last Point) float64
}{
	{"train_logloss", func(_ *Run, res *Result, last Point) float64 {
		if res.TrainLogLoss != nil {
			return *res.TrainLogLoss
		}
		return last.LogLoss
	}},
	{"samples_per_second", func(_ *Run, res *Result, last Point) float64 {
		if res.SamplesPerSecond > 0 {
			return res.SamplesPerSecond
		}
		return last.Speed
	}},
	{"samples", func(_ *Run, res *Result, last Point) float64 { return float64(max(res.Samples, last.Samples)) }},
	{"steps", func(r *Run, _ *Result, _ Point) float64 { return float64(r.Step) }},
	{"refit_epochs", func(_ *Run, res *Result, _ Point) float64 {
		if res.Refit == nil {
			return math.NaN()
		}
		return float64(res.Refit.Epochs)
	}},
	{"seconds", func(r *Run, _ *Result, _ Point) float64 { return r.Seconds }},
	{"day_rows", ofDay(func(d *rundir.Day) float64 { return float64(d.Rows) })},
	{"day_new_keys", ofDay(func(d *rundir.Day) float64 { return float64(d.Keys) })},
	{"day_retired_rows", ofDay(func(d *rundir.Day) float64 { return float64(d.Retired) })},
	{"day_auc", ofNewDay(func(d *rundir.Day) *float64 { return d.AUC })},
	{"day_logloss", ofNewDay(func(d *rundir.Day) *float64 { return d.LogLoss })},
	{"day_calibration", ofNewDay(func(d *rundir.Day) *float64 { return d.Calib })},
	{"day_entropy", ofNewDay(func(d *rundir.Day) *float64 { return d.Entropy })},
	{"ranks", func(_ *Run, res *Result, _ Point) float64 {
		if res.WorldSize > 0 {
			return float64(res.WorldSize)
		}
		return math.NaN()
	}},
}

// ofNewDay is ofDay for a metric of the model before. On rows that it was trained on, the metric says
// nothing and is missing.
func ofNewDay(of func(d *rundir.Day) *float64) func(*Run, *Result, Point) float64 {
	return ofDay(func(d *rundir.Day) float64 {
		if d.Seen {
			return math.NaN()
		}
		return Value(of(d))
	})
}

// ofDay returns a metric of the partition that a run of train -by has trained on. Its AUC, loss and
// calibration are of the model before.
func ofDay(of func(d *rundir.Day) float64) func(*Run, *Result, Point) float64 {
	return func(r *Run, _ *Result, _ Point) float64 {
		if n := len(r.Days.Days); n > 0 && r.Days.Days[n-1].Run == r.Name {
			return of(&r.Days.Days[n-1])
		}
		return math.NaN()
	}
}

// Number returns a metric of a run by its name, NaN if it has none: one of Columns of its
// last evaluation, or one of the whole run.
func (s *Summary) Number(name string) float64 {
	if x, has := s.Numbers[name]; has {
		return x
	}
	return math.NaN()
}

// numbers returns the metrics of a run.
func (r *Run) numbers() map[string]float64 {
	all := map[string]float64{}
	set := func(name string, x float64) {
		if !math.IsNaN(x) && !math.IsInf(x, 0) {
			all[name] = x
		}
	}
	m, _ := r.Evaluation()
	for _, c := range columns {
		set(c.Name, c.Value(m))
	}
	last := Point{LogLoss: math.NaN(), Speed: math.NaN()}
	if n := len(r.Train); n > 0 {
		last = r.Train[n-1]
	}
	for _, t := range totals {
		set(t.name, t.of(r, cmp.Or(r.Result, &Result{}), last))
	}
	return all
}

// Names returns the names that Number knows.
func Names() (all []string) {
	for _, c := range columns {
		all = append(all, c.Name)
	}
	for _, t := range totals {
		all = append(all, t.name)
	}
	return all
}

// The speed in a line is that of about the last ten seconds, but less in the first seconds of a job,
// whose few steps say little.
const (
	startTime = 10 * time.Second
	longTime  = 2 * startTime
)

// Speeds returns the speed of each point of training, NaN in the first ten seconds of a job that has
// lasted for twenty. The first line of a job has no speed.
func (r *Run) Speeds() []float64 {
	all := make([]float64, len(r.Train))
	from, long := 0, false // first point of the job; it has lasted for longTime
	for i, p := range r.Train {
		all[i] = p.Speed
		if i > 0 && math.IsNaN(p.Speed) {
			from, long = i, false
		}
		if long || p.Time.Sub(r.Train[from].Time) < longTime {
			continue
		}
		long = true
		for k := from; k < i && r.Train[k].Time.Sub(r.Train[from].Time) < startTime; k++ {
			all[k] = math.NaN()
		}
	}
	return all
}
func isRankTimes(line []byte) bool { return bytes.HasPrefix(line, rankPrefix) }

// rankPrefix is the beginning of a line with RankTimes.
var rankPrefix = []byte(`{"event":"` + RankEvent + `"`)

// RankEvent is the event of RankTimes.
const RankEvent = "ranks"
