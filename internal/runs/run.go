package runs

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
)

// State is the state of a training.
type State string

// States of a run.
const (
	Finished State = "finished"
	Stopped  State = "stopped" // on request; it can be resumed
	Running  State = "running"
	Failed   State = "failed" // the launcher or rank 0 left a verdict
	Killed   State = "killed" // it ended without a result
	Unknown  State = "unreadable"
)

// FileVerdict is the file of a folder failure-TIME in a run directory with the reason for
// the failure in its first line.
const FileVerdict = "verdict.txt"

// Summary is the entry of a run in a list.
type Summary struct {
	Dir     string
	Name    string // last element of Dir
	State   State
	Began   time.Time // zero if unknown
	Seconds float64   // of the last job of the training; NaN if unknown
	Step    int64
	Epoch   int64

	EvaluatedOn string             // test or valid, "" without metrics of an evaluation
	Data        string             // identity of the evaluated rows; "" if an earlier version did not record it
	Numbers     map[string]float64 // metrics by name, see Names
	Config      Settings
	About       rundir.About
	Failure     string   // the last verdict, if State is Failed
	Rejected    string   // why train.gate rejected the model; "" if it did not
	Faults      []string // what could not be read
}

// Run is the content of a run directory. An unknown number is NaN.
type Run struct {
	Summary
	Train  []Point // points of training
	Valid  []Point
	Test   []Point
	Result *Result // may be nil
	Days   rundir.Days

	Thinned Thinned // lines that metrics.jsonl no longer has
}

// Result holds the fields of result.json that are used.
type Result struct {
	WorldSize        int      `json:"world_size"`
	Steps            int64    `json:"steps"`
	Samples          int64    `json:"samples"`
	Seconds          float64  `json:"seconds"`
	TrainSeconds     float64  `json:"train_seconds"`
	SamplesPerSecond float64  `json:"samples_per_second"`
	InputWaitShare   float64  `json:"input_wait_share"`
	TrainLogLoss     *float64 `json:"train_logloss"`
	Valid            *Metrics `json:"valid"`
	Test             *Metrics `json:"test"`
	EvaluatedRows
	Gate *struct {
		Rejected string `json:"rejected"`
	} `json:"gate"`
	Chosen
	EarlyStopped    int      `json:"early_stopped"`
	Stopped         bool     `json:"stopped"`
	Checkpoint      *string  `json:"checkpoint"` // of the model; "" if it could not be written
	Lost            []string `json:"lost"`
	Warnings        []string `json:"warnings"`
	Imbalance       float64  `json:"imbalance"`
	SparseBytesSent int64    `json:"sparse_bytes_sent"`
	Tables          []Table  `json:"tables"`
	Input           struct {
		Bad int64 `json:"bad"`
	} `json:"input"`
	Delays
	TestUnknown map[string]int64 `json:"test_unknown"`
}

// Chosen is what early stopping has chosen.
type Chosen struct {
	BestEpoch int    `json:"best_epoch"`
	BestStep  int64  `json:"best_step"`
	Improving string `json:"improving"`
	Refit     *Refit `json:"refit"` // nil: the model is that of the evaluations
}

// Refit is the second training of a run, on all rows (train.refit).
type Refit struct {
	Epochs int64 `json:"epochs"`
	Rows   int64 `json:"rows"`
}

// Delays are the slow ranks and the links that lost packets.
type Delays struct {
	SlowRanks []struct {
		Rank   int     `json:"rank"`
		Host   string  `json:"host"`
		Cause  string  `json:"cause"`
		Factor float64 `json:"factor"`
		Share  float64 `json:"share"`
	} `json:"slow_ranks"`
	LossyLinks []struct {
		From   string  `json:"from"`
		To     string  `json:"to"`
		Resent float64 `json:"resent_share"`
		Share  float64 `json:"share"`
	} `json:"lossy_links"`
}

// EvaluatedRows identifies the rows of Valid and Test.
type EvaluatedRows struct {
	ValidData string `json:"valid_data"`
	TestData  string `json:"test_data"`
}

// Table is the state of a table at the end.
type Table struct {
	Name     string `json:"name"`
	Strategy string `json:"strategy"`
	Rows     int64  `json:"rows"`
	Bytes    int64  `json:"bytes"`
	Sent     int64  `json:"bytes_sent"`
	Inserted int64  `json:"inserted"`
	Refused  int64  `json:"refused"`
	Evicted  int64  `json:"evicted"`
	ToDisk   int64  `json:"to_disk"`
	Planned  struct {
		Rows  int64 `json:"rows"`
		Bytes int64 `json:"bytes"`
		Sent  int64 `json:"bytes_sent"`
	} `json:"planned"`
}

