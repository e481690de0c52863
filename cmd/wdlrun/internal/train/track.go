package train

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	runscmd "github.com/wdlrun/wdlrun/cmd/wdlrun/internal/runs"
	"github.com/wdlrun/wdlrun/internal/runs"
	"github.com/wdlrun/wdlrun/internal/runs/mlflow"
	"github.com/wdlrun/wdlrun/internal/train"
	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/rank"
)

// Times of the tracking of a training.
const (
	trackPause = 5 * time.Second
	trackEnd   = 5 * time.Minute // for the rest and the model, at the end
)

// tracked sends a training to a tracking server of MLflow while it runs. nil sends nothing.
type tracked struct {
	server *mlflow.Server
	name   string // of the experiment
	warn   func(string)
	live   *mlflow.Live // nil: the server has not answered yet
	away   bool         // the server does not answer, which is reported
	quit   chan struct{}
	done   chan struct{}
	dir    func() string
}

// trackLive returns what sends the training to the server of -mlflow, nil without it.
func trackLive(c *cli.Context, opt *train.Options) (*tracked, error) {
	if !c.IsSet("mlflow") {
		return nil, nil
	}
	server, err := mlflow.NewServer(c.String("mlflow"), os.Getenv)
	if err != nil {
		return nil, fmt.Errorf("-mlflow: %w", err)
	}
	out, err := filepath.Abs(cmp.Or(opt.Out, command.RunsFolder))
	if err != nil {
		return nil, err
	}
	return &tracked{server: server, name: cmp.Or(os.Getenv("MLFLOW_EXPERIMENT_NAME"), filepath.Base(out)), warn: opt.Warn}, nil
}

// watch begins to send the metrics of a job. A job after it continues the same run.
func (t *tracked) watch(status func() rank.Status) {
	if t == nil {
		return
	}
	t.stop()
	t.quit, t.done, t.dir = make(chan struct{}), make(chan struct{}), func() string { return status().RunDir }
	go func() {
		defer close(t.done)
		tick := time.NewTicker(trackPause)
		defer tick.Stop()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() {
			select {
			case <-t.quit:
				cancel() // a request under way
			case <-ctx.Done():
			}
		}()
		for {
			select {
			case <-tick.C:
				if t.dir() != "" {
					err := t.send(ctx)
					if ctx.Err() != nil {
						return
					}
					t.report(err, "the training continues, and its metrics are sent when it does")
				}
			case <-t.quit:
				return
			}
		}
	}()
}

// stop ends the sending of a job's metrics.
func (t *tracked) stop() {
	if t.quit != nil {
		close(t.quit)
		<-t.done
		t.quit = nil
	}
}

// report warns once while the server does not answer.
func (t *tracked) report(err error, then string) {
	if err == nil {
		t.away = false
	} else if !t.away {
		t.away = true
		t.warn(fmt.Sprintf("%v; %s", err, then))
	}
}

// send sends the metrics since the last call.
func (t *tracked) send(ctx context.Context) error {
	r, err := runs.Read(t.dir())
	if err != nil {
		return err
	}
	if t.live == nil {
		e, err := t.server.Experiment(ctx, t.name)
		if err != nil {
			return err
		}
		if t.live, err = e.Follow(ctx, r); err != nil {
			t.live = nil
			return err
		}
	}
	return t.live.Send(ctx, r)
}

// end sends the rest, the files and the final state of a training.
func (t *tracked) end(result report.Result, err error) {
	if t == nil {
		return
	}
	t.stop()
	if t.dir == nil || t.dir() == "" {
		return
	}
	state := runs.Finished
	if err != nil {
		state = runs.Failed
	} else if result.Stopped {
		state = runs.Stopped
	}
	ctx, cancel := context.WithTimeout(context.Background(), trackEnd)
	defer cancel()
	t.away = false
	t.report(func() error {
		if err := t.send(ctx); err != nil {
			return err
		}
		r, err := runs.Read(t.dir())
		if err != nil {
			return err
		}
		files, done := runscmd.Artifacts(ctx, r, t.warn)
		defer done()
		return t.live.End(ctx, r, state, files)
	}(), "to send the run later: wdlrun runs -export mlflow")
}
