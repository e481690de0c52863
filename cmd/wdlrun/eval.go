package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/rank/member"
	"github.com/wdlrun/wdlrun/trace"
	"github.com/wdlrun/wdlrun/wdl"
)

func evalCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "eval",
		Usage:     "figures of a trained model on test data",
		UsageText: "wdlrun [launch flags] eval -resume DIR [-data FILE]…",
		Description: `Evaluates the model of a run directory (its best epoch where early stopping chose
one) or of one checkpoint. It changes nothing; any number of ranks will do, and any CPU,
for it computes in fp32. Files are read in the format of the training data, Parquet,
TFRecord and JSON whatever that was.

Examples:
   wdlrun -np 2 eval -resume runs/20261121-101500
   wdlrun eval -resume runs/20261121-101500/checkpoints/step-000000640 -data tuesday.csv`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "resume", Usage: "`DIR` of a run, or one checkpoint"},
			&cli.StringSliceFlag{Name: "data", Usage: "`FILE` or glob to evaluate on; default: the test data of the configuration"},
			jsonFlag(),
		},
		Action: func(c *cli.Context) error { return p.everywhere(c, checkEval, p.evalRank, either(printEvaluated)) },
	}
}

func evalOptions(c *cli.Context) wdl.EvalOptions {
	return wdl.EvalOptions{Resume: pathOf(c, "resume"), Data: c.StringSlice("data")}
}

func checkEval(c *cli.Context) error {
	if c.Args().Present() {
		return fmt.Errorf("eval takes no argument, and %q is one; files are given as -data FILE", c.Args().First())
	}
	return wdl.CheckEval(c.Context, evalOptions(c))
}

func (p *program) evalRank(ctx context.Context, c *cli.Context, m *member.Member, warn func(string)) (any, error) {
	opt := evalOptions(c)
	opt.Warn, opt.Read = warn, m.World.Launched
	e := wdl.NewEvaluation(m.Comm, trace.New(0), opt)
	m.Session.Watch(e.Status)
	return e.Run(ctx)
}

// printEvaluated shows a wdl.EvalResult to a person.
func printEvaluated(w io.Writer, _ int, result []byte) error {
	var r wdl.EvalResult
	if err := json.Unmarshal(result, &r); err != nil {
		return err
	}
	which := ""
	if r.Best > 0 {
		which = fmt.Sprintf(": epoch %d, the best; the training went on to step %d", r.Best, r.Trained)
	}
	fmt.Fprintf(w, "model  %s, step %d%s\ndata   %s, %d samples\n", r.Checkpoint, r.Step, which, strings.Join(r.Data, " "), r.Samples)
	fmt.Fprintf(w, "%s   log-loss %.4f   accuracy %.4f\n", r.AUCText(), r.LogLoss, r.Accuracy)
	unknown(w, r.Unknown)
	return nil
}
