package runs

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/runs"
	"github.com/wdlrun/wdlrun/internal/runs/mlflow"
	"github.com/wdlrun/wdlrun/internal/runs/report"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/text/plural"
)

// exportRuns sends the runs to a tracking server of MLflow.
func exportRuns(c *cli.Context, p *command.Program, dir string, all []*runs.Summary) error {
	address := cmp.Or(c.String("out"), os.Getenv("MLFLOW_TRACKING_URI"))
	if address == "" {
		return errors.New("runs: which server? -export mlflow -out http://127.0.0.1:5000, or set MLFLOW_TRACKING_URI; to start one: mlflow server --backend-store-uri sqlite:///mlflow.db")
	}
	server, err := mlflow.NewServer(address, os.Getenv)
	if err != nil {
		return err
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	name := cmp.Or(os.Getenv("MLFLOW_EXPERIMENT_NAME"), filepath.Base(abs))
	e, err := server.Experiment(c.Context, name)
	if err != nil {
		return err
	}
	slices.SortStableFunc(all, func(a, b *runs.Summary) int { return a.Began.Compare(b.Began) }) // parents first
	sent := 0
	for _, s := range all {
		r, err := runs.Read(s.Dir)
		if err != nil {
			continue // the run was removed
		}
		if err := e.Add(c.Context, r, Artifacts(r)); err != nil {
			return err
		}
		sent++
	}
	if command.AsJSON(c) {
		return p.PrintJSON(map[string]any{"out": server.String(), "experiment": name, "runs": sent})
	}
	_, err = fmt.Fprintf(p.Stdout, "%s in the experiment %q of %s\n", plural.Of(sent, "run"), name, server)
	return err
}

// Artifacts returns the files of a run that MLflow stores with it: the configuration, the result and the report.
func Artifacts(r *runs.Run) (files []mlflow.File) {
	for _, name := range []string{rundir.FileConfig, rundir.FileResult} {
		path := filepath.Join(r.Dir, name)
		if _, err := os.Stat(path); err == nil {
			files = append(files, mlflow.File{Name: name, Open: func() (io.ReadCloser, error) { return regular.Open(path) }})
		}
	}
	return append(files, mlflow.File{Name: "report.html", Open: func() (io.ReadCloser, error) {
		var page bytes.Buffer
		err := report.Write(&page, reported([]string{r.Dir}), time.Now())
		return io.NopCloser(&page), err
	}})
}
