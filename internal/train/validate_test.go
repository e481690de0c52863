package train

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/internal/train/save"
	"github.com/wdlrun/wdlrun/internal/train/traintest"
	"github.com/wdlrun/wdlrun/trace"
)

// evaluatedAt returns the steps after which the validation data was evaluated.
func evaluatedAt(t *testing.T, r report.Result) (steps []int64) {
	for _, l := range lines(t, r.RunDir, "valid") {
		steps = append(steps, l.Step)
	}
	return steps
}

// TestEvaluationInSteps: the validation data is evaluated every N steps, counted over epochs,
// and at the end. The training is the same as without evaluations, also in slots.
func TestEvaluationInSteps(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	path := traintest.Clicks(t, 600)
	for _, x := range []struct {
		ranks int
		more  string
	}{{1, ""}, {3, ""}, {2, ", slots: 4"}} {
		want := runJob(t, x.ranks, Options{Config: traintest.ClicksConfig(t, path, "", x.more)})
		got := runJob(t, x.ranks, Options{Config: traintest.ClicksConfig(t, path, "", x.more+", eval_steps: 3")})
		if got.Steps != want.Steps || *got.TestAUC != *want.TestAUC || got.TrainLogLoss != want.TrainLogLoss || *got.ValidLogLoss != *want.ValidLogLoss {
			t.Errorf("%d ranks%s: evaluations change the training: %+v, without %+v", x.ranks, x.more, got, want)
		}
		var steps []int64
		for s := int64(3); s <= got.Steps; s += 3 {
			steps = append(steps, s)
		}
		if got.Steps%3 != 0 {
			steps = append(steps, got.Steps)
		}
		if at := evaluatedAt(t, got); !slices.Equal(at, steps) {
			t.Errorf("%d ranks%s: evaluated after steps %v of %d, want %v", x.ranks, x.more, at, got.Steps, steps)
		}
	}
}

// overfitting returns a configuration whose validation loss soon rises, with evaluations
// inside epochs.
func overfitting(t *testing.T, patience int) *config.Config {
	c := traintest.ClicksConfig(t, traintest.Clicks(t, 600), "", fmt.Sprintf(", eval_steps: 3, early_stop: {patience: %d}, optimizer: {deep: {learning_rate: 0.05}, dense: {learning_rate: 0.05}}", patience))
	fatal.If(t, config.Set(c, "train.epochs", "50"))
	return c
}

// TestEarlyStopInsideAnEpoch: the training ends inside an epoch with the result of the best
// evaluated step, also if it is resumed from any earlier checkpoint.
func TestEarlyStopInsideAnEpoch(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	var said []string
	res := runJob(t, 2, Options{Config: overfitting(t, 4), Say: func(line string) { said = append(said, line) }})
	valid := lines(t, res.RunDir, "valid")
	best := slices.MinFunc(valid, func(a, b report.Line) int { return int(1e9 * (a.LogLoss - b.LogLoss)) })
	if last := valid[len(valid)-1].Step; res.BestStep != best.Step || last != best.Step+4*3 || last != res.Steps || *res.ValidLogLoss != best.LogLoss || res.EarlyStopped != 4 {
		t.Errorf("the best step is %d, the step of the result %d of %d; evaluated %d times, early stopped after %d", best.Step, res.BestStep, res.Steps, len(valid), res.EarlyStopped)
	}
	if want := fmt.Sprintf("; no better for 4 evaluations: step %d was the best", best.Step); !strings.HasSuffix(said[len(said)-1], want) {
		t.Errorf("line %q, want %q", said[len(said)-1], want)
	}
	at := slices.IndexFunc(said, func(line string) bool { return strings.HasPrefix(line, fmt.Sprintf("step %d: ", best.Step)) })
	if want := fmt.Sprintf("train log-loss %.4f in this epoch so far", res.TrainLogLoss); at < 0 || !strings.Contains(said[at], want) {
		t.Errorf("no %q in the line of the best step: %q", want, said)
	}
	all, err := checkpoint.List(filepath.Join(res.RunDir, checkpoint.Folder))
	fatal.If(t, err)
	for _, from := range all {
		if from.Step == res.Steps { // early stopping has ended it
			err := mem.Run(2, 2, func(comm *collective.Comm) error {
				_, err := NewJob(comm, trace.New(0), Options{Resume: from.Dir, Out: t.TempDir()}).Run(t.Context())
				return err
			})
			if err == nil || !strings.Contains(err.Error(), "nothing to train") {
				t.Errorf("resumed at the end: %v", err)
			}
			continue
		}
		again := runJob(t, 2, Options{Resume: from.Dir})
		if again.BestStep != res.BestStep || again.Steps != res.Steps || *again.TestAUC != *res.TestAUC {
			t.Errorf("resumed from %s: best step %d of %d, AUC %v; uninterrupted %d of %d, %v",
				filepath.Base(from.Dir), again.BestStep, again.Steps, *again.TestAUC, res.BestStep, res.Steps, *res.TestAUC)
		}
	}
}

