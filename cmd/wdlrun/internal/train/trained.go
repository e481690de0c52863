package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/eval"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/model/plan"
	"github.com/wdlrun/wdlrun/internal/model/slots"
	"github.com/wdlrun/wdlrun/internal/text/plural"
	"github.com/wdlrun/wdlrun/internal/train/report"
)

// trained returns the printer of the result of a training.
func trained(p *command.Program) command.Printer {
	return func(w io.Writer, np int, asJSON bool, result []byte) error {
		return printTrained(p, w, np, asJSON, result)
	}
}

// printTrained prints a report.Result. A model that could not be saved is an error in both
// formats.
func printTrained(p *command.Program, w io.Writer, np int, asJSON bool, result []byte) error {
	var r report.Result
	if err := json.Unmarshal(result, &r); err != nil {
		return err
	}
	err := command.Unfinished(p.Starts(np), r)
	switch {
	case !asJSON:
		printTraining(w, r)
		printRunDir(w, p.Starts(np), r)
	case r.Stopped:
		fmt.Fprintf(w, "%s\n", command.WithCode(result, command.StoppedCode, fmt.Sprintf("stopped after step %d, as asked", r.Steps)))
	case errors.Is(err, command.Exit(command.GateCode)):
		fmt.Fprintf(w, "%s\n", command.WithCode(result, command.GateCode, command.Gated(r)))
	case err != nil:
		fmt.Fprintf(w, "%s\n", command.WithCode(result, 1, err.Error()))
	default:
		fmt.Fprintf(w, "%s\n", result)
	}
	return err
}

func printTraining(w io.Writer, r report.Result) {
	if r.Stopped {
		fmt.Fprintf(w, "stopped after step %d, as asked\n", r.Steps)
		return
	}
	if r.Steps > r.Since {
		since, steps, samples := "", r.Steps, r.Samples
		switch {
		case r.Began > 0 && r.Began == r.Since:
			steps, samples = r.Steps-r.Began, r.NewSamples
			since = fmt.Sprintf(", after the %s of the model that it began with", plural.Of(int(r.Began), "step"))
		case r.Since > 0:
			since = fmt.Sprintf(", of them %d after step %d", r.NewSamples, r.Since)
		}
		fmt.Fprintf(w, "trained %d samples in %s%s: %.1f s, %.0f samples/s on %s (%.1f %% waiting for input); %.1f s in all\n",
			samples, plural.Of(int(steps), "step"), since, r.TrainSeconds, r.SamplesPerSecond, plural.Of(r.WorldSize, "rank"), 100*r.InputWaitShare, r.Seconds)
		if f := r.Refit; f != nil {
			fmt.Fprintf(w, "steps  the first training took %d, and the second, of which the model is, %d (train.refit): the numbers count both; train -from this run counts on from the %d steps of its model\n",
				f.FirstSteps, r.Steps-r.Began-f.FirstSteps, r.Steps-f.FirstSteps)
		}
		reading(w, r)
	} else {
		fmt.Fprintf(w, "nothing left to train after %s%s\n", plural.Of(int(r.Steps), "step"), nothingLeft(r))
	}
	if r.Spans > 0 {
		fmt.Fprintf(w, "stream %s, ended: %s\n", plural.Of(int(r.Spans), "span"), r.Ended)
		fmt.Fprintf(w, "train  %s %.4f in the last span\n", lossName(r), r.TrainLogLoss)
	} else {
		in := "the last epoch"
		if r.BestEpoch > 0 {
			in = fmt.Sprintf("epoch %d", r.BestEpoch)
		}
		if f := r.Refit; f != nil {
			in = fmt.Sprintf("the last of %s of the second training, on all %d rows (train.refit)", plural.Of(int(f.Epochs), "epoch"), f.Rows)
		}
		fmt.Fprintf(w, "train  %s %.4f in %s\n", lossName(r), r.TrainLogLoss, in)
	}
	if r.Improving != "" {
		fmt.Fprintf(w, "       ended at the limit of train.epochs while the validation %s still improved: raise train.epochs\n", r.Improving)
	}
	eval.Unknown(w, r.TrainWhy, 0)
	if r.Valid != nil {
		epoch := ""
		if r.BestEpoch > 0 {
			epoch = fmt.Sprintf("   (epoch %d, the best)", r.BestEpoch)
		}
		if r.Refit != nil {
			epoch = fmt.Sprintf("   (epoch %d, the best, of the first training, on %d rows)", r.BestEpoch, r.Refit.FirstRows)
		}
		if r.BestStep > 0 {
			epoch = fmt.Sprintf("   (step %d, the best)", r.BestStep)
		}
		eval.Evaluated(w, "valid", r.Valid, epoch)
	}
	printGate(w, r)
	if r.Test != nil {
		eval.Evaluated(w, "test", r.Test, "")
		eval.Unknown(w, r.TestWhy, r.Test.Samples)
	}
	switch {
	case r.Mode == slots.Drop.String():
		fmt.Fprintf(w, "mode   %s, backup %d: %d late microbatches; %.1f samples per step\n", r.Mode, r.Backup, r.LateSlots, r.EffectiveBatch)
	case r.Mode != "":
		fmt.Fprintf(w, "mode   %s; %.1f samples per step\n", r.Mode, r.EffectiveBatch)
	}
	tables(w, r)
}

