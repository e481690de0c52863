// Package eval has the commands eval and predict, and prints metrics for train too.
package eval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/runs/report"
	"github.com/wdlrun/wdlrun/internal/text/plural"
	"github.com/wdlrun/wdlrun/internal/train"
	"github.com/wdlrun/wdlrun/internal/train/apply"
	"github.com/wdlrun/wdlrun/member"
	"github.com/wdlrun/wdlrun/rank"
	"github.com/wdlrun/wdlrun/trace"
)

func Command(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "eval",
		Usage:     "compute metrics of a trained model on test data",
		UsageText: "wdlrun [launch flags] eval -resume DIR [-data FILE]…",
		Description: `Prints AUC, log-loss, calibration and other metrics of the model of a run directory or of one
checkpoint. After early stopping, a run directory means its best epoch, or with train.refit the second
training. The metrics are the same on any number of ranks. docs/data.md explains them.

Files are read in the format of the training data. Parquet, Arrow, Avro, TFRecord and JSON are recognised.
For files in another format, or with other labels, use -set: data.format, data.delimiter,
data.header, data.fields, data.comment, data.missing, label.field, label.positive,
label.negative, label.threshold.

Examples:
   wdlrun -np 2 eval -resume runs/20261121-101500
   wdlrun eval -resume runs/20261121-101500/checkpoints/step-000000640 -data tuesday.csv
   wdlrun eval -resume runs/20261121-101500 -data tuesday.csv -group user
   wdlrun eval -resume runs/20261121-101500 -report quality.html -by country,device
   wdlrun eval -resume runs/20261121-101500 -report quality.html -importance
   wdlrun eval -resume runs/20261121-101500 -data noted.csv -set 'data.comment=#' -set 'label.positive=[yes]' -set 'label.negative=[no]'`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "resume", Usage: "use the model of run directory or checkpoint `DIR`; latest is runs/latest"},
			&cli.StringSliceFlag{Name: "data", Usage: "evaluate on `FILE` or glob; may be repeated", DefaultText: "data.test of the configuration"},
			&cli.StringFlag{Name: "group", Usage: "also compute the AUC within the values of `FIELD`, such as a user (GAUC)"},
			&cli.StringFlag{Name: "report", Usage: "write an HTML page with curves, calibration and confidence intervals to `FILE`"},
			&cli.BoolFlag{Name: "importance", Usage: "with -report: measure how much worse the model is without each field"},
			&cli.StringSliceFlag{Name: "by", Usage: "with -report: add metrics for each value of `FIELD,…`; may be repeated"},
			&cli.StringSliceFlag{Name: "set", Usage: "override a key of data or label: `KEY=VALUE`, such as data.comment=#; may be repeated"},
			command.MaxBadFlag(),
			command.JSONFlag(),
		},
		Action: func(c *cli.Context) error { return p.OnRanks(c, checkEval, p.Work(evalRank), printEvaluation(c)) },
	}
}

func evalOptions(c *cli.Context) apply.EvalOptions {
	return apply.EvalOptions{Resume: command.RunOf(c, "resume", command.RunsFolder), Data: c.StringSlice("data"), Group: c.String("group"), Set: command.Settings(c), Report: c.IsSet("report"), By: fields(c.StringSlice("by")), Importance: c.Bool("importance")}
}

// fields splits lists of fields at commas.
func fields(lists []string) (all []string) {
	for _, list := range lists {
		all = append(all, strings.Split(list, ",")...)
	}
	return all
}

func checkEval(c *cli.Context) error {
	if c.Args().Present() {
		return fmt.Errorf("eval takes no arguments, but got %q; files are given as -data FILE", c.Args().First())
	}
	if c.IsSet("by") && !c.IsSet("report") {
		return errors.New("eval: -by FIELD is a section of the page of -report: give -report FILE too")
	}
	if c.IsSet("importance") && !c.IsSet("report") {
		return errors.New("eval: -importance is a section of the page of -report: give -report FILE too")
	}
	if out := command.PathOf(c, "report"); out != "" {
		if err := report.Replaceable(out); err != nil {
			return fmt.Errorf("eval: -report: %w", err)
		}
	}
	opt := evalOptions(c)
	opt.Away = command.Elsewhere(c)
	return apply.CheckEval(c.Context, opt)
}

