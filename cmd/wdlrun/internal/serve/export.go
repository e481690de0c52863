package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/inspect"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/export"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/train"
	"github.com/wdlrun/wdlrun/internal/train/apply"
	"github.com/wdlrun/wdlrun/trace"
)

// exportFormats returns the formats of export.
func exportFormats() []string { return []string{"model", "onnx", "safetensors", "npy", "table"} }

func ExportCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "export",
		Usage:     "write a trained model for serving, or as arrays",
		UsageText: "wdlrun export -resume DIR -out MODELS -name NAME [-version N] [-rows float32|bfloat16|int8] [-data FILE]…",
		Description: `Writes the model of a run directory or of one checkpoint as MODELS/NAME/VERSION. The directory
contains the configuration, vocabularies and statistics, the dense parameters and the rows of
every table, without optimizer state. It gets its name when it is complete and never changes
afterwards. VERSION is the step, or one more than the highest version if that is as high. If a
version has this step of this run in these rows, nothing is written and the exit code is 1;
-version writes it again. After early stopping, the model of the best epoch is exported, or with train.refit
that of the second training. Checkpoints of any number of ranks are read without starting ranks.

   -rows float32    scores are bit-identical to eval
   -rows bfloat16   half the size
   -rows int8       a quarter of the size, with a scale for each row

With bfloat16 and int8, export evaluates the test data of the configuration and reports how much
the metrics change. A version has the first records of the training data, to warm a server up. -data FILE
takes both from other files, which are read as eval reads them.

   -format onnx          a directory with an ONNX model: -out DIR
   -format safetensors   one file of all arrays: -out FILE
   -format npy           a directory with a .npy file for each array: -out DIR
   -format table         a directory with a Parquet file for each table: value and vector: -out DIR

safetensors and npy contain the dense parameters, and the keys and rows of each table by
ascending key. table names the values, for nearest-neighbour search: only tables of vocabularies
and ids know them.
ONNX needs opset 17 and ai.onnx.ml 3. Its inputs are the fields of a record. It cannot compute
hashes of strings, crosses and dates: such an input is the key. inputs.json lists the inputs.
-ids rows makes numbers of rows (int32) the inputs of categorical features and float32 the type of
numbers, for runtimes without LabelEncoder or 64-bit numbers, such as OpenVINO; files beside the model have
the row of each value. check.json has the first records of the training data, or of -data FILE, with their logits. -check
compares them in onnxruntime and openvino, as python3 DIR/check.py does anywhere.

Examples:
   wdlrun export -resume runs/20261121-101500 -out models -name ctr
   wdlrun export -resume runs/20261121-101500 -out models -name ctr -version 7 -rows int8
   wdlrun export -resume runs/20261121-101500 -format safetensors -out ctr.safetensors
   wdlrun export -resume runs/20261121-101500 -format onnx -ids rows -check -out onnx`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "resume", Usage: "use the model of run directory or checkpoint `DIR`; latest is runs/latest"},
			&cli.StringFlag{Name: "out", Usage: "write the model below `DIR`; for other formats, write DIR itself, which must not exist"},
			&cli.StringFlag{Name: "name", Usage: "name the model `NAME`"},
			&cli.Int64Flag{Name: "version", Value: -1, Usage: "number the version `N`", DefaultText: "the step, or one more than the highest version"},
			&cli.StringFlag{Name: "rows", Value: "float32", Usage: "store rows as `TYPE`: " + strings.Join(export.Precisions(), ", ")},
			&cli.StringFlag{Name: "format", Value: "model", Usage: "write `FORMAT`: " + strings.Join(exportFormats(), ", ")},
			&cli.StringSliceFlag{Name: "data", Usage: "model, onnx: read records for warm-up, check.json and the comparison from `FILE` or glob; may be repeated", DefaultText: "those of the configuration"},
			&cli.StringFlag{Name: "ids", Value: "values", Usage: "onnx: take categories as `KIND`: " + strings.Join(onnxIDs(), ", ")},
			&cli.BoolFlag{Name: "check", Usage: "onnx: compare the logits of some records in the runtimes that python3 finds"},
			command.JSONFlag(),
		},
		Action: func(c *cli.Context) error { return runExport(p, c) },
	}
}

// onnxIDs returns the values of -ids.
func onnxIDs() []string { return []string{"values", "rows"} }

