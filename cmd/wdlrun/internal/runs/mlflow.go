package runs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/export"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/runs"
	"github.com/wdlrun/wdlrun/internal/runs/mlflow"
	"github.com/wdlrun/wdlrun/internal/runs/report"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/text/plural"
	"github.com/wdlrun/wdlrun/internal/train"
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
		files, done := Artifacts(c.Context, r, func(line string) { fmt.Fprintln(p.Stderr, "wdlrun: warning: "+line) })
		err = e.Add(c.Context, r, files)
		done()
		if err != nil {
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

// Artifacts returns the files of a run that MLflow stores with it: the configuration, the result, the report and, of a
// run with a checkpoint, the model as ONNX. done removes temporary files.
func Artifacts(ctx context.Context, r *runs.Run, warn func(string)) (files []mlflow.File, done func()) {
	add := func(name, path string) {
		files = append(files, mlflow.File{Name: name, Open: func() (io.ReadCloser, error) { return regular.Open(path) }})
	}
	for _, name := range []string{rundir.FileConfig, rundir.FileResult} {
		path := filepath.Join(r.Dir, name)
		if _, err := os.Stat(path); err == nil {
			add(name, path)
		}
	}
	files = append(files, mlflow.File{Name: "report.html", Open: func() (io.ReadCloser, error) {
		var page bytes.Buffer
		err := report.Write(&page, reported([]string{r.Dir}), time.Now())
		return io.NopCloser(&page), err
	}})
	dir, err := os.MkdirTemp("", "wdlrun-mlflow-")
	if err != nil {
		warn(fmt.Sprintf("the model of %s is not sent: %v", r.Name, err))
		return files, func() {}
	}
	if err := modelOf(ctx, r, filepath.Join(dir, "onnx")); err != nil && ctx.Err() == nil {
		warn(fmt.Sprintf("the model of %s is not sent: %v", r.Name, err))
	}
	written, _ := filepath.Glob(filepath.Join(dir, "onnx", "*")) // none after an error
	for _, path := range written {
		add("onnx/"+filepath.Base(path), path)
	}
	return files, func() { os.RemoveAll(dir) }
}

// maxModel is the size of the tables up to which a model is sent, in bytes.
const maxModel = 1 << 30

// modelOf writes the model of a run as ONNX. A run without a checkpoint has none.
func modelOf(ctx context.Context, r *runs.Run, dir string) error {
	if found, _ := filepath.Glob(filepath.Join(r.Dir, "checkpoints", "step-*")); len(found) == 0 {
		return nil
	}
	size := int64(0)
	if r.Result != nil {
		for _, t := range r.Result.Tables {
			size += t.Bytes
		}
	}
	if size > maxModel {
		return fmt.Errorf("its tables have %d bytes, at most %d are sent: wdlrun export -resume %s -format onnx", size, maxModel, r.Dir)
	}
	t, err := train.OpenTrained(ctx, r.Dir, func(string) {})
	if err != nil {
		return err
	}
	_, err = export.WriteONNX(ctx, export.Source{Checkpoint: t.Checkpoint, Config: t.Config, Encoder: t.Encoder}, dir, export.OnnxOptions{})
	return err
}