// Metrics are the metrics of an evaluation.
type Metrics struct {
	Samples           int64    `json:"samples"`
	AUC               *float64 `json:"auc"`
	LogLoss           *float64 `json:"logloss"`
	Accuracy          *float64 `json:"accuracy"`
	PRAUC             *float64 `json:"pr_auc"`
	NormalisedEntropy *float64 `json:"normalised_entropy"`
	Calibration       *float64 `json:"calibration"`
	RMSE              *float64 `json:"rmse"`
	MAE               *float64 `json:"mae"`
}

// Value returns *x, or NaN if x is nil.
func Value(x *float64) float64 {
	if x == nil {
		return math.NaN()
	}
	return *x
}

// IsRun reports whether a directory looks like a run directory.
func IsRun(dir string) bool {
	for _, name := range []string{rundir.FileConfig, rundir.FileMetrics, rundir.FileResult} {
		if info, err := os.Lstat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() {
			return true
		}
	}
	return false
}

func absolute(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		return abs
	}
	return dir
}

// fault adds a file that could not be read. A missing file is not a fault.
func (r *Run) fault(name string, err error) {
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.Faults = append(r.Faults, fmt.Sprintf("%s: %s", name, strings.TrimPrefix(err.Error(), "open ")))
	}
}

func (r *Run) readConfig() {
	b, err := regular.ReadFile(filepath.Join(r.Dir, rundir.FileConfig), maxConfig)
	if err == nil {
		r.Config, err = ParseSettings(b)
	}
	r.fault(rundir.FileConfig, err)
}

func (r *Run) readAbout() {
	b, err := regular.ReadFile(filepath.Join(r.Dir, rundir.FileRun), maxConfig)
	if err == nil {
		if err = json.Unmarshal(b, &r.About); err != nil {
			r.About = rundir.About{}
		}
	}
	r.fault(rundir.FileRun, err)
	r.About.Note = short(r.About.Note)
	r.About.Tags = r.About.Tags[:min(len(r.About.Tags), maxTags)]
	for i := range r.About.Tags {
		r.About.Tags[i] = short(r.About.Tags[i])
	}
}

func (r *Run) readDays() {
	d, err := rundir.ReadDays(r.Dir)
	r.fault(rundir.FileDays, err)
	for i := range d.Days {
		d.Days[i].Day, d.Days[i].Run = short(d.Days[i].Day), short(d.Days[i].Run)
	}
	r.Days = d
	r.About.Day = short(r.About.Day)
}

func (r *Run) readResult() {
	b, err := regular.ReadFile(filepath.Join(r.Dir, rundir.FileResult), maxResult)
	if err == nil {
		var res Result
		if err = json.Unmarshal(b, &res); err == nil {
			res.cut()
			r.Result = &res
		}
	}
	r.fault(rundir.FileResult, err)
}

// unsaved returns why there is no model of this result, of a training whose last checkpoint is of step saved; "" if there
// is one.
func (res *Result) unsaved(saved int64) string {
	switch {
	case res.Checkpoint == nil || *res.Checkpoint != "": // earlier versions did not tell
		return ""
	case saved > 0:
		return fmt.Sprintf("the model of step %d was not saved; the last checkpoint is of step %d", res.Steps, saved)
	}
	return fmt.Sprintf("the model of step %d was not saved, and there is no checkpoint", res.Steps)
}

// cut cuts long texts of a result.
func (res *Result) cut() {
	res.Improving = short(res.Improving)
	if res.Checkpoint != nil {
		*res.Checkpoint = short(*res.Checkpoint)
	}
	res.ValidData, res.TestData = short(res.ValidData), short(res.TestData)
	if res.Gate != nil {
		res.Gate.Rejected = short(res.Gate.Rejected)
	}
	for _, lines := range [][]string{res.Lost, res.Warnings} {
		for i := range lines {
			lines[i] = short(lines[i])
		}
	}
	for i := range res.Tables {
		res.Tables[i].Name, res.Tables[i].Strategy = short(res.Tables[i].Name), short(res.Tables[i].Strategy)
	}
	for i := range res.SlowRanks {
		res.SlowRanks[i].Host, res.SlowRanks[i].Cause = short(res.SlowRanks[i].Host), short(res.SlowRanks[i].Cause)
	}
	for i := range res.LossyLinks {
		l := &res.LossyLinks[i]
		l.From, l.To = short(l.From), short(l.To)
	}
	for name, n := range res.TestUnknown {
		if kept := short(name); kept != name {
			delete(res.TestUnknown, name)
			res.TestUnknown[kept] = n
		}
	}
}