// checkExport rejects invalid flags.
func checkExport(c *cli.Context) error {
	format := c.String("format")
	switch {
	case c.Args().Present():
		return fmt.Errorf("export takes no arguments, but got %q", c.Args().First())
	case c.String("resume") == "":
		return errors.New("export: give -resume DIR, a run directory or a checkpoint")
	case c.String("out") == "":
		return errors.New("export: give -out, where to write the model")
	case !slices.Contains(exportFormats(), format):
		return fmt.Errorf("export: -format %s: there are %s", format, strings.Join(exportFormats(), ", "))
	case format == "model" && c.String("name") == "":
		return errors.New("export: give -name NAME: the model is written to MODELS/NAME/VERSION")
	case c.IsSet("version") && c.Int64("version") < 0:
		return fmt.Errorf("export: -version %d: it must be at least 0", c.Int64("version"))
	}
	if ids := c.String("ids"); !slices.Contains(onnxIDs(), ids) {
		return fmt.Errorf("export: -ids %s: there are %s", ids, strings.Join(onnxIDs(), ", "))
	}
	for flag, of := range map[string]string{"name": "model", "version": "model", "rows": "model", "ids": "onnx", "check": "onnx", "data": "model onnx"} {
		if !slices.Contains(strings.Fields(of), format) && c.IsSet(flag) {
			return fmt.Errorf("export: -%s has no effect with -format %s: leave it out", flag, format)
		}
	}
	return nil
}

// exported is the result of the command, and its JSON line.
type exported struct {
	Out        string    `json:"out"`
	Format     string    `json:"format"`
	Checkpoint string    `json:"checkpoint"`
	Step       int64     `json:"step"`
	Best       int       `json:"best_epoch,omitempty"`
	Version    *int64    `json:"version,omitempty"`
	Rows       string    `json:"rows,omitempty"`
	TableRows  int64     `json:"table_rows,omitempty"`
	Bytes      int64     `json:"bytes,omitempty"`
	Loss       *rounding `json:"rounding,omitempty"`

	Inputs  []export.OnnxInput `json:"inputs,omitempty"`
	Records int                `json:"check_records,omitempty"`
	Check   []string           `json:"check,omitempty"` // what check.py printed
	Tables  []export.Vectors   `json:"tables,omitempty"`
}

// rounding is the metrics of the test data with exact and with rounded rows.
type rounding struct {
	Exact   metrics.Metrics `json:"float32"`
	Rounded metrics.Metrics `json:"rounded"`
}

func runExport(p *command.Program, c *cli.Context) error {
	if err := checkExport(c); err != nil {
		return err
	}
	warn := func(line string) { fmt.Fprintln(p.Stderr, "wdlrun: warning: "+line) }
	t, err := train.OpenTrained(c.Context, command.RunOf(c, "resume", command.RunsFolder), warn)
	if err != nil {
		return err
	}
	src := export.Source{Checkpoint: t.Checkpoint, Config: t.Config, Encoder: t.Encoder}
	if src.Records, err = recordsFor(t.Config, c.StringSlice("data")); err != nil {
		return err
	}
	r := exported{Out: command.PathOf(c, "out"), Format: c.String("format"), Checkpoint: t.Checkpoint.Dir(), Step: t.Checkpoint.Step(), Best: t.Best}
	switch r.Format {
	case "safetensors":
		err = export.WriteSafetensors(c.Context, src, r.Out)
	case "onnx":
		err = exportONNX(c, src, &r, warn)
	case "table":
		r.Tables, err = export.WriteTables(c.Context, src, r.Out)
	case "npy":
		err = export.WriteNPY(c.Context, src, r.Out)
	default:
		err = exportModel(c, src, &r, warn)
	}
	if err != nil {
		return err
	}
	if command.AsJSON(c) {
		return p.PrintJSON(r)
	}
	return printExported(p.Stdout, &r)
}

// recordsFor returns a source of records in files, nil without files.
func recordsFor(yaml []byte, files []string) (*schema.Source, error) {
	if len(files) == 0 {
		return nil, nil
	}
	c, err := config.ParseSaved("config.yaml", yaml)
	if err != nil {
		return nil, err
	}
	from, err := inspect.For(c.Data, files)
	from.Train, from.Follow = files, schema.Follow{}
	return &from, err
}

// exportONNX writes an ONNX model, and checks it with -check.
func exportONNX(c *cli.Context, src export.Source, r *exported, warn func(string)) error {
	w, err := export.WriteONNX(c.Context, src, r.Out, export.OnnxOptions{Rows: c.String("ids") == "rows", Warn: warn})
	r.Inputs, r.Records = w.Inputs, w.Checked
	if err == nil && c.Bool("check") {
		err = checkONNX(c.Context, r)
	}
	return err
}

// checkONNX runs check.py.
func checkONNX(ctx context.Context, r *exported) error {
	if r.Records == 0 {
		return fmt.Errorf("export: -check: %s has no records to check: name files of records with -data", r.Out)
	}
	script := filepath.Join(r.Out, "check.py")
	const none = 2 // exit code: no runtime
	cmd := exec.CommandContext(ctx, "python3", script)
	out, err := cmd.CombinedOutput()
	r.Check = strings.Split(strings.TrimSpace(string(out)), "\n")
	switch exit, _ := errors.AsType[*exec.ExitError](err); {
	case err == nil:
		return nil
	case exit == nil || exit.ExitCode() == none:
		return fmt.Errorf("export: -check: python3 finds neither onnxruntime nor openvino: pip install numpy onnxruntime, then: python3 %s; the model was written", script)
	}
	return fmt.Errorf("export: -check: %s; the model was written to %s", strings.Join(r.Check, "; "), r.Out)
}

