package mlflow

import (
	"context"
	"slices"

	"github.com/wdlrun/wdlrun/internal/runs"
)

// Live is a run of MLflow that follows a training. It is not for concurrent use.
type Live struct {
	e             *Experiment
	id, artifacts string
	sent          map[string]int64 // last step by metric
}

// Follow returns the run of MLflow for a training that runs. A training that was resumed, or restarted,
// continues the run of its directory after the steps that the server has.
func (e *Experiment) Follow(ctx context.Context, r *runs.Run) (*Live, error) {
	path, err := absolute(r)
	if err != nil {
		return nil, err
	}
	found, err := e.find(ctx, idOf(path))
	if err != nil {
		return nil, err
	}
	l := &Live{e: e, sent: map[string]int64{}}
	if len(found) == 0 {
		made, err := e.create(ctx, r, path)
		if err != nil {
			return nil, err
		}
		l.id, l.artifacts = made.ID, made.Artifacts
		return l, e.params(ctx, l.id, r)
	}
	var answer struct {
		Run struct {
			Info info `json:"info"`
			Data struct {
				Metrics []metric `json:"metrics"`
			} `json:"data"`
		} `json:"run"`
	}
	if err := e.server.get(ctx, "runs/get", "run_id", found[0], &answer); err != nil {
		return nil, err
	}
	l.id, l.artifacts = found[0], answer.Run.Info.Artifacts
	for _, m := range answer.Run.Data.Metrics {
		l.sent[m.Key] = m.Step
	}
	return l, e.server.post(ctx, "runs/update", map[string]any{"run_id": l.id, "status": status(runs.Running)}, nil)
}

// Send sends the metrics of the steps since the last call.
func (l *Live) Send(ctx context.Context, r *runs.Run) error {
	fresh := slices.DeleteFunc(series(r), func(m metric) bool {
		last, any := l.sent[m.Key]
		return any && m.Step <= last
	})
	for some := range slices.Chunk(fresh, maxMetrics) {
		if err := l.e.server.post(ctx, "runs/log-batch", map[string]any{"run_id": l.id, "metrics": some}, nil); err != nil {
			return err
		}
		for _, m := range some {
			l.sent[m.Key] = m.Step
		}
	}
	return nil
}

// End sends the remaining metrics, the files and the final state.
func (l *Live) End(ctx context.Context, r *runs.Run, state runs.State, files []File) error {
	if err := l.Send(ctx, r); err != nil {
		return err
	}
	for _, f := range files {
		if err := l.e.server.upload(ctx, l.artifacts, f); err != nil {
			return err
		}
	}
	err := l.e.server.post(ctx, "runs/set-tag", map[string]any{"run_id": l.id, "key": "wdlrun.state", "value": string(state)}, nil)
	if err != nil {
		return err
	}
	return l.e.server.post(ctx, "runs/update", map[string]any{"run_id": l.id, "status": status(state), "end_time": r.Ended().UnixMilli()}, nil)
}
