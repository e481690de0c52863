package eval

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/data/write"
	"github.com/wdlrun/wdlrun/internal/train/apply"
	"github.com/wdlrun/wdlrun/member"
	"github.com/wdlrun/wdlrun/rank"
	"github.com/wdlrun/wdlrun/trace"
)

func PredictCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "predict",
		Usage:     "write the prediction of each record",
		UsageText: "wdlrun [launch flags] predict -resume DIR|-model DIR -data FILE… -out FILE",
		Description: `Writes one line per record, in the order of the input, with the column "score": the probability
that the label is 1. For a numeric label the column is "prediction". The output is the same on any
number of ranks. Records need no label.

-resume takes the model from a run directory or a checkpoint, -model takes an exported model. After
early stopping, a run directory means its best epoch, or with train.refit the second training.

   -columns NAMES   copies fields of the records, in front of the score
   -label, -logit   add the label, and the score before the sigmoid
   -keys            adds the inputs that an ONNX model cannot compute from fields: FEATURE:key for
                    hashes, dates and crosses, FEATURE:value for encode: age and rate

A model of several labels has these columns for each label: score_click, prediction_watch.
data.where of the configuration is not applied. With -max-bad N, up to N records that cannot be
used have a line without a prediction.

The name of -out determines format and compression: scores.csv, scores.tsv.gz, scores.jsonl,
scores.parquet. The file gets its name when it is complete. -out - writes to standard output.
In jsonl and parquet, copied fields are integers, numbers or strings, whichever fits all values.
Words of data.missing stay strings in fields of strings, and are missing among numbers.

Files are read in the format of the training data. Parquet, Arrow, Avro, TFRecord and JSON are recognised.
For files in another format use -set: data.format, data.delimiter, data.header, data.fields,
data.comment, data.missing.

Examples:
   wdlrun -np 2 predict -resume runs/20261121-101500 -data tuesday.csv -out scores.csv
   wdlrun predict -resume runs/20261121-101500 -data tuesday.csv -columns user,item -out scores.parquet
   wdlrun -np 2 predict -model models/ctr -data tuesday.csv -out scores.csv.gz
   wdlrun predict -resume runs/20261121-101500 -data 'part-*.parquet' -label -logit -out - | head`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "resume", Usage: "use the model of run directory or checkpoint `DIR`; latest is runs/latest"},
			&cli.StringFlag{Name: "model", Usage: "use the exported model in `DIR` instead: one version, or a folder of versions, of which the highest is used"},
			&cli.StringSliceFlag{Name: "data", Usage: "read records from `FILE` or glob; may be repeated"},
			&cli.StringFlag{Name: "out", Usage: "write to `FILE`, which must not exist; - is standard output"},
			&cli.StringFlag{Name: "format", Usage: "write `FORMAT`: csv, tsv, jsonl, parquet, arrow or avro", DefaultText: "by the name of -out; csv for -"},
			&cli.StringFlag{Name: "compress", Usage: "compress with `HOW`: " + strings.Join(write.Packings(), ", "), DefaultText: "by the name of -out; snappy for parquet, zstd for arrow, gzip for avro"},
			&cli.StringFlag{Name: "columns", Usage: "copy the fields `NAMES`, separated by commas"},
			&cli.BoolFlag{Name: "keys", Usage: "also write the keys that an ONNX model (export -format onnx) needs as inputs"},
			&cli.BoolFlag{Name: "label", Usage: "also read and write the labels"},
			&cli.BoolFlag{Name: "logit", Usage: "also write the logits"},
			&cli.StringSliceFlag{Name: "set", Usage: "override a key of data or label: `KEY=VALUE`, such as data.comment=#; may be repeated"},
			command.MaxBadFlag(),
			command.JSONFlag(),
		},
		Action: func(c *cli.Context) error {
			unfinished := "" // file that only the launcher removes
			print := func(w io.Writer, np int, asJSON bool, result []byte) error {
				if c.String("out") == command.StdoutName {
					w = p.Stderr
				}
				return command.JSONOr(printPredicted(command.PathOf(c, "out")))(w, np, asJSON, result)
			}
			check := func(c *cli.Context) error {
				err := checkPredict(p, c)
				if path := command.PathOf(c, "out"); err == nil && path != command.StdoutName {
					unfinished = path + data.PartSuffix
				}
				return err
			}
			defer func() { os.Remove(unfinished) }() // left by a rank that was killed
			return p.OnRanks(c, check, p.Work(predictRank), print)
		},
	}
}