// exportModel writes a version, and evaluates it if its rows are rounded.
func exportModel(c *cli.Context, src export.Source, r *exported, warn func(string)) error {
	w, err := export.Write(c.Context, src, export.Options{
		Out: r.Out, Name: c.String("name"), Version: c.Int64("version"), Rows: c.String("rows"), Warn: warn,
	})
	if err != nil {
		return err
	}
	r.Out, r.Version, r.Rows, r.Bytes = w.Dir, &w.Manifest.Version, w.Manifest.Rows, w.Bytes
	for _, t := range w.Manifest.Tables {
		r.TableRows += t.Rows
	}
	if r.Rows == "float32" {
		return nil
	}
	r.Loss, err = compareRounded(c.Context, src, w.Dir)
	if ctx := c.Context.Err(); ctx != nil {
		return ctx
	}
	if err != nil {
		warn(fmt.Sprintf("the effect of %s rows on the metrics could not be measured: %v", r.Rows, err))
	}
	return nil
}

// compareRounded evaluates the test data, or src.Records, with a checkpoint and with its export in one
// pass.
func compareRounded(ctx context.Context, src export.Source, dir string) (*rounding, error) {
	conf, err := config.ParseSaved("config.yaml", src.Config)
	if err != nil {
		return nil, err
	}
	var files []string
	if src.Records != nil {
		files = src.Records.Train
	} else if len(conf.Data.Test) == 0 {
		return nil, errors.New("the configuration names no test data (data.test): name files with -data")
	}
	m, err := export.Open(dir)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	s, err := m.NewScorer()
	if err != nil {
		return nil, err
	}
	comm := collective.New(mem.New(1, 2)[0])
	tally := metrics.NewCounter(conf.Label)
	e := apply.NewEvaluation(comm, trace.New(0), apply.EvalOptions{
		Resume: src.Checkpoint.Dir(), Data: files,
		Each: func(b *encode.Batch, _ []float32) error {
			logit, err := s.Score(b)
			if err == nil {
				tally.Add(logit[:b.Rows], b.Label, b.Weight)
			}
			return err
		},
	})
	exact, err := e.Run(ctx)
	if err != nil {
		return nil, err
	}
	rounded, err := tally.Reduce(comm)
	return &rounding{exact.Metrics, rounded}, err
}

func printExported(w io.Writer, r *exported) error {
	which := ""
	if r.Best > 0 {
		which = fmt.Sprintf(": epoch %d, the best", r.Best)
	}
	fmt.Fprintf(w, "model  %s, step %d%s\n", r.Checkpoint, r.Step, which)
	if r.Version != nil {
		fmt.Fprintf(w, "rows   %d of %s, %d bytes in all\n", r.TableRows, r.Rows, r.Bytes)
	}
	if l := r.Loss; l != nil {
		fmt.Fprintf(w, "test   float32 %s; %s %s\n", fine(l.Exact), r.Rows, fine(l.Rounded))
	}
	var keyed, rows []string
	for _, in := range r.Inputs {
		if in.Rows != "" {
			rows = append(rows, in.Name)
		} else if in.Key != "" {
			keyed = append(keyed, in.Name)
		}
	}
	for _, t := range r.Tables {
		if t.Why != "" {
			fmt.Fprintf(w, "table  %s: not written: %s\n", t.Table, t.Why)
			continue
		}
		fmt.Fprintf(w, "table  %s: %d values in %s; %d rows without a value of their own are left out\n", t.Table, t.Rows, t.File, t.Others)
	}
	if len(keyed) > 0 {
		fmt.Fprintf(w, "inputs %s cannot be computed by ONNX; docs/serving.md describes how to compute them\n", strings.Join(keyed, ", "))
	}
	if len(rows) > 0 {
		fmt.Fprintf(w, "inputs %s are numbers of rows; inputs.json names the files with the row of each value, see docs/serving.md\n", strings.Join(rows, ", "))
	}
	for _, line := range r.Check {
		fmt.Fprintf(w, "check  %s\n", line)
	}
	if r.Records > 0 && r.Check == nil {
		fmt.Fprintf(w, "check  %d records with their logits: python3 %s\n", r.Records, filepath.Join(r.Out, "check.py"))
	}
	_, err := fmt.Fprintf(w, "wrote  %s\n", r.Out)
	return err
}

// fine formats metrics with the digits that rounding may change.
func fine(m metrics.Metrics) string {
	switch {
	case m.RMSE != nil:
		return fmt.Sprintf("RMSE %.6g, loss %.6g", *m.RMSE, m.LogLoss)
	case m.AUC != nil:
		return fmt.Sprintf("AUC %.6f, log-loss %.6f", *m.AUC, m.LogLoss)
	}
	return fmt.Sprintf("log-loss %.6f", m.LogLoss)
}