// TestEvaluationInStepsOutlivesALoss: if a rank is lost near evaluations inside epochs, the
// result is the same as without the loss.
func TestEvaluationInStepsOutlivesALoss(t *testing.T) {
	patient.Long(t)
	everyday(t)
	t.Parallel()
	const size, victim = 2, 0
	opt := Options{Config: overfitting(t, 4)}
	want, exchanges, _ := deaths{}.run(t, size, opt)
	for at := exchanges / 4; at < exchanges; at += exchanges / 11 {
		got, _, _ := deaths{{victim, at, victim}}.run(t, size, opt)
		if got.Healed != 1 || got.BestStep != want.BestStep || *got.TestAUC != *want.TestAUC || got.Steps != want.Steps {
			t.Errorf("a rank was lost after %d of %d exchanges: healed %d times, best step %d of %d, AUC %v; without: %d of %d, %v",
				at, exchanges, got.Healed, got.BestStep, got.Steps, *got.TestAUC, want.BestStep, want.Steps, *want.TestAUC)
		}
	}
}

// TestTheLimitOfEpochs: the result reports whether the metric still improved when the epochs
// ended.
func TestTheLimitOfEpochs(t *testing.T) {
	t.Parallel()
	path := traintest.Clicks(t, 600)
	slow := traintest.ClicksConfig(t, path, "", ", optimizer: {deep: {learning_rate: 0.0001}, dense: {learning_rate: 0.0001}, wide: {learning_rate: 0.0001}}")
	if res := runJob(t, 1, Options{Config: slow}); res.Improving != "log-loss" {
		t.Errorf("a slow training still improves %q", res.Improving)
	}
	slow.Train.EarlyStop.Metric = "auc"
	if res := runJob(t, 1, Options{Config: slow}); res.Improving == "log-loss" {
		t.Errorf("a slow training that watches the AUC still improves %q", res.Improving)
	}
	if res := runJob(t, 1, Options{Config: overfitting(t, 4)}); res.Improving != "" {
		t.Errorf("a training that early stopping has ended still improves %q", res.Improving)
	}
}

// TestHoldOutByAField: the same rows are held out on any number of ranks, after a resume, and
// on ranks that replaced lost ones. Features are fitted to the other rows.
func TestHoldOutByAField(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	path := traintest.Clicks(t, 600)
	for _, by := range []string{"valid_time=age", "valid_group=site"} {
		c := traintest.ClicksConfig(t, path, "", "")
		_, err := config.SetAll(c, []string{"data." + by})
		fatal.If(t, err)
		var said []string
		want := runJob(t, 1, Options{Config: c, Say: func(line string) { said = append(said, line) }})
		if n := want.Valid.Samples; n < 60 || n > 180 || want.Samples != 3*(600-n) {
			t.Errorf("%s: %d of 600 rows are held out, %d samples are trained on", by, n, want.Samples)
		}
		if by == "valid_time=age" && !strings.HasPrefix(said[0], fmt.Sprintf("validation on the newest %d of ", want.Valid.Samples)) {
			t.Errorf("printed %q", said[0])
		}
		many := runJob(t, 3, Options{Config: c})
		again := runJob(t, 2, Options{Resume: checkpoint.Dir(filepath.Join(many.RunDir, checkpoint.Folder), many.Steps/3)})
		healed, _, _ := deaths{{1, 100, 1}}.run(t, 2, Options{Config: c})
		for name, got := range map[string]report.Result{"3 ranks": many, "resumed": again, "healed": healed} {
			if got.Valid.Samples != want.Valid.Samples || got.Valid.Positives != want.Valid.Positives || got.Samples != want.Samples {
				t.Errorf("%s: %s: %d held out, %d positive; on one rank %d, %d", by, name, got.Valid.Samples, got.Valid.Positives, want.Valid.Samples, want.Valid.Positives)
			}
		}
		if a, b := encoderIn(t, want), encoderIn(t, many); !slices.Equal(a, b) {
			t.Errorf("%s: features are fitted to different rows on 3 ranks", by)
		}
	}
}

// encoderIn returns the encoder in the last checkpoint of a run.
func encoderIn(t *testing.T, r report.Result) []byte {
	t.Helper()
	c, err := checkpoint.Open(r.Checkpoint)
	fatal.If(t, err)
	b, err := save.Read(c, save.SectionEncoder)
	fatal.If(t, err)
	return b
}

// TestFewPositives: a training with few validation rows of a class warns, and names the remedy.
func TestFewPositives(t *testing.T) {
	t.Parallel()
	path := traintest.Clicks(t, 600)
	for fraction, want := range map[float64]string{0.05: "raise data.valid_fraction, now 0.05, or name files in data.valid", 0.4: ""} {
		c := traintest.ClicksConfig(t, path, "", "")
		c.Data.ValidFraction, c.Data.Valid, c.Train.Epochs = fraction, nil, 1
		var warned []string
		runJob(t, 2, Options{Config: c, Warn: func(line string) { warned = append(warned, line) }})
		if all := strings.Join(warned, "\n"); strings.Contains(all, "validation rows have the label") != (want != "") || !strings.Contains(all, want) {
			t.Errorf("%v: warned %q, want %q", fraction, warned, want)
		}
	}
}
