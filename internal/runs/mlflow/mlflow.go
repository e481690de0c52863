// Package mlflow sends run directories to a tracking server of MLflow, over its REST API.
//
// A run becomes a run of MLflow: settings are parameters, the lines of metrics.jsonl metrics with
// steps, the note and the tags its description and tags. The run that a training began with is its
// parent. The tag wdlrun.id, a hash of the run directory's path, names the run: a second export
// replaces the first, and a training that is followed continues it.
package mlflow

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/internal/runs"
	"github.com/wdlrun/wdlrun/internal/text/cut"
)

// Limits of the server: entries of a request, and bytes of names and values.
const (
	maxMetrics = 1000
	maxPairs   = 100
	maxName    = 200
	maxValue   = 5900
)

// Experiment is an experiment of a server.
type Experiment struct {
	server *Server
	id     string
}

// Experiment returns the experiment of a name, and creates it if it does not exist.
func (s *Server) Experiment(ctx context.Context, name string) (*Experiment, error) {
	var found struct {
		Experiment struct {
			ID    string `json:"experiment_id"`
			Stage string `json:"lifecycle_stage"`
		} `json:"experiment"`
	}
	err := s.get(ctx, "experiments/get-by-name", "experiment_name", name, &found)
	if isMissing(err) {
		var made struct {
			ID string `json:"experiment_id"`
		}
		err = s.post(ctx, "experiments/create", map[string]any{"name": name}, &made)
		return &Experiment{s, made.ID}, err
	}
	if err == nil && found.Experiment.Stage == "deleted" {
		return nil, fmt.Errorf("mlflow: %s: the experiment %q was deleted: restore it, or choose another name with MLFLOW_EXPERIMENT_NAME", s, name)
	}
	return &Experiment{s, found.Experiment.ID}, err
}

// pair is a parameter or a tag.
type pair struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// metric is a value of a metric.
type metric struct {
	Key   string  `json:"key"`
	Value float64 `json:"value"`
	Time  int64   `json:"timestamp"` // ms
	Step  int64   `json:"step"`
}

// Add sends a run with its files. It replaces one of the same directory.
func (e *Experiment) Add(ctx context.Context, r *runs.Run, files []File) error {
	path, err := absolute(r)
	if err != nil {
		return err
	}
	earlier, err := e.find(ctx, idOf(path))
	if err != nil {
		return err
	}
	made, err := e.create(ctx, r, path)
	if err != nil {
		return err
	}
	id := made.ID
	if err := e.params(ctx, id, r); err != nil {
		return err
	}
	for some := range slices.Chunk(series(r), maxMetrics) {
		if err := e.server.post(ctx, "runs/log-batch", map[string]any{"run_id": id, "metrics": some}, nil); err != nil {
			return err
		}
	}
	for _, f := range files {
		if err := e.server.upload(ctx, made.Artifacts, f); err != nil {
			return err
		}
	}
	end := map[string]any{"run_id": id, "status": status(r.State)}
	if r.State != runs.Running {
		end["end_time"] = r.Ended().UnixMilli()
	}
	if err := e.server.post(ctx, "runs/update", end, nil); err != nil {
		return err
	}
	for _, old := range earlier { // last, so that the run is never missing
		if err := e.server.post(ctx, "runs/delete", map[string]any{"run_id": old}, nil); err != nil {
			return err
		}
	}
	return nil
}

// absolute returns the path of a run directory.
func absolute(r *runs.Run) (string, error) {
	path, err := filepath.Abs(r.Dir)
	if err != nil {
		return "", fmt.Errorf("mlflow: %w", err)
	}
	return path, nil
}

// create makes a run of MLflow with its tags.
func (e *Experiment) create(ctx context.Context, r *runs.Run, path string) (info, error) {
	var made struct {
		Run struct {
			Info info `json:"info"`
		} `json:"run"`
	}
	tags, err := e.tags(ctx, r, path)
	if err != nil {
		return info{}, err
	}
	began := max(0, r.Began.UnixMilli())
	err = e.server.post(ctx, "runs/create", map[string]any{"experiment_id": e.id, "run_name": r.Name, "start_time": began, "tags": tags[:min(len(tags), maxPairs)]}, &made)
	return made.Run.Info, err
}

// idOf returns the value of the tag wdlrun.id of a run directory.
func idOf(path string) string {
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:16])
}