// Ended returns the time of the last line of metrics, or the time when the run began if it has none. The
// seconds of a result count from the start of the last job, which may have resumed the training.
func (r *Run) Ended() time.Time {
	end := r.Began
	for _, points := range [][]Point{r.Train, r.Valid, r.Test} {
		for _, p := range points {
			if p.Time.After(end) {
				end = p.Time
			}
		}
	}
	return end
}

// verdict returns the first line of a verdict.
func (r *Run) verdict(folder string) string {
	b, err := regular.ReadFile(filepath.Join(folder, FileVerdict), maxVerdict)
	r.fault(filepath.Join(filepath.Base(folder), FileVerdict), err)
	return short(strings.ToValidUTF8(firstLine(string(b)), "\uFFFD"))
}

// escaped returns a directory name with pattern characters escaped.
func escaped(dir string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(dir)
}

// Evaluation returns the last metrics of the test data, or of the validation data, and of
// is "test", "valid" or "".
func (r *Run) Evaluation() (m *Metrics, of string) {
	m, of, _ = r.evaluation()
	return m, of
}

func (r *Run) evaluation() (m *Metrics, of, data string) {
	if r.Result != nil && r.Result.Test != nil {
		return r.Result.Test, "test", r.Result.TestData
	}
	if r.Result != nil && r.Result.Valid != nil {
		return r.Result.Valid, "valid", r.Result.ValidData
	}
	for _, s := range []struct {
		points []Point
		of     string
	}{{r.Test, "test"}, {r.Valid, "valid"}} {
		if n := len(s.points); n > 0 && s.points[n-1].Metrics != nil {
			return s.points[n-1].Metrics, s.of, s.points[n-1].Data
		}
	}
	return nil, "", ""
}

// Differing returns the settings that differ between runs: first the settings of the model, of
// training, of the data and the label, and last the settings of single features, tables and the
// like. Each of the two groups ends with the settings that some runs do not have.
func Differing(all []*Summary) (keys []string) {
	shapes := map[*shape][]*Summary{}
	var order []*shape
	for _, r := range all {
		if s := r.Config.shape; s != nil {
			if shapes[s] == nil {
				order = append(order, s)
			}
			shapes[s] = append(shapes[s], r)
		}
	}
	seen, at := map[string]bool{}, map[string]int{}
	for _, s := range order {
		for i, key := range s.keys {
			if seen[key] || strings.HasSuffix(key, "].name") {
				continue
			}
			seen[key] = true
			differs, missing := compare(shapes, key, shapes[s][0].Config.value(i))
			if !differs {
				continue
			}
			keys = append(keys, key)
			if at[key] = place(key); missing {
				at[key] += derived
			}
		}
	}
	slices.SortFunc(keys, func(a, b string) int { return cmp.Or(cmp.Compare(at[a], at[b]), cmp.Compare(a, b)) })
	return keys
}

// compare reports whether some run has another value of a key, and whether some run has
// none.
func compare(shapes map[*shape][]*Summary, key, value string) (differs, missing bool) {
	for s, runs := range shapes {
		i, has := s.at[key]
		if !has {
			return true, true
		}
		for _, r := range runs {
			v := r.Config.value(i)
			differs, missing = differs || v != value, missing || v == ""
		}
	}
	return differs, missing
}

// derived is added to the rank of a setting that some runs do not have: it depends on
// another one.
const derived = 4

// place returns the rank of a setting in the order, by its section.
func place(key string) int {
	if strings.Contains(key, "[") {
		return 2 * derived // after all others
	}
	first := [derived - 1]string{"model.", "train.", "data."}
	for i, prefix := range first {
		if strings.HasPrefix(key, prefix) {
			return i
		}
	}
	return len(first)
}

// Point is one line of metrics.jsonl. A missing number is NaN.
type Point struct {
	Time    time.Time
	Step    int64
	Epoch   int64
	Samples int64
	LogLoss float64
	Rate    float64
	Speed   float64
	Metrics *Metrics // of an evaluation
	Data    string   // identity of the evaluated rows
}
