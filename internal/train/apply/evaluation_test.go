package apply

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/internal/train/traintest"
	"github.com/wdlrun/wdlrun/trace"
)

// TestOtherDelimiter: another format has its own delimiter, unless one is set.
func TestOtherDelimiter(t *testing.T) {
	for want, set := range map[string][]string{
		"\t": {"data.header=true"},
		"":   {"data.format=csv"},
		";":  {"data.format=csv", "data.delimiter=;"},
	} {
		c := config.Default()
		c.Data.Format, c.Data.Delimiter = "tsv", "\t"
		o := EvalOptions{Set: set}
		if err := o.readOtherwise(c); err != nil || c.Data.Delimiter != want {
			t.Errorf("%q: delimiter %q, %v; want %q", set, c.Data.Delimiter, err, want)
		}
	}
}

// TestEvaluationOfTheBestEpoch: a run that stopped early is evaluated at its best epoch, and one
// of its checkpoints as it is.
func TestEvaluationOfTheBestEpoch(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short")
	}
	t.Parallel()
	c := traintest.ClicksConfig(t, traintest.Clicks(t, 600), "", ", gate: {metric: auc}, early_stop: {patience: 2, metric: logloss}, optimizer: {deep: {kind: adam, learning_rate: 0.05}, dense: {kind: adam, learning_rate: 0.05}}")
	fatal.If(t, config.Set(c, "train.epochs", "50"))
	res := trained(t, 2, c)
	if res.EarlyStopped != 2 {
		t.Fatalf("%+v", res)
	}
	traintest.OnRanks(t, 3, func(comm *collective.Comm) error {
		for _, from := range []string{res.RunDir, res.Checkpoint} {
			e, err := NewEvaluation(comm, trace.New(0), EvalOptions{Resume: from}).Run(t.Context())
			if err != nil {
				return err
			}
			if e.Checkpoint != res.Checkpoint || from == res.RunDir && (e.Best != res.BestEpoch || e.Trained != res.Steps) {
				return fmt.Errorf("%s: evaluated %s, epoch %d of a training of %d steps; the best is %d, %s", from, e.Checkpoint, e.Best, e.Trained, res.BestEpoch, res.Checkpoint)
			}
			if e.Step >= res.Steps || math.Abs(e.LogLoss-*res.TestLogLoss) > 1e-9 || *e.AUC != *res.TestAUC {
				return fmt.Errorf("%s: step %d, log-loss %v; the training reported %v", from, e.Step, e.LogLoss, *res.TestLogLoss)
			}
		}
		return nil
	})
}

// TestAnyMachineEvaluates: a model trained in bfloat16 can be evaluated on any CPU.
func TestAnyMachineEvaluates(t *testing.T) {
	c := traintest.ClicksConfig(t, traintest.Clicks(t, 300), "", "")
	c.Train.Precision = "bf16"
	fatal.If(t, (&EvalOptions{Data: c.Data.Train}).evaluating(c))
	if err := step.Able(c); err != nil || c.Train.Precision != "fp32" {
		t.Errorf("%s: %v", c.Train.Precision, err)
	}
}