// printGate prints the metrics of the model before, and the verdict.
func printGate(w io.Writer, r report.Result) {
	if r.Gate == nil {
		return
	}
	if r.Gate.Source != nil {
		eval.Evaluated(w, "before", r.Gate.Source, "   ("+r.Gate.From+")")
	}
	fmt.Fprintf(w, "gate   %s\n", command.Gated(r))
}

// lossName returns the name of the minimised loss.
func lossName(r report.Result) string {
	for _, m := range []*metrics.Metrics{r.Test, r.Valid} {
		if m != nil && (m.RMSE != nil || len(m.Labels) > 0) {
			return "loss"
		}
	}
	return "log-loss"
}

// nothingLeft returns why nothing was left to train, and how to continue.
func nothingLeft(r report.Result) string {
	switch {
	case r.Refit != nil:
		return ": it has trained again on all rows (train.refit); to continue, begin a new run with its model: train -from " + r.RunDir
	case r.EarlyStopped > 0:
		return fmt.Sprintf(": early stopping ended it after %s without improvement; to continue: -set train.early_stop.patience=N with N above %d",
			plural.Of(r.EarlyStopped, "evaluation"), r.EarlyStopped)
	case r.Ended != "":
		return "; to continue: add data to the stream, or raise data.follow.steps if it is set"
	}
	return "; to continue: -set train.epochs=N with more epochs"
}

// reading prints how rows were read during the steps.
func reading(w io.Writer, r report.Result) {
	in := r.Input
	if in.Threads > 0 {
		fmt.Fprintf(w, "input  %s read up to %d batches ahead, in %.1f s of work\n", plural.Of(in.Threads, "thread"), in.Depth, in.WorkShare*r.TrainSeconds)
	}
	if in.Bad > 0 {
		fmt.Fprintf(w, "input  %s left out\n", plural.Of(int(in.Bad), "bad record"))
	}
	if in.BadFiles > 0 {
		fmt.Fprintf(w, "input  %s left out\n", plural.Of(int(in.BadFiles), "bad file"))
	}
	if in.Lost > 0 {
		fmt.Fprintf(w, "input  %s did not exist any more (data.follow.lost: skip)\n", plural.Of(int(in.Lost), "record"))
	}
}

// tables prints one line with the rows of all tables and the effects of policies.
func tables(w io.Writer, r report.Result) {
	var sum report.TableReport
	for _, t := range r.Tables {
		sum.Rows, sum.Bytes = sum.Rows+t.Rows, sum.Bytes+t.Bytes
		sum.Refused, sum.Evicted, sum.ToDisk = sum.Refused+t.Refused, sum.Evicted+t.Evicted, sum.ToDisk+t.ToDisk
	}
	fmt.Fprintf(w, "tables %d rows, %s; %s of keys, rows and gradients sent", sum.Rows, plan.Bytes(sum.Bytes), plan.Bytes(r.SparseBytesSent))
	if r.Refit != nil {
		fmt.Fprint(w, " in the second training")
	}
	for _, x := range []struct {
		n    int64
		what string
	}{{sum.Refused, "gradients of keys not admitted yet"}, {sum.Evicted, "rows evicted"}, {sum.ToDisk, "rows moved to disk"}} {
		if x.n > 0 {
			fmt.Fprintf(w, "; %d %s", x.n, x.what)
		}
	}
	fmt.Fprintf(w, "\n       %s\n", r.Differs())
}

// printRunDir prints the files of the run directory and the next commands, which begin with
// launcher.
func printRunDir(w io.Writer, launcher string, r report.Result) {
	fmt.Fprintf(w, "\nrun directory  %s\n", r.RunDir)
	for _, f := range r.RunFiles() {
		fmt.Fprintf(w, "  %-15s %s\n", f.Name, f.What)
	}
	next := fmt.Sprintf("%s eval -resume %s", launcher, command.QuotedPath(r.RunDir))
	predict := fmt.Sprintf("%s predict -resume %s -data FILE -out scores.csv", launcher, command.QuotedPath(r.RunDir))
	switch {
	case r.Checkpoint == "":
		return
	case r.Stopped:
		next, predict = fmt.Sprintf("%s train -resume %s", launcher, command.QuotedPath(r.RunDir)), ""
	case r.TestLogLoss == nil:
		next += " -data FILE"
	}
	fmt.Fprintf(w, "next           %s\n", next)
	if predict != "" {
		fmt.Fprintf(w, "               %s\n", predict)
	}
}