func evalRank(ctx context.Context, p *command.Program, c *cli.Context, m *member.Member, warn func(string)) (any, error) {
	opt := evalOptions(c)
	opt.Say = func(line string) { fmt.Fprintln(p.Stderr, line) }
	opt.Warn, opt.Read, opt.Peers = warn, m.World.Launched, command.Peers(m, p.Getenv)
	e := apply.NewEvaluation(m.Comm, trace.New(0), opt)
	m.Session.Watch(e.Status)
	r, err := e.Run(ctx)
	return r, withBadRecordHint(err, "eval", "skip up to N such records")
}

// withBadRecordHint adds to the error of a malformed record how the command can skip it. A
// restart would read the record again.
func withBadRecordHint(err error, command, effect string) error {
	if _, bad := errors.AsType[*record.Fault](err); !bad {
		return err
	}
	if l, ok := errors.AsType[*train.LayoutError](err); ok {
		return &rank.PermanentError{Err: fmt.Errorf("%s; add: %s -set %s (%w)", l.What, command, strings.Join(l.Settings, " -set "), l.Err)}
	}
	other := fmt.Sprintf("; if the files have another format than the training data, set it: %s -set data.KEY=VALUE", command)
	if command == "predict" {
		other += "; if they have neither a header nor the label, name their fields: predict -set data.fields=[…]"
	}
	return &rank.PermanentError{Err: fmt.Errorf("%w; to %s: %s -max-bad N%s", err, effect, command, other)}
}

// printEvaluation returns a printer of the result of an evaluation, which also writes the
// page of -report.
func printEvaluation(c *cli.Context) command.Printer {
	print, out := command.JSONOr(printEvaluated), command.PathOf(c, "report")
	if out == "" {
		return print
	}
	return func(w io.Writer, np int, asJSON bool, result []byte) error {
		var r apply.EvalResult
		if err := json.Unmarshal(result, &r); err != nil {
			return err
		}
		if err := print(w, np, asJSON, result); err != nil {
			return err
		}
		e := report.Evaluation{Model: modelText(r.Model), Data: fewNames(r.Data), Metrics: r.Metrics, Groups: r.Groups, Quality: r.Quality, Warnings: r.Warnings}
		for _, i := range r.Importance {
			e.Importance = append(e.Importance, report.Importance{Field: i.Field, Features: i.Features, Coverage: i.Coverage, AUC: i.AUC, AUCDeviation: i.AUCDeviation, LogLoss: i.LogLoss, LogLossDeviation: i.LogLossDeviation})
		}
		size, err := command.WriteWhole(out, func(w io.Writer) error { return report.WriteQuality(w, e, time.Now()) })
		if err == nil && !asJSON {
			_, err = fmt.Fprintf(w, "report %s: %d kB\n", out, (size+999)/1000)
		}
		if err != nil {
			err = command.Afterwards(fmt.Errorf("eval: -report: %w", err))
		}
		return err
	}
}

// fewNames joins the first of many file names.
func fewNames(names []string) string {
	const few = 3
	if n := len(names) - few; n > 0 {
		return fmt.Sprintf("%s and %s", strings.Join(names[:few], " "), plural.Of(n, "more file"))
	}
	return strings.Join(names, " ")
}

// modelText describes a model in one line.
func modelText(m train.Model) string {
	text := fmt.Sprintf("%s, step %d", m.Checkpoint, m.Step)
	if m.Best > 0 {
		text += fmt.Sprintf(": epoch %d, the best; the training ended at step %d", m.Best, m.Trained)
	}
	return text
}

// printEvaluated prints a apply.EvalResult as text.
func printEvaluated(w io.Writer, _ int, result []byte) error {
	var r apply.EvalResult
	if err := json.Unmarshal(result, &r); err != nil {
		return err
	}
	fmt.Fprintf(w, "model  %s\ndata   %s, %d samples\n", modelText(r.Model), fewNames(r.Data), r.Samples)
	fmt.Fprintf(w, "%s\n%s\n", r.Metrics, r.Base())
	for i := range r.Labels {
		Evaluated(w, r.Labels[i].Label, &r.Labels[i].Metrics, "")
	}
	if r.Groups != nil {
		fmt.Fprintln(w, r.Groups)
	}
	Unknown(w, r.Why, r.Samples)
	return nil
}