// predictTarget determines file and format of the output.
func predictTarget(c *cli.Context) (data.Target, error) {
	path, format := command.PathOf(c, "out"), c.String("format")
	if path == command.StdoutName && format == "" {
		format = "csv"
	}
	o, err := data.TargetOf(path, format, c.String("compress"))
	switch {
	case err != nil:
		return o, fmt.Errorf("predict: %w", err)
	case o.Format == "criteo" || o.Format == "tfrecord" || o.Format == "libsvm" || o.Format == "libffm":
		return o, fmt.Errorf("predict: %s cannot hold predictions: write csv, tsv, jsonl, parquet, arrow or avro", o.Format)
	case path != command.StdoutName:
		return o, nil
	case o.Format == "parquet" || o.Packing != "none":
		return o, errors.New("predict: standard output takes csv, tsv or jsonl without compression; for others give -out FILE")
	case command.AsJSON(c):
		return o, errors.New("predict: -json and -out - both write to standard output: leave one of them out")
	}
	return o, nil
}

func predictOptions(c *cli.Context) (o apply.PredictOptions, to data.Target, err error) {
	if to, err = predictTarget(c); err != nil {
		return o, to, err
	}
	o = apply.PredictOptions{
		Eval:  apply.EvalOptions{Resume: command.RunOf(c, "resume", command.RunsFolder), Data: c.StringSlice("data"), Set: command.Settings(c)},
		Model: command.PathOf(c, "model"), Label: c.Bool("label"), Keys: c.Bool("keys"), Logit: c.Bool("logit"), Text: to.IsText(),
	}
	if names := c.String("columns"); names != "" {
		o.Columns = strings.Split(names, ",")
	}
	return o, to, nil
}

func checkPredict(p *command.Program, c *cli.Context) error {
	if c.Args().Present() {
		return fmt.Errorf("predict takes no arguments, but got %q; files are given as -data FILE", c.Args().First())
	}
	o, to, err := predictOptions(c)
	if err != nil {
		return err
	}
	o.Eval.Away = command.Elsewhere(c)
	if err := apply.CheckPredict(c.Context, o); err != nil || o.Eval.Away { // then rank 0 checks the output on its host
		return err
	}
	return writable(to)
}

// writable fails if the output file exists or cannot be created.
func writable(o data.Target) error {
	if o.Path == command.StdoutName {
		return nil
	}
	if _, err := os.Lstat(o.Path); err == nil {
		return fmt.Errorf("predict: %s exists; remove it first or choose another name", o.Path)
	}
	f, err := command.CreateNextTo(o.Path)
	if err != nil {
		return fmt.Errorf("predict: -out: %w", err)
	}
	f.Close()
	return os.Remove(f.Name())
}

func predictRank(ctx context.Context, p *command.Program, c *cli.Context, m *member.Member, warn func(string)) (any, error) {
	opt, to, err := predictOptions(c)
	if err != nil {
		return nil, err
	}
	opt.Eval.Warn, opt.Eval.Read, opt.Eval.Peers = warn, m.World.Launched, command.Peers(m, p.Getenv)
	if m.World.Rank == 0 {
		if err := writable(to); err != nil {
			return nil, &rank.PermanentError{Err: err}
		}
	}
	opt.Open = func(columns []write.Column) (apply.PredictOutput, error) {
		return openPredictions(p, to, columns)
	}
	e := apply.NewPrediction(m.Comm, trace.New(0), opt)
	m.Session.Watch(e.Status)
	r, err := e.Run(ctx)
	return r, withBadRecordHint(err, "predict", "leave the predictions of up to N such records empty")
}

