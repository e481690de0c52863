package runs

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"time"

	"github.com/wdlrun/wdlrun/internal/regular"
	"github.com/wdlrun/wdlrun/internal/wdl/save"
)

// Point is one line of metrics.jsonl. A number that is not in it is NaN.
type Point struct {
	Time    time.Time
	Step    int64
	Epoch   int64
	Samples int64
	LogLoss float64
	Rate    float64
	Speed   float64
	Metrics *Metrics // of an evaluation
}

// maxPoints bounds the points of a series. Of a longer one every second is dropped, as
// often as needed; the last stays.
const maxPoints = 1 << 14

// maxLine bounds a line of metrics.jsonl.
const maxLine = 1 << 20

// maxFaults bounds the lines of metrics.jsonl that are named.
const maxFaults = 3

func (r *Run) readMetrics() {
	f, err := regular.Open(filepath.Join(r.Dir, save.FileMetrics))
	if err != nil {
		r.fault(save.FileMetrics, err)
		return
	}
	defer f.Close()
	r.scan(io.LimitReader(f, maxMetrics))
}

// scan reads lines of metrics. The last may be cut off: a training may be writing it.
func (r *Run) scan(from io.Reader) {
	lines := bufio.NewReaderSize(from, 1<<16)
	var series [3]thinned
	faults := 0
	for n := 1; ; n++ {
		line, whole, err := readLine(lines)
		if err != nil {
			break
		}
		why := ""
		if len(line) > maxLine {
			why = fmt.Sprintf("it is longer than %d bytes", maxLine)
		} else if p, event, err := parsePoint(line); err != nil {
			why = err.Error()
		} else if event >= 0 {
			series[event].add(p)
		}
		if why != "" && whole {
			if faults++; faults <= maxFaults {
				r.Faults = append(r.Faults, fmt.Sprintf("%s: line %d: %s", save.FileMetrics, n, why))
			}
		}
	}
	if faults > maxFaults {
		r.Faults = append(r.Faults, fmt.Sprintf("%s: %d more lines cannot be read", save.FileMetrics, faults-maxFaults))
	}
	r.Train, r.Valid, r.Test = series[0].points(), series[1].points(), series[2].points()
}

// readLine returns the next line, of which more than maxLine bytes may be missing, and
// whether it ends with a line feed.
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

// parsePoint reads a line. An event of another version has the number -1.
func parsePoint(line []byte) (p Point, event int, err error) {
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
	}
	if err := json.Unmarshal(line, &l); err != nil {
		return p, -1, fmt.Errorf("no metrics: %w", err)
	}
	p = Point{l.Time, l.Step, l.Epoch, l.Samples, Value(l.LogLoss), Value(l.Rate), Value(l.Speed), l.Metrics}
	switch l.Event {
	case "train":
		return p, 0, nil
	case "valid":
		return p, 1, nil
	case "test":
		return p, 2, nil
	}
	return p, -1, nil
}

// thinned is a series of at most maxPoints points.
type thinned struct {
	kept  []Point
	every int
	next  int
	last  *Point
}

func (t *thinned) add(p Point) {
	t.last = &p
	if t.every == 0 {
		t.every = 1
	}
	if t.next++; t.next < t.every {
		return
	}
	t.next, t.last = 0, nil
	t.kept = append(t.kept, p)
	if len(t.kept) < maxPoints {
		return
	}
	half := t.kept[:0]
	for i := 0; i < len(t.kept); i += 2 {
		half = append(half, t.kept[i])
	}
	t.kept, t.every = half, 2*t.every
}

func (t *thinned) points() []Point {
	if t.last != nil {
		return append(t.kept, *t.last)
	}
	return t.kept
}

// Number returns a metric of a run by its name, NaN if it has none: those of its last
// evaluation, and steps, samples, seconds, samples_per_second, ranks and train_logloss.
func (r *Run) Number(name string) float64 {
	m, _ := r.Evaluation()
	if m == nil {
		m = &Metrics{}
	}
	res := r.Result
	if res == nil {
		res = &Result{}
	}
	last := Point{LogLoss: math.NaN(), Speed: math.NaN()}
	if n := len(r.Train); n > 0 {
		last = r.Train[n-1]
	}
	switch name {
	case "auc":
		return Value(m.AUC)
	case "logloss":
		return Value(m.LogLoss)
	case "accuracy":
		return Value(m.Accuracy)
	case "pr_auc":
		return Value(m.PRAUC)
	case "normalised_entropy":
		return Value(m.NormalisedEntropy)
	case "calibration":
		return Value(m.Calibration)
	case "rmse":
		return Value(m.RMSE)
	case "mae":
		return Value(m.MAE)
	case "train_logloss":
		if res.TrainLogLoss != nil {
			return *res.TrainLogLoss
		}
		return last.LogLoss
	case "samples_per_second":
		if res.SamplesPerSecond > 0 {
			return res.SamplesPerSecond
		}
		return last.Speed
	case "samples":
		return float64(max(res.Samples, last.Samples))
	case "steps":
		return float64(r.Step)
	case "seconds":
		return r.Seconds
	case "ranks":
		if res.WorldSize > 0 {
			return float64(res.WorldSize)
		}
	}
	return math.NaN()
}

// Names are the metrics that Number knows.
var names = []string{"auc", "logloss", "accuracy", "pr_auc", "normalised_entropy", "calibration", "rmse", "mae", "train_logloss",
	"samples_per_second", "samples", "steps", "seconds", "ranks"}

// Names returns the metrics that Number knows.
func Names() []string { return append([]string(nil), names...) }