// find returns the runs of the experiment with a tag wdlrun.id.
func (e *Experiment) find(ctx context.Context, id string) ([]string, error) {
	var found struct {
		Runs []struct {
			Info struct {
				ID string `json:"run_id"`
			} `json:"info"`
		} `json:"runs"`
	}
	err := e.server.post(ctx, "runs/search", map[string]any{"experiment_ids": []string{e.id}, "filter": "tags.`wdlrun.id` = '" + id + "'", "max_results": 100}, &found)
	ids := make([]string, len(found.Runs))
	for i, r := range found.Runs {
		ids[i] = r.Info.ID
	}
	return ids, err
}

func (e *Experiment) tags(ctx context.Context, r *runs.Run, path string) ([]pair, error) {
	tags := []pair{{"wdlrun.id", idOf(path)}, {"wdlrun.state", string(r.State)}, {"mlflow.user", "wdlrun"}}
	if r.About.Version != "" {
		tags = append(tags, pair{"wdlrun.version", r.About.Version}, pair{"mlflow.source.name", strings.Join(r.About.Command, " ")})
	}
	if r.About.Note != "" {
		tags = append(tags, pair{"mlflow.note.content", r.About.Note})
	}
	if from := r.About.From; from != "" {
		tags = append(tags, pair{"wdlrun.from", from})
		parent, err := e.parent(ctx, from)
		if err != nil {
			return nil, err
		}
		if parent != "" {
			tags = append(tags, pair{"mlflow.parentRunId", parent})
		}
	}
	for _, tag := range r.About.Tags {
		tags = append(tags, pair{tag, "true"})
	}
	return accepted(tags), nil
}

// parent returns the run of the directory that a training began with, or "" if the experiment does not
// have it. from is a run directory or a checkpoint in one.
func (e *Experiment) parent(ctx context.Context, from string) (string, error) {
	path, err := filepath.Abs(from)
	if err != nil {
		return "", nil // it is on another machine
	}
	for range 3 {
		found, err := e.find(ctx, idOf(path))
		if err != nil || len(found) > 0 {
			return append(found, "")[0], err
		}
		path = filepath.Dir(path)
	}
	return "", nil
}

// params sends the parameters of a run.
func (e *Experiment) params(ctx context.Context, id string, r *runs.Run) error {
	var params []pair
	for _, key := range r.Config.Keys() {
		params = append(params, pair{key, r.Config.Of(key)})
	}
	for some := range slices.Chunk(accepted(params), maxPairs) {
		if err := e.server.post(ctx, "runs/log-batch", map[string]any{"run_id": id, "params": some}, nil); err != nil {
			return err
		}
	}
	return nil
}

// status returns MLflow's word for a state.
func status(s runs.State) string {
	switch s {
	case runs.Running:
		return "RUNNING"
	case runs.Finished:
		return "FINISHED"
	case runs.Failed, runs.Unknown:
		return "FAILED"
	}
	return "KILLED"
}

// series returns the values of each metric. Values that are not finite are omitted.
func series(r *runs.Run) (all []metric) {
	add := func(name string, p runs.Point, x float64) {
		if !math.IsNaN(x) && !math.IsInf(x, 0) {
			all = append(all, metric{accept(name), x, max(0, p.Time.UnixMilli()), p.Step})
		}
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
	return all
}

// accepted returns pairs with names and values that the server accepts, each name once.
func accepted(pairs []pair) []pair {
	seen := map[string]bool{}
	for i, p := range pairs {
		name := accept(p.Key)
		for seen[strings.ToLower(name)] { // databases may ignore case
			name += "_"
		}
		seen[strings.ToLower(name)] = true
		pairs[i] = pair{name, cut.To(maxValue, p.Value)}
	}
	return pairs
}

// accept returns a name that MLflow accepts: letters, digits, _, - and dots. features[age].encode
// becomes features.age.encode.
func accept(name string) string {
	name = strings.ReplaceAll(strings.ReplaceAll(name, "[", "."), "]", "")
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-.", r) {
			return r
		}
		return '_'
	}, name)
	name = name[:min(len(name), maxName)]
	if strings.Trim(name, ".") == "" || strings.Contains(name, "..") {
		return "_" + strings.ReplaceAll(name, "..", "__")
	}
	return name
}

// info describes a run in answers of the server.
type info struct {
	ID        string `json:"run_id"`
	Artifacts string `json:"artifact_uri"`
}