// TestSeveralLabelsTrain: each label is learnt, the results are the same on any number of
// ranks, and an evaluation of the checkpoint repeats them.
func TestSeveralLabelsTrain(t *testing.T) {
	t.Parallel()
	c := traintest.LabelsConfig(t, "label: {field: click, weight: w}\nlabels: [{field: watch, kind: number, loss_weight: 0.1}, {field: visits, kind: number, loss: poisson, loss_weight: 0.5}]")
	var want report.Result
	for _, size := range []int{1, 2, 4} {
		r := trained(t, size, c)
		if size == 1 {
			want = r
			for _, l := range r.Test.Labels {
				if *l.RMSE > 0.9**l.BaseRMSE {
					t.Errorf("%s: RMSE %v, the mean's is %v", l.Label, *l.RMSE, *l.BaseRMSE)
				}
			}
			if *r.Test.NormalisedEntropy > 0.95 || len(r.Test.Labels) != 2 {
				t.Errorf("%+v", r.Test)
			}
		} else if !reflect.DeepEqual(r.Test, want.Test) {
			t.Errorf("%d ranks: %+v, on one %+v", size, r.Test, want.Test)
		}
		err := mem.Run(size, 2, func(comm *collective.Comm) error {
			e, err := NewEvaluation(comm, trace.New(0), EvalOptions{Resume: r.RunDir, Data: c.Data.Test}).Run(context.Background())
			if err == nil && !reflect.DeepEqual(&e.Metrics, r.Test) {
				t.Errorf("%d ranks: evaluated %+v, after training %+v", size, e.Metrics, r.Test)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// TestEvaluationWithoutFields: the data may lack fields of the model.
func TestEvaluationWithoutFields(t *testing.T) {
	t.Parallel()
	lines := func(name, line string, n int) string {
		path := filepath.Join(t.TempDir(), name)
		fatal.If(t, os.WriteFile(path, []byte(strings.Repeat(fmt.Sprintf(line+"\n"+line+"\n", 0, 1), n/2)), 0o644))
		return path
	}
	headed := func(header, path string) string {
		b, err := os.ReadFile(path)
		fatal.If(t, err)
		fatal.If(t, os.WriteFile(path, append([]byte(header+"\n"), b...), 0o644))
		return path
	}
	for _, x := range []struct{ source, train, test, none, has string }{
		{"format: jsonl", lines("train.jsonl", `{"y":%d,"a":1,"b":2}`, 40), lines("test.jsonl", `{"y":%d,"a":1}`, 10), "", "a"},
		{"header: true", headed("y,a,b", lines("train.csv", `%d,1,2`, 40)), headed("c,y,a", lines("test.csv", `7,%d,1`, 10)), headed("y,c", lines("none.csv", `%d,7`, 10)), "c, a"},
	} {
		c, err := config.Parse("absent.yaml", []byte(fmt.Sprintf(`
data: {train: [%q], %s}
label: {field: y}
features: [{field: a, encode: hash}, {field: b, encode: vocabulary}]
model: {embedding_dim: 4, hidden: [8]}
train: {global_batch: 16, epochs: 1}
`, x.train, x.source)))
		fatal.If(t, err)
		var warned []string
		o := EvalOptions{Resume: trained(t, 2, c).RunDir, Data: []string{x.test}, Warn: func(line string) {
			warned = append(warned, line) // only rank 0 warns
		}}
		fatal.If(t, CheckEval(t.Context(), o))
		e := evaluation(t, o)
		want := fmt.Sprintf(`these fields are empty in every record of [%s], so their features have no effect: features[1].field "b"; there are: %s`, x.test, x.has)
		if e.Samples != 10 || !slices.Equal(warned, []string{want}) || !slices.Equal(e.Warnings, warned) {
			t.Errorf("%d samples, warnings %q, in the result %q\nwant %q", e.Samples, warned, e.Warnings, want)
		}
		if o.Data = []string{x.none}; x.none != "" { // has no feature's field: another table
			if err := CheckEval(t.Context(), o); err == nil || !strings.HasPrefix(err.Error(), x.none+`: features[0] (a): there is no field "a"`) {
				t.Errorf("a file without any field of the model: %v", err)
			}
		}
	}
}

// TestDamagedModel: a damaged checkpoint is found before any rank starts if it is named itself.
func TestDamagedModel(t *testing.T) {
	t.Parallel()
	whole := trained(t, 2, traintest.ClicksConfig(t, traintest.Clicks(t, 300), "", ""))
	data := EvalOptions{Resume: whole.RunDir, Data: []string{traintest.Clicks(t, 100)}}
	named := data
	named.Resume = whole.Checkpoint
	fatal.If(t, CheckEval(t.Context(), named))
	files, err := filepath.Glob(filepath.Join(whole.Checkpoint, "rank-*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	b, err := os.ReadFile(files[0])
	fatal.If(t, err)
	b[5000] = ^b[5000]
	fatal.If(t, os.WriteFile(files[0], b, 0o644))
	if err := CheckEval(t.Context(), named); err == nil || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("damaged: %v", err)
	}
	if err := CheckEval(t.Context(), data); err != nil { // an earlier one is intact
		t.Error(err)
	}
}

// TestEvaluationByGroup: groups by a feature or by another field give the same metrics on any
// number of ranks and do not change the other metrics.
func TestEvaluationByGroup(t *testing.T) {
	t.Parallel()
	path := traintest.Clicks(t, 900)
	c := traintest.ClicksConfig(t, path, "", "")
	c.Features = slices.DeleteFunc(c.Features, func(f schema.Feature) bool { return f.Encode == "standardise" })
	res := trained(t, 2, c)
	for _, field := range []string{"site", "tags"} {
		var first EvalResult
		for _, size := range []int{1, 3} {
			traintest.OnRanks(t, size, func(comm *collective.Comm) error {
				plain, err := NewEvaluation(comm, trace.New(0), EvalOptions{Resume: res.RunDir}).Run(context.Background())
				if err != nil {
					return err
				}
				e, err := NewEvaluation(comm, trace.New(0), EvalOptions{Resume: res.RunDir, Group: field}).Run(context.Background())
				if err != nil {
					return err
				}
				if comm.Rank() > 0 {
					return nil
				}
				if size == 1 {
					first = e
				}
				g := e.Groups
				if !reflect.DeepEqual(e.Metrics, plain.Metrics) || !reflect.DeepEqual(g, first.Groups) || !reflect.DeepEqual(e.Unknown, plain.Unknown) || g.Samples+g.OneClassSamples+g.Missing != 900 {
					t.Errorf("%s, %d ranks: %+v, groups %+v; on one rank %+v; without groups %+v", field, size, e, g, first.Groups, plain)
				}
				if field == "site" && (g.GAUC == nil || *g.GAUC < 0.4 || g.Groups < 10) || field == "tags" && g.Missing == 0 && g.Groups < 5 {
					t.Errorf("%s: %+v", field, g)
				}
				return nil
			})
		}
	}
	traintest.OnRanks(t, 1, func(comm *collective.Comm) error {
		_, err := NewEvaluation(comm, trace.New(0), EvalOptions{Resume: res.RunDir, Group: "sight"}).Run(context.Background())
		if err == nil || !strings.Contains(err.Error(), `there is no field "sight"`) {
			t.Errorf("a misspelt field: %v", err)
		}
		return nil
	})
}
