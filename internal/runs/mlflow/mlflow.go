// Package mlflow writes run directories as a file store of MLflow, which `mlflow ui` and
// MLflow's clients read:
//
//	STORE/EXPERIMENT/meta.yaml
//	STORE/EXPERIMENT/RUN/meta.yaml
//	STORE/EXPERIMENT/RUN/params/KEY     value of a setting
//	STORE/EXPERIMENT/RUN/metrics/NAME   lines of milliseconds, value and step
//	STORE/EXPERIMENT/RUN/tags/KEY       value
//
// A folder of runs is an experiment whose name is the folder's path. The ids of
// experiments and runs are hashes of their paths: a second export replaces the first.
package mlflow

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/runs"
)

// Values of MLflow.
const (
	statusRunning, statusFinished, statusFailed, statusKilled = 1, 3, 4, 5

	sourceLocal = 4
	maxName     = 200 // bytes; a name is a file name
)

// Experiment is the folder of an experiment in a store.
type Experiment struct {
	dir, id string
}

// NewExperiment makes the experiment of a folder of runs.
func NewExperiment(store, folder string, now time.Time) (*Experiment, error) {
	store, err := filepath.Abs(store)
	if err == nil {
		folder, err = filepath.Abs(folder)
	}
	if err != nil {
		return nil, fmt.Errorf("mlflow: %w", err)
	}
	sum := sha256.Sum256([]byte(folder))
	e := &Experiment{id: strconv.FormatUint(1e17+binary.BigEndian.Uint64(sum[:])%(9*1e17), 10)}
	e.dir = filepath.Join(store, e.id)
	if err := os.MkdirAll(e.dir, 0o755); err != nil {
		return nil, fmt.Errorf("mlflow: %w", err)
	}
	meta := document{
		{"artifact_location", location(e.dir)}, {"creation_time", now.UnixMilli()}, {"experiment_id", e.id},
		{"last_update_time", now.UnixMilli()}, {"lifecycle_stage", "active"}, {"name", folder},
	}
	if err := meta.write(e.dir); err != nil {
		return nil, fmt.Errorf("mlflow: %w", err)
	}
	return e, nil
}

// Add writes a run. It replaces one of the same directory.
func (e *Experiment) Add(r *runs.Run) error {
	path, err := filepath.Abs(r.Dir)
	if err != nil {
		return fmt.Errorf("mlflow: %w", err)
	}
	sum := sha256.Sum256([]byte(path))
	id := hex.EncodeToString(sum[:16])
	part := filepath.Join(e.dir, ".part-"+id)
	to := filepath.Join(e.dir, id)
	err = errors.Join(os.RemoveAll(part), os.MkdirAll(filepath.Join(part, "artifacts"), 0o755))
	if err == nil {
		err = e.fill(part, to, id, r)
	}
	if err == nil {
		err = os.RemoveAll(to)
	}
	if err == nil {
		err = os.Rename(part, to)
	}
	if err != nil {
		os.RemoveAll(part)
		return fmt.Errorf("mlflow: %s: %w", r.Name, err)
	}
	return nil
}

// fill writes the files of a run to dir, to be moved to another folder.
func (e *Experiment) fill(dir, to, id string, r *runs.Run) error {
	status := map[runs.State]int{runs.Running: statusRunning, runs.Finished: statusFinished, runs.Failed: statusFailed, runs.Unknown: statusFailed}[r.State]
	if status == 0 {
		status = statusKilled
	}
	began, end := max(0, r.Began.UnixMilli()), any(nil)
	if r.State != runs.Running && !math.IsNaN(r.Seconds) {
		end = began + int64(1000*r.Seconds)
	}
	err := document{
		{"artifact_uri", location(filepath.Join(to, "artifacts"))}, {"end_time", end}, {"entry_point_name", ""}, {"experiment_id", e.id},
		{"lifecycle_stage", "active"}, {"run_id", id}, {"run_name", r.Name}, {"run_uuid", id}, {"source_name", ""}, {"source_type", sourceLocal},
		{"source_version", ""}, {"start_time", began}, {"status", status}, {"tags", []string{}}, {"user_id", "wdlrun"},
	}.write(dir)
	params := newFolder(filepath.Join(dir, "params"))
	for _, key := range r.Config.Keys() {
		params.write(key, r.Config.Of(key))
	}
	tags := newFolder(filepath.Join(dir, "tags"))
	tags.write("mlflow.runName", r.Name)
	tags.write("mlflow.user", "wdlrun")
	tags.write("wdlrun.state", string(r.State))
	if r.About.Version != "" {
		tags.write("wdlrun.version", r.About.Version)
		tags.write("mlflow.source.name", strings.Join(r.About.Command, " "))
	}
	if r.About.Note != "" {
		tags.write("mlflow.note.content", r.About.Note)
	}
	for _, tag := range r.About.Tags {
		tags.write(tag, "true")
	}
	all := newFolder(filepath.Join(dir, "metrics"))
	for name, lines := range series(r) {
		all.write(name, lines)
	}
	return errors.Join(err, params.err, tags.err, all.err)
}

// series returns the lines of each metric. Values that are not finite are omitted.
func series(r *runs.Run) map[string]string {
	text := map[string]*strings.Builder{}
	add := func(name string, p runs.Point, x float64) {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return
		}
		if text[name] == nil {
			text[name] = &strings.Builder{}
		}
		fmt.Fprintf(text[name], "%d %v %d\n", max(0, p.Time.UnixMilli()), x, p.Step)
	}
	for _, p := range r.Train {
		add("train_logloss", p, p.LogLoss)
		add("samples_per_second", p, p.Speed)
		add("rate", p, p.Rate)
	}
	for _, s := range []struct {
		prefix string
		points []runs.Point
	}{{"valid_", r.Valid}, {"test_", r.Test}} {
		for _, p := range s.points {
			for _, c := range runs.Columns() {
				add(s.prefix+c.Name, p, c.Value(p.Metrics))
			}
		}
	}
	lines := map[string]string{}
	for name, b := range text {
		lines[name] = b.String()
	}
	return lines
}

// document is a flat YAML mapping. Its values are written as JSON, which is valid YAML.
type document []struct {
	key   string
	value any
}

func (d document) write(dir string) error {
	var b strings.Builder
	for _, line := range d {
		v, err := json.Marshal(line.value)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s: %s\n", line.key, v)
	}
	return regular.WriteFile(filepath.Join(dir, "meta.yaml"), []byte(b.String()), 0o644)
}

// location returns the URL of a folder.
func location(dir string) string {
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(dir)}).String()
}

// folder writes one file per name.
type folder struct {
	dir  string
	seen map[string]bool
	err  error
}

func newFolder(dir string) *folder {
	return &folder{dir, map[string]bool{}, os.Mkdir(dir, 0o755)}
}

func (f *folder) write(name, text string) {
	name = fileName(name)
	for f.seen[strings.ToLower(name)] { // file systems may ignore case
		name += "_"
	}
	f.seen[strings.ToLower(name)] = true
	if f.err == nil {
		f.err = regular.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o644)
	}
}

// fileName returns a name that MLflow accepts and that stays in its folder: letters,
// digits, _, - and dots. features[age].encode becomes features.age.encode.
func fileName(name string) string {
	name = strings.ReplaceAll(strings.ReplaceAll(name, "[", "."), "]", "")
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-.", r) {
			return r
		}
		return '_'
	}, name)
	name = name[:min(len(name), maxName)]
	if strings.Trim(name, ".") == "" {
		return "_" + name
	}
	return name
}
