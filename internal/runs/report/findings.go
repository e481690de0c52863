package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/internal/runs"
	"github.com/wdlrun/wdlrun/internal/text/plural"
)

// finding is a warning about a run, with advice. Findings of one kind differ only in numbers
// and names.
type finding struct{ Kind, What, Do string }

// warnings groups the findings of all runs.
func warnings(all []*runView) (out []*warning) {
	groups := map[finding]*warning{} // by Kind and Do
	for _, r := range all {
		for _, f := range r.findings() {
			what := f.What
			f.What = ""
			w := groups[f]
			if w == nil {
				w = &warning{Do: f.Do}
				groups[f], out = w, append(out, w)
			}
			if i := slices.IndexFunc(w.Lines, func(l warningLine) bool { return l.What == what }); i >= 0 {
				w.Lines[i].Runs += ", " + r.Name
			} else {
				w.Lines = append(w.Lines, warningLine{r.Name, what})
			}
		}
	}
	return out
}

// findings returns the warnings about a run.
func (v *runView) findings() (all []finding) {
	add := func(do, format string, args ...any) {
		all = append(all, finding{format, fmt.Sprintf(format, args...), do})
	}
	r := v.Run
	for _, f := range r.Faults {
		add("the other files are shown", "not read: %s", f)
	}
	switch r.State {
	case runs.Killed:
		add("wdlrun -np N train -resume "+r.Dir, "it was killed after step %d, or its host went down", r.Step)
	case runs.Failed:
		if r.Result != nil {
			add("free some space, then: wdlrun -np N train -resume "+r.Dir, "%s: the metrics are of a model that is lost", r.Failure)
			break
		}
		add("read verdict.txt in "+r.Dir+"/failure-…, then: wdlrun -np N train -resume "+r.Dir, "it failed after step %d: %s", r.Step, cmp.Or(r.Failure, "the reason is missing"))
	case runs.Stopped:
		add("wdlrun -np N train -resume "+r.Dir, "it was stopped after step %d", r.Step)
	}
	if v.split != nil && v.split.Stands() {
		add(v.split.Advice(), "%s", v.split.Verdict())
	}
	if n := gaps(r); n > 0 {
		add("lower the learning rates, or set train.clip_norm", "the training loss was not a number in %s of metrics", plural.Of(n, "line"))
	}
	if res := r.Result; res != nil {
		all = append(all, resultFindings(r, res)...)
	}
	return all
}

// gaps returns the number of training points without a finite loss.
func gaps(r *runs.Run) (n int) {
	for _, p := range r.Train {
		if !finite(p.LogLoss) {
			n++
		}
	}
	return n
}

func resultFindings(r *runs.Run, res *runs.Result) (all []finding) {
	add := func(do, format string, args ...any) {
		all = append(all, finding{format, fmt.Sprintf(format, args...), do})
	}
	if len(res.Lost) > 0 {
		add("free some space before the next training", "%s could not be written", strings.Join(res.Lost, ", "))
	}
	if res.Improving != "" {
		add("raise train.epochs", "the validation %s still improved when train.epochs ended the training", res.Improving)
	}
	if best, last, epoch, rises := overfits(r); rises {
		add("set train.early_stop, or fewer train.epochs", "the validation log-loss rose from %.4f to %.4f: the model overfits since epoch %d", best, last, epoch)
	}
	if m, of := r.Evaluation(); m != nil {
		if c := runs.Value(m.Calibration); finite(c) && (c < 0.9 || c > 1.1) {
			add("compare the share of positive labels in the training data and in the evaluated data", "the mean prediction is %.2f times the mean label of the %s data", c, of)
		}
		if e := runs.Value(m.NormalisedEntropy); e >= 1 {
			add("check the label and the features: wdlrun data check", "the normalised entropy is %.3f: predicting the base rate is at least as good", e)
		}
	} else {
		add("name files in data.test, or set data.valid_fraction", "there is no evaluation: the quality of the model is not known")
	}
	if res.InputWaitShare > 0.1 {
		add("plain files are read faster than packed ones; more ranks read more in parallel", "ranks waited for input in %.0f %% of the time of steps", 100*res.InputWaitShare)
	}
	for _, s := range res.SlowRanks {
		phase := s.Cause
		if phase == "host" {
			phase = "compute, because its host does not let it compute,"
		}
		add("look at the load of its host, or use -backup 1", "rank %d was %.1f times slower than the others in %s for %.0f %% of the time", s.Rank, s.Factor, phase, 100*s.Share)
	}
	for _, l := range res.LossyLinks {
		add("check the cables, network cards and switch ports of both, or choose another network with -net", "the link from host %s to host %s lost packets: %.1f %% were sent again, for %.0f %% of the time", l.From, l.To, 100*l.Resent, 100*l.Share)
	}
	if res.Imbalance > 1.5 {
		add("compare the plan: train -plan", "the busiest owner of rows carries %.2f times the mean", res.Imbalance)
	}
	if res.Input.Bad > 0 {
		add("wdlrun data check names them", "%d records could not be used and were left out", res.Input.Bad)
	}
	for _, name := range slices.Sorted(maps.Keys(res.TestUnknown)) {
		n := res.TestUnknown[name]
		if res.Test != nil && res.Test.Samples > 0 && float64(n) > float64(0.1*float64(res.Test.Samples)) {
			add("train on newer data, or hash the feature into fewer buckets", "%.0f %% of the test samples have a value of %s that training has not seen", 100*float64(n)/float64(res.Test.Samples), name)
		}
	}
	for _, t := range res.Tables {
		if r.About.From == "" && t.Planned.Rows > 0 && float64(t.Rows) > float64(1.5*float64(t.Planned.Rows)) {
			add("plan the memory of larger trainings with more of the data", "table %s has %d rows, %.1f times the planned %d", t.Name, t.Rows, float64(t.Rows)/float64(t.Planned.Rows), t.Planned.Rows)
		}
	}
	for _, line := range res.Warnings {
		all = append(all, finding{Kind: line, What: line})
	}
	return all
}