// maxShort is the maximum length of a line that the launcher does not split.
const maxShort = 64 << 10

// shortLines rejects lines that the launcher would split.
type shortLines struct {
	to   io.Writer
	open int // bytes of the unfinished line
}

func (s *shortLines) Write(b []byte) (int, error) {
	for line := range bytes.Lines(b) {
		if s.open += len(line); s.open > maxShort {
			return 0, fmt.Errorf("a line is longer than the %d bytes that standard output takes: give -out FILE, or copy fewer -columns", maxShort)
		}
		if line[len(line)-1] == '\n' {
			s.open = 0
		}
	}
	return s.to.Write(b)
}

// predicted is an output of predictions.
type predicted struct {
	*data.Stream
	file    *data.Output   // nil for standard output
	signals chan os.Signal // end the process
}

// openPredictions opens an output. A signal that ends the process removes its file.
func openPredictions(p *command.Program, to data.Target, columns []write.Column) (apply.PredictOutput, error) {
	if to.Path == command.StdoutName {
		s, err := to.Begin(&shortLines{to: p.Stdout}, columns, nil)
		return &predicted{Stream: s}, err
	}
	f, err := to.Create(columns, nil)
	if err != nil {
		return nil, fmt.Errorf("predict: %w", err)
	}
	o := &predicted{Stream: &f.Stream, file: f, signals: make(chan os.Signal, 1)}
	signal.Notify(o.signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		if s, more := <-o.signals; more {
			f.Abandon()
			os.Exit(128 + int(s.(syscall.Signal)))
		}
	}()
	return o, nil
}

// ignoreSignals stops handling signals.
func (o *predicted) ignoreSignals() {
	if o.signals != nil {
		signal.Stop(o.signals)
		close(o.signals)
		o.signals = nil
	}
}

// Write implements apply.PredictOutput.
func (o *predicted) Write(lists []value.List) error { return o.fault(o.Writer.Write(lists)) }

// Finish implements apply.PredictOutput.
func (o *predicted) Finish() error {
	if o.file == nil {
		return o.fault(o.End())
	}
	defer o.ignoreSignals()
	return o.fault(o.file.Finish())
}

// Abandon implements apply.PredictOutput.
func (o *predicted) Abandon() {
	if o.file != nil {
		o.file.Abandon()
	}
	o.ignoreSignals()
}

// fault adds advice to an error of writing.
func (o *predicted) fault(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("predict: %w; nothing is kept: free some space, or choose another place with -out", err)
	}
	return fmt.Errorf("predict: %w", err)
}

// printPredicted prints a apply.PredictResult as text.
func printPredicted(path string) func(w io.Writer, _ int, result []byte) error {
	return func(w io.Writer, _ int, result []byte) error {
		var r apply.PredictResult
		if err := json.Unmarshal(result, &r); err != nil {
			return err
		}
		if path == command.StdoutName {
			path = "standard output"
		}
		bad := ""
		if r.Bad > 0 {
			bad = fmt.Sprintf(", %d of them without a prediction", r.Bad)
		}
		if r.Version > 0 {
			fmt.Fprintf(w, "model  %s, version %d\n", r.Checkpoint, r.Version)
		} else if r.Checkpoint != "" {
			fmt.Fprintf(w, "model  %s\n", modelText(r.Model))
		}
		fmt.Fprintf(w, "data   %s\nrows   %d%s (%s) written to %s: %.1f s, %.0f rows/s\n",
			strings.Join(r.Data, " "), r.Rows, bad, strings.Join(r.Columns, ", "), path, r.Seconds, r.RowsPerSecond)
		Unknown(w, r.Why, r.Rows-r.Bad)
		return nil
	}
}
